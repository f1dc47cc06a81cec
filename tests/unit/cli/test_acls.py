"""`ottla acls` with an admin client that keeps ACLs in memory."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any

import pytest

from ottla.cli.main import main
from ottla.errors import ClusterAuthorizationFailedError
from ottla.model import ACLOperation
from ottla.security.acl import (
    ACL,
    CLUSTER_NAME,
    ACLFilter,
    ACLPermissionType,
    ACLResourcePatternType,
    ResourcePattern,
)
from ottla.security.acl import ResourceType as Kind

AT = ("--bootstrap-server", "127.0.0.1:1")
ALLOW, DENY = ACLPermissionType.ALLOW, ACLPermissionType.DENY
READ, WRITE, DESCRIBE, CREATE = ACLOperation.READ, ACLOperation.WRITE, ACLOperation.DESCRIBE, ACLOperation.CREATE
LITERAL = ACLResourcePatternType.LITERAL
T = "ResourcePattern(resourceType=TOPIC, name=t, patternType=LITERAL)"
G = "ResourcePattern(resourceType=GROUP, name=g, patternType=LITERAL)"


class Admin:
    """Keeps ACLs in memory, and records the filters and options of the calls."""

    def __init__(self) -> None:
        self.acls: set[ACL] = set()
        self.filters: list[ACLFilter] = []
        self.options: dict[str, Any] = {}

    def __call__(self, options: dict[str, Any]) -> Admin:
        self.options = options
        return self

    def __enter__(self) -> Admin:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        pass

    def describe_acls(self, acl_filter: ACLFilter) -> list[ACL]:
        self.filters.append(acl_filter)
        return [acl for acl in self.acls if acl_filter.matches(acl)]

    def create_acls(self, new: Iterable[ACL]) -> None:
        for acl in new:
            acl.check()
            self.acls.add(acl)

    def delete_acls(self, filters: list[ACLFilter]) -> dict[ACLFilter, list[ACL]]:
        result = {acl_filter: self.describe_acls(acl_filter) for acl_filter in filters}
        self.acls -= {acl for matching in result.values() for acl in matching}
        return result


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> Admin:
    fake = Admin()
    monkeypatch.setattr("ottla.cli.framework.admin_command.KafkaAdminClient", fake)
    return fake


Acls = Callable[..., str]


@pytest.fixture
def acls(admin: Admin, capsys: pytest.CaptureFixture[str]) -> Acls:
    def run(*arguments: str, code: int = 0) -> str:
        assert main(["acls", *AT, *arguments]) == code
        printed = capsys.readouterr()
        return printed.err if code else printed.out

    return run


def acl(
    kind: Kind,
    name: str,
    operation: ACLOperation,
    principal: str = "User:a",
    host: str = "*",
    permission: ACLPermissionType = ALLOW,
) -> ACL:
    return ACL(principal, host, operation, permission, ResourcePattern(kind, name, LITERAL))


def test_add_creates_an_acl_per_resource_operation_and_principal(acls: Acls, admin: Admin) -> None:
    output = acls(
        *("--add", "--topic", "t", "--group", "g", "--operation", "Read", "--operation", "describe"),
        *("--allow-principal", "User:a", "--allow-host", "h1", "--allow-host", "h2", "--deny-principal", "User:b"),
    )
    assert admin.acls == {
        acl(kind, name, operation, principal, host, permission)
        for kind, name in ((Kind.TOPIC, "t"), (Kind.GROUP, "g"))
        for operation in (READ, DESCRIBE)
        for principal, host, permission in (("User:a", "h1", ALLOW), ("User:a", "h2", ALLOW), ("User:b", "*", DENY))
    }
    assert output.startswith(
        f"Adding ACLs for resource `{T}`: \n \t(principal=User:a, host=h1, operation=READ, permissionType=ALLOW)\n\t("
    )
    assert f"permissionType=DENY)\n\nAdding ACLs for resource `{G}`: \n" in output


def test_add_reports_an_acl_that_already_exists(acls: Acls, admin: Admin) -> None:
    add = ("--add", "--topic", "t", "--allow-principal", "User:a")
    acls(*add, "--operation", "Read")
    output = acls(*add, "--operation", "Read", "--operation", "Write")
    entry = "(principal=User:a, host=*, operation={}, permissionType=ALLOW)"
    assert output == (
        f"Acl (pattern={T}, entry={entry.format('READ')}) already exists.\n"
        f"Adding ACLs for resource `{T}`: \n \t{entry.format('WRITE')}\n\n"
    )
    assert admin.acls == {acl(Kind.TOPIC, "t", READ), acl(Kind.TOPIC, "t", WRITE)}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--topic", "*"), {acl(Kind.TOPIC, "*", ACLOperation.ALL)}),
        (
            ("--cluster", "--operation", "ClusterAction"),
            {acl(Kind.CLUSTER, CLUSTER_NAME, ACLOperation.CLUSTER_ACTION)},
        ),
        (("--transactional-id", "x"), {acl(Kind.TRANSACTIONAL_ID, "x", ACLOperation.ALL)}),
        (("--delegation-token", "x"), {acl(Kind.DELEGATION_TOKEN, "x", ACLOperation.ALL)}),
        (
            ("--user-principal", "User:x", "--operation", "CREATE_TOKENS"),
            {acl(Kind.USER, "User:x", ACLOperation.CREATE_TOKENS)},
        ),
        (
            ("--producer", "--topic", "t", "--transactional-id", "x", "--idempotent"),
            {
                *(acl(Kind.TOPIC, "t", operation) for operation in (WRITE, DESCRIBE, CREATE)),
                *(acl(Kind.TRANSACTIONAL_ID, "x", operation) for operation in (WRITE, DESCRIBE)),
                acl(Kind.CLUSTER, CLUSTER_NAME, ACLOperation.IDEMPOTENT_WRITE),
            },
        ),
        (
            ("--consumer", "--topic", "t", "--group", "g"),
            {acl(Kind.TOPIC, "t", READ), acl(Kind.TOPIC, "t", DESCRIBE), acl(Kind.GROUP, "g", READ)},
        ),
        (
            ("--consumer", "--producer", "--topic", "t", "--group", "g"),
            {*(acl(Kind.TOPIC, "t", o) for o in (WRITE, DESCRIBE, CREATE, READ)), acl(Kind.GROUP, "g", READ)},
        ),
    ],
)
def test_resource_and_role_options_create_their_acls(
    arguments: tuple[str, ...], expected: set[ACL], acls: Acls, admin: Admin
) -> None:
    acls("--add", "--allow-principal", "User:a", *arguments)
    assert admin.acls == expected


def test_resource_pattern_type_prefixed_creates_a_prefixed_acl(acls: Acls, admin: Admin) -> None:
    acls("--add", "--allow-principal", "User:a", "--topic", "visits-", "--resource-pattern-type", "prefixed")
    (created,) = admin.acls
    assert created.resource_pattern == ResourcePattern(Kind.TOPIC, "visits-", ACLResourcePatternType.PREFIXED)


def test_list_groups_acls_by_resource(acls: Acls, admin: Admin) -> None:
    admin.acls = {
        acl(Kind.TOPIC, "t", READ),
        acl(Kind.TOPIC, "t", WRITE, "User:b", "h", DENY),
        acl(Kind.GROUP, "g", READ),
    }
    mine = "\t(principal=User:a, host=*, operation=READ, permissionType=ALLOW)\n"
    others = "\t(principal=User:b, host=h, operation=WRITE, permissionType=DENY)\n"
    about_t, about_g = f"Current ACLs for resource `{T}`:\n", f"Current ACLs for resource `{G}`:\n"
    assert acls("--list") == f"{about_t}{mine}{others}\n{about_g}{mine}\n"
    assert acls("--list", "--group", "g", "--group", "none") == f"{about_g}{mine}\n"
    assert acls("--list", "--principal", "User:b", "--principal", "User:c") == (
        f"ACLs for principal `User:b`\n{about_t}{others}\nACLs for principal `User:c`\n"
    )


def test_list_accepts_pattern_types_any_and_match(acls: Acls, admin: Admin) -> None:
    for text in ("any", "Match"):
        acls("--list", "--topic", "t", "--resource-pattern-type", text)
    patterns = [acl_filter.resource_pattern.pattern_type.name for acl_filter in admin.filters]
    assert patterns == ["ANY", "MATCH"]


def test_remove_deletes_acls_after_confirmation(acls: Acls, admin: Admin, monkeypatch: pytest.MonkeyPatch) -> None:
    remaining, removed = acl(Kind.TOPIC, "t", WRITE), acl(Kind.TOPIC, "t", READ)
    remove = ("--remove", "--topic", "t", "--allow-principal", "User:a", "--operation", "Read")
    for answer, left in (("n", {remaining, removed}), ("Y", {remaining})):
        admin.acls = {remaining, removed}
        monkeypatch.setattr("sys.stdin", io.StringIO(f"{answer}\n"))
        assert acls(*remove) == (
            "Are you sure you want to remove ACLs: \n"
            " \t(principal=User:a, host=*, operation=READ, permissionType=ALLOW)\n"
            f" from resource filter `{T}`? (y/n)\n"
        )
        assert admin.acls == left


def test_remove_without_principal_deletes_all_acls_of_the_resource(
    acls: Acls, admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = acl(Kind.TOPIC, "other", READ)
    admin.acls = {acl(Kind.TOPIC, "t", WRITE), acl(Kind.TOPIC, "t", READ), others}
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    assert acls("--remove", "--topic", "t") == (
        f"Are you sure you want to delete all ACLs for resource filter `{T}`? (y/n)\n"
    )
    assert admin.acls == {others}


def test_remove_without_confirmation_requires_force(acls: Acls, admin: Admin, monkeypatch: pytest.MonkeyPatch) -> None:
    admin.acls = {acl(Kind.TOPIC, "t", READ)}
    monkeypatch.setattr("sys.stdin", io.StringIO())
    assert "--force" in acls("--remove", "--topic", "t", code=1)
    assert admin.acls
    assert acls("--remove", "--topic", "t", "--force") == ""
    assert not admin.acls


def test_json_output_has_all_fields_of_acls(acls: Acls) -> None:
    add = ("--add", "--topic", "t", "--allow-principal", "User:a", "--operation", "Read", "--json")
    output = {
        "resource_type": "TOPIC",
        "resource_name": "t",
        "pattern_type": "LITERAL",
        "principal": "User:a",
        "host": "*",
        "operation": "READ",
        "permission_type": "ALLOW",
    }
    assert json.loads(acls(*add)) == {"added": [output], "existing": []}
    assert json.loads(acls(*add)) == {"added": [], "existing": [output]}
    assert json.loads(acls("--list", "--json")) == {"acls": [output]}
    assert json.loads(acls("--list", "--json", "--principal", "User:b")) == {"acls": []}
    assert json.loads(acls("--remove", "--topic", "t", "--force", "--json")) == {"removed": [output]}


def test_bootstrap_controller_is_passed_to_the_admin_client(admin: Admin, tmp_path: Any) -> None:
    file = tmp_path / "client.properties"
    file.write_text("client.id=me\n")
    assert main(["acls", "--bootstrap-controller", "127.0.0.1:2", "--command-config", str(file), "--list"]) == 0
    assert admin.options == {"bootstrap.controllers": "127.0.0.1:2", "client.id": "me"}


def test_error_of_the_broker_is_printed_in_one_line(acls: Acls, admin: Admin, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: ACLFilter) -> list[ACL]:
        raise ClusterAuthorizationFailedError

    monkeypatch.setattr(admin, "describe_acls", refuse)
    output = acls("--list", code=1)
    assert output.startswith("Error while executing ACL command: ")
    assert output.count("\n") == 1


ADD = ("--add", "--allow-principal", "User:a")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (ADD, "--add needs a resource: --topic or --group or"),
        (("--add", "--topic", "t"), "--add needs --allow-principal or --deny-principal"),
        (("--add", "--topic", "t", "--allow-host", "h"), "--allow-host needs --allow-principal"),
        (("--add", "--topic", "t", "--allow-principal", "a"), "principalType:principalName but got a"),
        ((*ADD, "--topic", " "), "expected a name, or '*' for all"),
        ((*ADD, "--topic", "t", "--operation", "Raed"), "there is no operation 'Raed'; did you mean Read?"),
        (
            (*ADD, "--group", "g", "--operation", "Write"),
            "ResourceType GROUP only supports operations [ALL, ALTER_CONF",
        ),
        ((*ADD, "--topic", "t", "--resource-pattern-type", "match"), "'MATCH' is not valid when adding acls."),
        ((*ADD, "--topic", "t", "--producer", "--operation", "Read"), "--operation cannot be used with --producer"),
        ((*ADD, "--group", "g", "--producer"), "With --producer you must specify a --topic"),
        ((*ADD, "--topic", "t", "--consumer"), "With --consumer you must specify a --topic and a --group"),
        ((*ADD, "--topic", "t", "--group", "g", "--cluster", "--consumer"), "no --cluster or --transactional-id"),
        ((*ADD, "--topic", "t", "--idempotent"), "The --idempotent option is only available if --producer is set"),
        ((*ADD, "--topic", "t", "--principal", "User:a"), "--principal cannot be used with --add"),
        (("--list", "--operation", "Read"), "--operation cannot be used with --list"),
        (("--list", "--principal", "a"), "principalType:principalName but got a"),
        (("--remove", "--topic", "t", "--operation", "Read"), "--remove with --operation needs --allow-principal or"),
        (
            ("--list", "--authorizer-properties", "zookeeper.connect=z:2181"),
            "--authorizer-properties: not supported, because only brokers",
        ),
    ],
)
def test_invalid_arguments_are_rejected_in_one_line(
    arguments: tuple[str, ...], words: str, acls: Acls, admin: Admin
) -> None:
    error = acls(*arguments, code=1)
    assert words in error
    assert error.count("\n") == 1
    assert not admin.options


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--add", "--list"),
        ("--list", "--resource-pattern-type", "some"),
        ("--list", "--bootstrap-controller", "h:1"),
    ],
)
def test_wrong_usage_exits_with_code_2(arguments: tuple[str, ...], admin: Admin) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["acls", *AT, *arguments])
    assert ended.value.code == 2
    assert not admin.options


def test_version_option_prints_the_version_of_ottla(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["acls", "--version"])
    assert ended.value.code == 0
    alone = capsys.readouterr().out
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == alone
