"""The actions of `ottla cluster` that connect to any running cluster, as kafka-cluster.sh does: cluster-id,
list-endpoints and unregister. Only KRaft clusters of Apache Kafka support unregister.
"""

from __future__ import annotations

import argparse
import json
from typing import Final

from ottla.cli.framework.command import Action
from ottla.cli.framework.connection import client_options, connection
from ottla.cli.framework.options import JSON, Flag, Option
from ottla.client.admin.admin import KafkaAdminClient
from ottla.errors import UnsupportedVersionError

HEADER: Final = ("ID", "HOST", "PORT", "RACK", "STATE", "ENDPOINT_TYPE")


def cluster_id(args: argparse.Namespace) -> int:
    """Print the id of the cluster, and return 0. A cluster of an old version of Kafka may have none."""
    with KafkaAdminClient(client_options(args)) as admin:
        identity = admin.describe_cluster().cluster_id
    if args.json:
        print(json.dumps({"cluster_id": identity}))
    else:
        print(f"Cluster ID: {identity}" if identity else "No cluster ID found. The Kafka version is probably too old.")
    return 0


def unregister(args: argparse.Namespace) -> int:
    """Remove the registration of a broker that was shut down permanently. Return 1 if the cluster does not support
    that, otherwise 0.
    """
    with KafkaAdminClient(client_options(args)) as admin:
        try:
            admin.unregister_broker(args.id)
        except UnsupportedVersionError:
            print("The target cluster does not support the broker unregistration API.")
            return 1
    print(f"Broker {args.id} is no longer registered.")
    return 0


def list_endpoints(args: argparse.Namespace) -> int:
    """Print the brokers of the cluster with their addresses, or with `--bootstrap-controller` its controllers."""
    with KafkaAdminClient(client_options(args)) as admin:
        cluster = admin.describe_cluster(include_fenced_brokers=args.include_fenced_brokers)
    kind = "controller" if args.bootstrap_controller else "broker"
    rows = [
        {**node._asdict(), "state": "fenced" if node.id in cluster.fenced else "unfenced", "endpoint_type": kind}
        for node in cluster.nodes
    ]
    if args.json:
        print(json.dumps(rows))
        return 0
    width = max(len("HOST"), *(len(node.host) for node in cluster.nodes))
    for cells in (HEADER, *(tuple("null" if v is None else str(v) for v in row.values()) for row in rows)):
        identity, host, port, rack, state, endpoint = cells
        print(f"{identity:<10} {host:<{width}} {port:<10} {rack:<10} {state:<10} {endpoint:<15}")
    return 0


_CONNECTION: Final = connection(controllers=True)

ACTIONS: Final = (
    Action("cluster-id", "print the id of any cluster", cluster_id, options=(*_CONNECTION, JSON)),
    Action(
        "unregister",
        "remove the registration of a broker from a KRaft cluster of Apache Kafka",
        unregister,
        options=(*_CONNECTION, Option("--id, -i ID", "id of the broker to unregister", int, required=True)),
    ),
    Action(
        "list-endpoints",
        "print the brokers or controllers of any cluster",
        list_endpoints,
        options=(
            *_CONNECTION,
            Flag("--include-fenced-brokers", "also print brokers that are registered but fenced"),
            JSON,
        ),
    ),
)
