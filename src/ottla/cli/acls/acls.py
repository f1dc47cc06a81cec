"""Add, remove and list ACLs, as kafka-acls.sh does."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from itertools import groupby
from typing import Any, Final

from ottla.cli.acls.acl_bindings import (
    RESOURCES,
    Entry,
    as_json,
    entry_text,
    operation_names,
    pattern_type,
    principal,
    requested_entries,
    resource_text,
    resources,
)
from ottla.cli.framework.admin_command import AdminCommand
from ottla.cli.framework.command import Action
from ottla.cli.framework.connection import connection
from ottla.cli.framework.options import JSON, Flag, Option, Repeatable, flag_name, is_set
from ottla.cli.framework.output import Output
from ottla.client.admin.admin import KafkaAdminClient
from ottla.errors import ConfigurationError
from ottla.security.acl import ACL, ACLFilter, ACLResourcePatternType, ResourcePattern, ResourcePatternFilter


def add(admin: KafkaAdminClient, args: argparse.Namespace, output: Output) -> dict[str, Any]:
    """Add the requested ACLs that do not exist yet. Return the added ACLs and those that exist already, for JSON."""
    all_existing: list[ACL] = []
    all_added: list[ACL] = []
    for (kind, name, pattern), entries in requested_entries(args).items():
        resource = ResourcePattern(kind, name or "", pattern)
        existing = set(admin.describe_acls(ACLFilter(resource_pattern=resource)))
        acls = [entry.on(resource) for entry in entries]
        duplicates, new = [acl for acl in acls if acl in existing], [acl for acl in acls if acl not in existing]
        text = resource_text(resource)
        output.text(*(f"Acl (pattern={text}, entry={entry_text(acl)}) already exists." for acl in duplicates))
        if new:
            output.text(f"Adding ACLs for resource `{text}`: \n {_lines(new)}\n")
            admin.create_acls(new)
        all_existing += duplicates
        all_added += new
    return {"added": as_json(all_added), "existing": as_json(all_existing)}


def remove(admin: KafkaAdminClient, args: argparse.Namespace, output: Output) -> dict[str, Any]:
    """Remove the ACLs that match the options, after confirmation unless `--force` is set, and return them for JSON."""
    removed: list[ACL] = []
    for resource, entries in requested_entries(args).items():
        filters = [entry.within(resource) for entry in entries] or [ACLFilter(resource_pattern=resource)]
        if args.force or _is_confirmed(resource, entries, args):
            for acls in admin.delete_acls(filters).values():
                removed += acls
    return {"removed": as_json(removed)}


def list_(admin: KafkaAdminClient, args: argparse.Namespace, output: Output) -> dict[str, Any]:
    """Print the ACLs of the named resources (default: of all), by resource; with `--principal`, those of each
    principal.
    """
    filters = [ACLFilter(resource_pattern=resource) for resource in resources(args)] or [ACLFilter()]
    matching = {acl for acl_filter in filters for acl in admin.describe_acls(acl_filter)}
    principals = list(dict.fromkeys(text.strip() for text in args.principal))
    acls = sorted(acl for acl in matching if not principals or acl.principal in principals)
    for name in principals:
        output.text(f"ACLs for principal `{name}`")
        _print(output, (acl for acl in acls if acl.principal == name))
    if not principals:
        _print(output, acls)
    return {"acls": as_json(sorted(acls, key=_by_resource))}


def _print(output: Output, acls: Iterable[ACL]) -> None:
    for resource, group in groupby(sorted(acls, key=_by_resource), key=_by_resource):
        output.text(f"Current ACLs for resource `{resource_text(resource)}`:\n{_lines(group)}\n")


def _by_resource(acl: ACL) -> ResourcePattern:
    return acl.resource_pattern


def _lines(entries: Iterable[ACL | Entry]) -> str:
    return "\n".join(f"\t{entry_text(entry)}" for entry in entries)


def _is_confirmed(resource: ResourcePatternFilter, entries: list[Entry], args: argparse.Namespace) -> bool:
    text = resource_text(resource)
    question = f"Are you sure you want to delete all ACLs for resource filter `{text}`? (y/n)"
    if entries:
        question = f"Are you sure you want to remove ACLs: \n {_lines(entries)}\n from resource filter `{text}`? (y/n)"
    print(question, file=sys.stderr if args.json else sys.stdout, flush=True)
    answer = sys.stdin.readline()
    if not answer:
        raise ConfigurationError("cannot ask for confirmation: standard input is closed; use --force")
    return answer.strip().lower() == "y"


_CHANGES: Final = "add remove"
_IMPLIED: Final = ("operation", "deny_principal", "deny_host")
"""Options that cannot be combined with --producer or --consumer, which imply their values."""


def _check(args: argparse.Namespace) -> None:
    """Raise ConfigurationError for options that contradict each other, lack another option, or would have no effect,
    and for an invalid `--principal`.
    """
    for kind in ("producer", "consumer"):
        wrong = [option for option in _IMPLIED if is_set(args, kind) and is_set(args, option)]
        if wrong:
            raise ConfigurationError(f"{flag_name(wrong[0])} cannot be used with --{kind}, which implies it")
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
        if is_set(args, f"{side}_host") and not is_set(args, f"{side}_principal"):
            raise ConfigurationError(f"--{side}-host needs --{side}-principal")
    if args.action == "remove" and args.operation and not (args.allow_principal or args.deny_principal):
        # Kafka's tool ignores the operation and removes all ACLs of the resource
        raise ConfigurationError("--remove with --operation needs --allow-principal or --deny-principal")
    for text in args.principal:
        principal("--principal", text)


def _check_add(args: argparse.Namespace) -> None:
    _check(args)
    if not all(requested_entries(args).values()):
        raise ConfigurationError("--add needs --allow-principal or --deny-principal")


def _check_remove(args: argparse.Namespace) -> None:
    _check(args)
    requested_entries(args)


class _ZooKeeperOption(argparse.Action):
    """Rejects the options of old Kafka versions that changed ACLs directly in ZooKeeper, with a ConfigurationError."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        raise ConfigurationError(
            f"{option_string}: not supported, because only brokers change ACLs, not tools in ZooKeeper; "
            "use --bootstrap-server"
        )


class _Version(argparse.Action):
    """Prints the version of Ottla and exits. The version is looked up only on request, because that takes time."""

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


COMMAND = AdminCommand(
    error="Error while executing ACL command: {}",
    actions=(
        Action("add", "add ACLs", add, check=_check_add),
        Action("remove", "remove ACLs", remove, check=_check_remove),
        Action("list", "list ACLs", list_, check=_check),
    ),
    options=(
        *connection(controllers=True),
        *(
            Option(name, "option of old Kafka versions, rejected: use --bootstrap-server", action=_ZooKeeperOption)
            for name in ("--authorizer-properties", "--authorizer")
        ),
        Option("--version", "print the version of Ottla and exit", action=_Version),
        *(
            Repeatable(
                f"{flag_name(name)} NAME",
                f"{name.replace('_', ' ')} whose ACLs are added, removed or listed, or a prefix with "
                "--resource-pattern-type prefixed; '*' is the wildcard for all",
            )
            for name in RESOURCES
        ),
        Flag("--cluster", "add, remove or list ACLs of the cluster"),
        Option(
            "--resource-pattern-type {any,match,literal,prefixed}",
            "type of the resource patterns: literal or prefixed; --list and --remove also accept any "
            "(both types) and match (all ACLs that apply to the name)",
            pattern_type,
            default="literal",
        ),
        Repeatable("--allow-principal User:NAME", "principal to allow; User:*: all principals", actions=_CHANGES),
        Repeatable(
            "--deny-principal User:NAME",
            "principal to deny, even if another ACL allows it; User:*: all principals",
            actions=_CHANGES,
        ),
        Repeatable("--allow-host ADDRESS", "IP address for --allow-principal (default: any)", actions=_CHANGES),
        Repeatable("--deny-host ADDRESS", "IP address for --deny-principal (default: any)", actions=_CHANGES),
        Repeatable(
            "--operation NAME", f"operation: one of {', '.join(operation_names())} (default: All)", actions=_CHANGES
        ),
        Repeatable("--principal User:NAME", "list only ACLs of this principal (default: of all)", actions="list"),
        Flag(
            "--producer",
            "the ACLs of a producer: Write, Describe and Create on --topic, Write and Describe on --transactional-id",
            actions=_CHANGES,
        ),
        Flag("--consumer", "the ACLs of a consumer: Read and Describe on --topic, Read on --group", actions=_CHANGES),
        Flag("--idempotent", "with --producer: also IdempotentWrite on the cluster", actions=_CHANGES),
        Flag("--force", "with --remove: do not ask for confirmation"),
        JSON,
    ),
)
