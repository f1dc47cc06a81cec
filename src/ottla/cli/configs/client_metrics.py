"""Manage the subscriptions to client metrics (KIP-714), as kafka-client-metrics.sh does."""

from __future__ import annotations

import argparse
import re
import uuid

from ottla.cli.framework.admin_command import AdminCommand
from ottla.cli.framework.command import Action
from ottla.cli.framework.connection import connection
from ottla.cli.framework.options import JSON, Flag, OneOf, Option
from ottla.cli.framework.output import Output
from ottla.client.admin.admin import KafkaAdminClient
from ottla.client.admin.configs import AlterConfigOp, Change, ConfigResource, ConfigResourceType
from ottla.cluster.store.znodes import uuid_text
from ottla.errors import ConfigurationError

CONFIGS = {"interval": "interval.ms", "metrics": "metrics", "match": "match"}
"""The config that each option of `--alter` sets. An empty value resets the config to its default."""


def _resource(name: str) -> ConfigResource:
    return ConfigResource(ConfigResourceType.CLIENT_METRICS, name)


def _names(admin: KafkaAdminClient) -> list[str]:
    return sorted(resource.name for resource in admin.list_config_resources([ConfigResourceType.CLIENT_METRICS]))


def list_(admin: KafkaAdminClient, args: argparse.Namespace, output: Output) -> list[str]:
    """Print and return the names of all subscriptions, sorted."""
    names = _names(admin)
    output.text("\n".join(names))
    return names


def describe(admin: KafkaAdminClient, args: argparse.Namespace, output: Output) -> dict[str, dict[str, str | None]]:
    """Print the configs of the subscription in `--name`, or of all, and return them by name. A subscription that does
    not exist is reported and left out.
    """
    names = _names(admin)
    document: dict[str, dict[str, str | None]] = {}
    for name in names if args.name is None else [args.name]:
        if name not in names:
            output.text(f"The client metric resource {name} doesn't exist and doesn't have dynamic config.")
            continue
        (entries,) = admin.describe_configs([_resource(name)]).values()
        document[name] = {key: entry.value for key, entry in sorted(entries.items())}
        output.text(f"Client metrics configs for {name} are:")
        output.text(*(f"  {key}={value}" for key, value in document[name].items()))
    return document


def alter(admin: KafkaAdminClient, args: argparse.Namespace, output: Output) -> dict[str, str]:
    """Create or change the subscription in `--name`, or create one with a random id as its name, and print the name."""
    name = args.name or uuid_text(uuid.uuid4())
    changes: dict[str, Change] = {
        key: getattr(args, option) or None for option, key in CONFIGS.items() if getattr(args, option) is not None
    }
    admin.alter_configs({_resource(name): changes})
    output.text(f"Altered client metrics config for {name}.")
    return {"name": name}


def delete(admin: KafkaAdminClient, args: argparse.Namespace, output: Output) -> dict[str, str]:
    """Delete a subscription by removing all of its configs."""
    (entries,) = admin.describe_configs([_resource(args.name)]).values()
    admin.alter_configs({_resource(args.name): dict.fromkeys(entries, (AlterConfigOp.DELETE, None))})
    output.text(f"Deleted client metrics config for {args.name}.")
    return {"name": args.name}


def _check_alter(args: argparse.Namespace) -> None:
    if (args.name is None) != args.generate_name:
        raise ConfigurationError("One of --name or --generate-name must be specified with --alter.")
    if args.interval and not re.fullmatch("[0-9]+", args.interval):
        raise ConfigurationError("Invalid interval value. Enter an integer, or leave empty to reset.")


COMMAND = AdminCommand(
    error="Error while executing client metrics command : {}",
    actions=(
        Action("list", "list the names of subscriptions", list_),
        Action("describe", "print the configs of one subscription (--name), or of all", describe),
        Action("alter", "create or change a subscription", alter, check=_check_alter),
        Action("delete", "delete a subscription", delete, requires=("name",)),
    ),
    options=(
        *connection(),
        OneOf(
            Option(
                "--name", "name of the subscription; --describe prints all by default", actions="describe alter delete"
            ),
            Flag("--generate-name", "create a subscription with a generated unique name", actions="alter"),
            required=False,
        ),
        Option(
            "--interval MS",
            "interval in milliseconds at which clients push metrics, 100 to 3600000; empty: the default, 300000",
            actions="alter",
        ),
        Option(
            "--metrics PREFIX,…",
            "metrics that clients push, as prefixes of metric names; *: all; empty: none (the default)",
            actions="alter",
        ),
        Option(
            "--match SELECTOR=REGEX,…",
            "clients that push metrics, by regular expressions for client_id, client_instance_id, "
            "client_software_name, client_software_version, client_source_address or client_source_port; empty: all "
            "clients (the default)",
            actions="alter",
        ),
        JSON,
    ),
)
