from typing import Any

import pytest

from ottla.model import ACLOperation
from ottla.security import authorizer as authorizers
from ottla.security.acl import ACL, ACLPermissionType, ACLResourcePatternType, ResourcePattern, ResourceType
from ottla.security.authorizer import AuthorizableClient, Authorizer

ALICE, BOB = AuthorizableClient("User:alice", "10.0.0.1"), AuthorizableClient("User:bob", "10.0.0.2")
TOPIC, LITERAL, PREFIXED = ResourceType.TOPIC, ACLResourcePatternType.LITERAL, ACLResourcePatternType.PREFIXED
ALLOW, DENY = ACLPermissionType.ALLOW, ACLPermissionType.DENY


def make_acl(
    operation: ACLOperation,
    name: str = "t",
    *,
    principal: str = "User:alice",
    host: str = "*",
    permission: ACLPermissionType = ALLOW,
    pattern: ACLResourcePatternType = LITERAL,
) -> ACL:
    return ACL(principal, host, operation, permission, ResourcePattern(TOPIC, name, pattern))


def authorizer_with(*acls: ACL, allow_everyone: bool = False, super_users: tuple[str, ...] = ()) -> Authorizer:
    authorizer = Authorizer(super_users, allow_everyone=allow_everyone)
    authorizer.replace(acls)
    return authorizer


def test_without_acls_only_super_users_are_allowed() -> None:
    authorizer = authorizer_with(super_users=("User:alice",))
    assert authorizer.allows(ALICE, ACLOperation.DELETE, TOPIC, "t")
    assert not authorizer.allows(BOB, ACLOperation.READ, TOPIC, "t")
    assert authorizer_with(allow_everyone=True).allows(BOB, ACLOperation.READ, TOPIC, "t")


def test_acl_on_a_resource_overrides_allow_everyone() -> None:
    authorizer = authorizer_with(make_acl(ACLOperation.READ), allow_everyone=True)
    assert not authorizer.allows(BOB, ACLOperation.READ, TOPIC, "t")
    assert authorizer.allows(BOB, ACLOperation.READ, TOPIC, "other")


@pytest.mark.parametrize(
    ("acl", "allowed"),
    [
        (make_acl(ACLOperation.READ), True),
        (make_acl(ACLOperation.ALL), True),
        (make_acl(ACLOperation.READ, "*"), True),
        (make_acl(ACLOperation.READ, "", pattern=PREFIXED), True),
        (make_acl(ACLOperation.READ, "t", pattern=PREFIXED), True),
        (make_acl(ACLOperation.READ, principal="User:*"), True),
        (make_acl(ACLOperation.READ, host="10.0.0.1"), True),
        (make_acl(ACLOperation.WRITE), False),
        (make_acl(ACLOperation.READ, "t2"), False),
        (make_acl(ACLOperation.READ, "t2", pattern=PREFIXED), False),
        (make_acl(ACLOperation.READ, principal="User:bob"), False),
        (make_acl(ACLOperation.READ, principal="Group:alice"), False),
        (make_acl(ACLOperation.READ, host="10.0.0.2"), False),
    ],
)
def test_acl_allows_only_its_principal_host_operation_and_resource(acl: ACL, allowed: bool) -> None:
    assert authorizer_with(acl).allows(ALICE, ACLOperation.READ, TOPIC, "t") is allowed


def test_deny_acl_takes_precedence_over_allow_acls() -> None:
    authorizer = authorizer_with(
        make_acl(ACLOperation.ALL),
        make_acl(ACLOperation.READ, "*", principal="User:*", permission=DENY, host="10.0.0.1"),
    )
    assert not authorizer.allows(ALICE, ACLOperation.READ, TOPIC, "t")
    assert authorizer.allows(ALICE, ACLOperation.WRITE, TOPIC, "t")


def test_describe_is_implied_by_other_operations_but_not_denied_by_them() -> None:
    for operation in (ACLOperation.READ, ACLOperation.WRITE, ACLOperation.DELETE, ACLOperation.ALTER):
        assert authorizer_with(make_acl(operation)).allows(ALICE, ACLOperation.DESCRIBE, TOPIC, "t")
    denied = authorizer_with(make_acl(ACLOperation.WRITE), make_acl(ACLOperation.READ, permission=DENY))
    assert denied.allows(ALICE, ACLOperation.DESCRIBE, TOPIC, "t")
    assert not authorizer_with(make_acl(ACLOperation.CREATE)).allows(ALICE, ACLOperation.DESCRIBE, TOPIC, "t")
    assert authorizer_with(make_acl(ACLOperation.ALTER_CONFIGS)).allows(
        ALICE, ACLOperation.DESCRIBE_CONFIGS, TOPIC, "t"
    )


@pytest.mark.parametrize(
    ("acls", "allowed"),
    [
        ([], False),
        ([make_acl(ACLOperation.WRITE)], True),
        ([make_acl(ACLOperation.READ)], False),
        ([make_acl(ACLOperation.WRITE), make_acl(ACLOperation.WRITE, permission=DENY)], False),
        ([make_acl(ACLOperation.WRITE), make_acl(ACLOperation.WRITE, "*", permission=DENY)], False),
        ([make_acl(ACLOperation.WRITE, "*"), make_acl(ACLOperation.WRITE, "t", permission=DENY)], True),
        ([make_acl(ACLOperation.WRITE), make_acl(ACLOperation.ALL, "", pattern=PREFIXED, permission=DENY)], False),
        (
            [
                make_acl(ACLOperation.WRITE, "t-a", pattern=PREFIXED),
                make_acl(ACLOperation.WRITE, "t-", pattern=PREFIXED, permission=DENY),
            ],
            False,
        ),
        (
            [
                make_acl(ACLOperation.WRITE, "t-", pattern=PREFIXED),
                make_acl(ACLOperation.WRITE, "t-a", pattern=PREFIXED, permission=DENY),
            ],
            True,
        ),
    ],
)
def test_write_to_any_topic_is_allowed_unless_deny_acls_cover_all_allow_acls(acls: list[ACL], allowed: bool) -> None:
    assert authorizer_with(*acls).allows_some(ALICE, ACLOperation.WRITE, TOPIC) is allowed


def test_cached_decisions_follow_acl_changes_and_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authorizers, "MAX_REMEMBERED", 3)
    authorizer = authorizer_with(make_acl(ACLOperation.READ))
    assert authorizer.allows(ALICE, ACLOperation.READ, TOPIC, "t")
    for name in "abcdefgh":
        assert not authorizer.allows(ALICE, ACLOperation.READ, TOPIC, name)
    assert len(authorizer._answers) <= 3
    authorizer.replace([])
    assert not authorizer.allows(ALICE, ACLOperation.READ, TOPIC, "t")


def test_prefix_lookup_of_a_long_name_tries_known_lengths_only_and_is_not_cached() -> None:
    class Name(str):
        slices = 0

        def __getitem__(self, key: Any) -> str:
            Name.slices += 1
            return super().__getitem__(key)

    authorizer = Authorizer()
    patterns = [
        ResourcePattern(ResourceType.TOPIC, prefix, ACLResourcePatternType.PREFIXED) for prefix in ("a", "bb", "x" * 9)
    ]
    authorizer.replace(ACL("User:alice", "*", ACLOperation.READ, ACLPermissionType.ALLOW, p) for p in patterns)
    alice = AuthorizableClient("User:alice", "127.0.0.1")
    assert authorizer.allows(alice, ACLOperation.READ, ResourceType.TOPIC, Name("x" * 32_000))
    assert Name.slices == 3
    assert not authorizer._answers
