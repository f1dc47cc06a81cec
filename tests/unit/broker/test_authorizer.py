from typing import Any

import pytest

from ottla.model import ACLOperation
from ottla.security import authorizer as authorizers
from ottla.security.acl import ACL, ACLPermissionType, ACLResourcePatternType, ResourcePattern, ResourceType
from ottla.security.authorizer import AuthorizableClient, Authorizer

ALICE, BOB = AuthorizableClient("User:alice", "10.0.0.1"), AuthorizableClient("User:bob", "10.0.0.2")
TOPIC, LITERAL, PREFIXED = ResourceType.TOPIC, ACLResourcePatternType.LITERAL, ACLResourcePatternType.PREFIXED
ALLOW, DENY = ACLPermissionType.ALLOW, ACLPermissionType.DENY


def rule(
    operation: ACLOperation,
    name: str = "t",
    *,
    principal: str = "User:alice",
    host: str = "*",
    permission: ACLPermissionType = ALLOW,
    pattern: ACLResourcePatternType = LITERAL,
) -> ACL:
    return ACL(principal, host, operation, permission, ResourcePattern(TOPIC, name, pattern))


def with_rules(*acls: ACL, allow_everyone: bool = False, super_users: tuple[str, ...] = ()) -> Authorizer:
    authorizer = Authorizer(super_users, allow_everyone=allow_everyone)
    authorizer.replace(acls)
    return authorizer


def test_without_a_rule_nothing_is_allowed_but_to_super_users() -> None:
    authorizer = with_rules(super_users=("User:alice",))
    assert authorizer.allows(ALICE, ACLOperation.DELETE, TOPIC, "t")
    assert not authorizer.allows(BOB, ACLOperation.READ, TOPIC, "t")
    assert with_rules(allow_everyone=True).allows(BOB, ACLOperation.READ, TOPIC, "t")


def test_what_a_rule_is_about_is_not_everybodys_any_more() -> None:
    authorizer = with_rules(rule(ACLOperation.READ), allow_everyone=True)
    assert not authorizer.allows(BOB, ACLOperation.READ, TOPIC, "t")
    assert authorizer.allows(BOB, ACLOperation.READ, TOPIC, "other")


@pytest.mark.parametrize(
    ("acl", "allowed"),
    [
        (rule(ACLOperation.READ), True),
        (rule(ACLOperation.ALL), True),
        (rule(ACLOperation.READ, "*"), True),
        (rule(ACLOperation.READ, "", pattern=PREFIXED), True),
        (rule(ACLOperation.READ, "t", pattern=PREFIXED), True),
        (rule(ACLOperation.READ, principal="User:*"), True),
        (rule(ACLOperation.READ, host="10.0.0.1"), True),
        (rule(ACLOperation.WRITE), False),
        (rule(ACLOperation.READ, "t2"), False),
        (rule(ACLOperation.READ, "t2", pattern=PREFIXED), False),
        (rule(ACLOperation.READ, principal="User:bob"), False),
        (rule(ACLOperation.READ, principal="Group:alice"), False),
        (rule(ACLOperation.READ, host="10.0.0.2"), False),
    ],
)
def test_a_rule_allows_who_and_what_it_names(acl: ACL, allowed: bool) -> None:
    assert with_rules(acl).allows(ALICE, ACLOperation.READ, TOPIC, "t") is allowed


def test_a_rule_that_denies_wins() -> None:
    authorizer = with_rules(
        rule(ACLOperation.ALL), rule(ACLOperation.READ, "*", principal="User:*", permission=DENY, host="10.0.0.1")
    )
    assert not authorizer.allows(ALICE, ACLOperation.READ, TOPIC, "t")
    assert authorizer.allows(ALICE, ACLOperation.WRITE, TOPIC, "t")


def test_to_describe_is_implied_but_not_forbidden_by_others() -> None:
    for operation in (ACLOperation.READ, ACLOperation.WRITE, ACLOperation.DELETE, ACLOperation.ALTER):
        assert with_rules(rule(operation)).allows(ALICE, ACLOperation.DESCRIBE, TOPIC, "t")
    denied = with_rules(rule(ACLOperation.WRITE), rule(ACLOperation.READ, permission=DENY))
    assert denied.allows(ALICE, ACLOperation.DESCRIBE, TOPIC, "t")
    assert not with_rules(rule(ACLOperation.CREATE)).allows(ALICE, ACLOperation.DESCRIBE, TOPIC, "t")
    assert with_rules(rule(ACLOperation.ALTER_CONFIGS)).allows(ALICE, ACLOperation.DESCRIBE_CONFIGS, TOPIC, "t")


@pytest.mark.parametrize(
    ("acls", "allowed"),
    [
        ([], False),
        ([rule(ACLOperation.WRITE)], True),
        ([rule(ACLOperation.READ)], False),
        ([rule(ACLOperation.WRITE), rule(ACLOperation.WRITE, permission=DENY)], False),
        ([rule(ACLOperation.WRITE), rule(ACLOperation.WRITE, "*", permission=DENY)], False),
        ([rule(ACLOperation.WRITE, "*"), rule(ACLOperation.WRITE, "t", permission=DENY)], True),
        ([rule(ACLOperation.WRITE), rule(ACLOperation.ALL, "", pattern=PREFIXED, permission=DENY)], False),
        (
            [
                rule(ACLOperation.WRITE, "t-a", pattern=PREFIXED),
                rule(ACLOperation.WRITE, "t-", pattern=PREFIXED, permission=DENY),
            ],
            False,
        ),
        (
            [
                rule(ACLOperation.WRITE, "t-", pattern=PREFIXED),
                rule(ACLOperation.WRITE, "t-a", pattern=PREFIXED, permission=DENY),
            ],
            True,
        ),
    ],
)
def test_some_topic_may_be_written_unless_a_rule_takes_all_of_them_back(acls: list[ACL], allowed: bool) -> None:
    assert with_rules(*acls).allows_some(ALICE, ACLOperation.WRITE, TOPIC) is allowed


def test_answers_follow_the_rules_and_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authorizers, "MAX_REMEMBERED", 3)
    authorizer = with_rules(rule(ACLOperation.READ))
    assert authorizer.allows(ALICE, ACLOperation.READ, TOPIC, "t")
    for name in "abcdefgh":
        assert not authorizer.allows(ALICE, ACLOperation.READ, TOPIC, name)
    assert len(authorizer._answers) <= 3
    authorizer.replace([])
    assert not authorizer.allows(ALICE, ACLOperation.READ, TOPIC, "t")


def test_prefixes_of_a_long_name_are_looked_up_by_their_lengths_and_nothing_is_remembered() -> None:
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
