"""Filters of ACLs and resource patterns."""

import pytest

from ottla.model import ACLOperation
from ottla.security.acl import (
    ACL,
    ACLFilter,
    ACLPermissionType,
    ACLResourcePatternType,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
)

TOPIC, GROUP, ANY_TYPE = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.ANY
ANY, MATCH, LITERAL, PREFIXED = (
    ACLResourcePatternType.ANY,
    ACLResourcePatternType.MATCH,
    ACLResourcePatternType.LITERAL,
    ACLResourcePatternType.PREFIXED,
)
EXACT, WILDCARD, SHORT, SAME = (
    ResourcePattern(TOPIC, "orders", LITERAL),
    ResourcePattern(TOPIC, "*", LITERAL),
    ResourcePattern(TOPIC, "ord", PREFIXED),
    ResourcePattern(TOPIC, "orders", PREFIXED),
)


@pytest.mark.parametrize(
    ("pattern_type", "name", "expected"),
    [
        (LITERAL, "orders", {EXACT}),
        (LITERAL, "*", {WILDCARD}),
        (LITERAL, "ord", set()),
        (LITERAL, None, {EXACT, WILDCARD}),
        (PREFIXED, "orders", {SAME}),
        (PREFIXED, "ord", {SHORT}),
        (PREFIXED, None, {SHORT, SAME}),
        (ANY, "orders", {EXACT, SAME}),
        (ANY, "ord", {SHORT}),
        (ANY, None, {EXACT, WILDCARD, SHORT, SAME}),
        (MATCH, "orders", {EXACT, WILDCARD, SHORT, SAME}),
        (MATCH, "orders-eu", {WILDCARD, SHORT, SAME}),
        (MATCH, "ord", {WILDCARD, SHORT}),
        (MATCH, "other", {WILDCARD}),
        (MATCH, None, {EXACT, WILDCARD, SHORT, SAME}),
    ],
)
def test_resource_pattern_filter_matches_the_expected_patterns(
    pattern_type: ACLResourcePatternType, name: str | None, expected: set[ResourcePattern]
) -> None:
    patterns = {EXACT, WILDCARD, SHORT, SAME}
    assert {p for p in patterns if ResourcePatternFilter(TOPIC, name, pattern_type).matches(p)} == expected
    assert {p for p in patterns if ResourcePatternFilter(ANY_TYPE, name, pattern_type).matches(p)} == expected
    assert not any(ResourcePatternFilter(GROUP, name, pattern_type).matches(p) for p in patterns)


READ_ACL = ACL("User:alice", "10.0.0.1", ACLOperation.READ, ACLPermissionType.ALLOW, EXACT)


@pytest.mark.parametrize(
    ("acl_filter", "expected"),
    [
        (ACLFilter(), True),
        (ACLFilter(principal="User:alice", host="10.0.0.1"), True),
        (ACLFilter(operation=ACLOperation.READ, permission_type=ACLPermissionType.ALLOW), True),
        (ACLFilter(resource_pattern=EXACT), True),
        (ACLFilter(principal="User:*"), False),
        (ACLFilter(host="*"), False),
        (ACLFilter(operation=ACLOperation.ALL), False),
        (ACLFilter(permission_type=ACLPermissionType.DENY), False),
        (ACLFilter(resource_pattern=WILDCARD), False),
    ],
)
def test_acl_filter_matches_by_each_field(acl_filter: ACLFilter, expected: bool) -> None:
    assert acl_filter.matches(READ_ACL) is expected
