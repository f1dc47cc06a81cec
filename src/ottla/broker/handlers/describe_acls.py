"""DescribeAcls: answered as Kafka does without an authorizer. Served in all versions."""

from __future__ import annotations

from ottla.broker.services import Call
from ottla.errors import SecurityDisabledError
from ottla.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse


def handle(request: DescribeAclsRequest, call: Call) -> DescribeAclsResponse:
    """There are no rules."""
    raise SecurityDisabledError(NO_AUTHORIZER)


NO_AUTHORIZER = "No Authorizer is configured."
"""What Kafka says."""
