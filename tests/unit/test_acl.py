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
    ("how", "name", "met"),
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
def test_which_patterns_a_filter_meets(
    how: ACLResourcePatternType, name: str | None, met: set[ResourcePattern]
) -> None:
    patterns = {EXACT, WILDCARD, SHORT, SAME}
    assert {p for p in patterns if ResourcePatternFilter(TOPIC, name, how).matches(p)} == met
    assert {p for p in patterns if ResourcePatternFilter(ANY_TYPE, name, how).matches(p)} == met
    assert not any(ResourcePatternFilter(GROUP, name, how).matches(p) for p in patterns)


RULE = ACL("User:alice", "10.0.0.1", ACLOperation.READ, ACLPermissionType.ALLOW, EXACT)


@pytest.mark.parametrize(
    ("expected", "met"),
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
def test_which_rules_a_filter_meets(expected: ACLFilter, met: bool) -> None:
    assert expected.matches(RULE) is met
