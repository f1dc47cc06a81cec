"""Add, remove and list access rules, as kafka-acls.sh does: who may do what, from where, with which resources."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from itertools import groupby
from typing import Any, Final

from ottla.cli.acls.acl_bindings import (
    RESOURCES,
    Entries,
    as_json,
    asked,
    entry_text,
    operation_names,
    pattern_type,
    principal,
    resource_text,
    resources,
)
from ottla.cli.framework.action_options import check_belongs
from ottla.cli.framework.connection import add_connection, as_typed, client_options, is_given
from ottla.client.admin.admin import KafkaAdminClient
from ottla.errors import ConfigurationError, KafkaError
from ottla.security.acl import ACL, ACLFilter, ACLResourcePatternType, ResourcePattern, ResourcePatternFilter

CHANGES: Final = ("add", "remove")
BELONGS: Final = {
    "allow_principal": CHANGES,
    "deny_principal": CHANGES,
    "allow_host": CHANGES,
    "deny_host": CHANGES,
    "operation": CHANGES,
    "producer": CHANGES,
    "consumer": CHANGES,
    "idempotent": CHANGES,
    "principal": ("list",),
}
INFERRED: Final = ("operation", "deny_principal", "deny_host")
"""What --producer and --consumer say themselves."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `ottla acls`."""
    add_connection(parser, controllers=True)
    for name in ("--authorizer-properties", "--authorizer"):
        parser.add_argument(name, action=_PastBrokers, help="of old Kafka; use --bootstrap-server")
    parser.add_argument("--version", action=_Version, help="tell the version and exit")
    action = parser.add_mutually_exclusive_group(required=True)
    for name, text in (("add", "add rules"), ("remove", "remove rules"), ("list", "tell rules")):
        action.add_argument(f"--{name}", action="store_const", const=name, dest="action", help=text)
    _add_resources(parser)
    _add_rules(parser)
    parser.add_argument("--force", action="store_true", help="do not ask before rules are removed")
    parser.add_argument("--json", action="store_true", help="answer in JSON")


def _add_resources(parser: argparse.ArgumentParser) -> None:
    for option in RESOURCES:
        what = option.replace("_", " ")
        parser.add_argument(
            as_typed(option), action="append", default=[], metavar="NAME", help=f"a {what}, '*' for all; repeatable"
        )
    parser.add_argument("--cluster", action="store_true", help="the cluster as a whole")
    parser.add_argument(
        "--resource-pattern-type",
        type=pattern_type,
        default=ACLResourcePatternType.LITERAL,
        metavar="{any,match,literal,prefixed}",
        help="how names are meant: as they are (literal), or as beginnings (prefixed); with --list and --remove also "
        "any of both, or all rules that count for the name (match)",
    )


def _add_rules(parser: argparse.ArgumentParser) -> None:
    for option, metavar, text in (
        ("--allow-principal", "User:NAME", "who may; User:* is everybody"),
        ("--deny-principal", "User:NAME", "who may not, whatever else is allowed"),
        ("--allow-host", "ADDRESS", "from where, for --allow-principal; from anywhere if not given"),
        ("--deny-host", "ADDRESS", "from where, for --deny-principal; from anywhere if not given"),
        ("--operation", "NAME", f"what: one of {', '.join(operation_names())}; All if not given"),
        ("--principal", "User:NAME", "with --list: only rules of these"),
    ):
        parser.add_argument(option, action="append", default=[], metavar=metavar, help=f"{text}; repeatable")
    parser.add_argument("--producer", action="store_true", help="Write, Describe and Create on --topic")
    parser.add_argument("--consumer", action="store_true", help="Read and Describe on --topic, Read on --group")
    parser.add_argument("--idempotent", action="store_true", help="with --producer: IdempotentWrite on the cluster")


def run(args: argparse.Namespace) -> int:
    """Do it; 1 with one line where the broker refuses."""
    _check(args)
    for who in args.principal:
        principal("--principal", who)
    entries = {} if args.action == "list" else asked(args)
    if args.action == "add" and not all(entries.values()):
        raise ConfigurationError("--add needs --allow-principal or --deny-principal")
    try:
        with KafkaAdminClient(client_options(args)) as admin:
            told = _list(admin, args) if args.action == "list" else ACTIONS[args.action](admin, entries, args)
    except KafkaError as error:
        print(f"Error while executing ACL command: {error}", file=sys.stderr)
        return 1
    if args.json:
        print(json.dumps({name: as_json(rules) for name, rules in told.items()}))
    return 0


Told = dict[str, list[ACL]]
"""What was done, for `--json`; otherwise it is printed at once, as Kafka's tool does."""


def add(admin: KafkaAdminClient, entries: Entries, args: argparse.Namespace) -> Told:
    """`--add`."""
    told: Told = {"added": [], "existing": []}
    for (kind, name, pattern), wanted in entries.items():
        resource = ResourcePattern(kind, name or "", pattern)
        known = set(admin.describe_acls(ACLFilter(resource_pattern=resource)))
        rules = [entry.on(resource) for entry in wanted]
        there, new = [r for r in rules if r in known], [r for r in rules if r not in known]
        if not args.json:
            for rule in there:
                print(f"Acl (pattern={resource_text(resource)}, entry={entry_text(rule)}) already exists.")
        if new:
            if not args.json:
                print(f"Adding ACLs for resource `{resource_text(resource)}`: \n {_lines(new)}\n", flush=True)
            admin.create_acls(new)
        told["existing"] += there
        told["added"] += new
    return told


def remove(admin: KafkaAdminClient, entries: Entries, args: argparse.Namespace) -> Told:
    """`--remove`."""
    removed: list[ACL] = []
    for resource, wanted in entries.items():
        filters = [entry.within(resource) for entry in wanted] or [ACLFilter(resource_pattern=resource)]
        if args.force or _confirmed(_question(resource, entries), args):
            for found in admin.delete_acls(filters).values():
                removed += found
    return {"removed": removed}


ACTIONS: Final = {"add": add, "remove": remove}


def _list(admin: KafkaAdminClient, args: argparse.Namespace) -> Told:
    filters = [ACLFilter(resource_pattern=resource) for resource in resources(args)] or [ACLFilter()]
    found = {rule for wanted in filters for rule in admin.describe_acls(wanted)}
    principals = list(dict.fromkeys(text.strip() for text in args.principal))
    told = sorted(rule for rule in found if not principals or rule.principal in principals)
    if args.json:
        return {"acls": sorted(told, key=_by_resource)}
    for who in principals:
        print(f"ACLs for principal `{who}`")
        _print(rule for rule in told if rule.principal == who)
    if not principals:
        _print(told)
    return {}


def _print(rules: Iterable[ACL]) -> None:
    for resource, about in groupby(sorted(rules, key=_by_resource), key=_by_resource):
        print(f"Current ACLs for resource `{resource_text(resource)}`:\n{_lines(about)}\n")


def _by_resource(rule: ACL) -> ResourcePattern:
    return rule.resource_pattern


def _lines(rules: Iterable[Any]) -> str:
    return "\n".join(f"\t{entry_text(rule)}" for rule in rules)


def _question(resource: ResourcePatternFilter, entries: Entries) -> str:
    wanted = entries[resource]
    if not wanted:
        return f"Are you sure you want to delete all ACLs for resource filter `{resource_text(resource)}`? (y/n)"
    return (
        f"Are you sure you want to remove ACLs: \n {_lines(wanted)}\n"
        f" from resource filter `{resource_text(resource)}`? (y/n)"
    )


def _confirmed(question: str, args: argparse.Namespace) -> bool:
    print(question, file=sys.stderr if args.json else sys.stdout, flush=True)
    answer = sys.stdin.readline()
    if not answer:
        raise ConfigurationError("there is nobody to ask; --force removes without asking")
    return answer.strip().lower() == "y"


def _check(args: argparse.Namespace) -> None:
    """ConfigurationError for options that do not go together, or that would be passed over."""
    check_belongs(args, BELONGS)
    for kind in ("producer", "consumer"):
        wrong = [option for option in INFERRED if is_given(args, kind) and is_given(args, option)]
        if wrong:
            raise ConfigurationError(f"{as_typed(wrong[0])} cannot be used with --{kind}, which says it itself")
    if args.producer and not args.topic:
        raise ConfigurationError("With --producer you must specify a --topic")
    if args.idempotent and not args.producer:
        raise ConfigurationError("The --idempotent option is only available if --producer is set")
    others = not args.producer and (args.cluster or args.transactional_id)
    if args.consumer and (others or not (args.topic and args.group)):
        raise ConfigurationError(
            "With --consumer you must specify a --topic and a --group and no --cluster or --transactional-id option "
            "should be specified"
        )
    if args.action == "add" and args.resource_pattern_type < ACLResourcePatternType.LITERAL:
        name = args.resource_pattern_type.name
        raise ConfigurationError(f"A '--resource-pattern-type' value of '{name}' is not valid when adding acls.")
    for side in ("allow", "deny"):
        if is_given(args, f"{side}_host") and not is_given(args, f"{side}_principal"):
            raise ConfigurationError(f"--{side}-host needs --{side}-principal")
    if args.action == "remove" and args.operation and not (args.allow_principal or args.deny_principal):
        # Kafka's tool passes it over, and removes all rules about the resource
        raise ConfigurationError("--remove with --operation needs --allow-principal or --deny-principal")


class _PastBrokers(argparse.Action):
    """Refuses what changed rules in ZooKeeper."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        raise ConfigurationError(
            f"{option_string}: rules are not changed in ZooKeeper past the brokers; use --bootstrap-server"
        )


class _Version(argparse.Action):
    """Tells the version, which takes time to find, only where it is asked for."""

    def __init__(self, option_strings: list[str], dest: str, **more: Any) -> None:
        super().__init__(option_strings, dest, nargs=0, **more)

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        from importlib.metadata import version

        print(version("ottla"))
        parser.exit()
