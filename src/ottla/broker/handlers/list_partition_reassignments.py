"""ListPartitionReassignments: partitions that are on their way; on one node none ever is. Served in all versions."""

from __future__ import annotations

from ottla.broker.services import Call
from ottla.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)


def handle(request: ListPartitionReassignmentsRequest, call: Call) -> ListPartitionReassignmentsResponse:
    """A move to where the partition is already ends as soon as it is asked for."""
    return ListPartitionReassignmentsResponse(error_message=None)
