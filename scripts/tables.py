"""Regenerate the tables in docs/ from the code's own tables: `make docs`. A test fails if they differ.

A table stands in its page between `<!-- name -->` and `<!-- /name -->`.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from ottla.broker.apis import SUPPORTED_APIS, ApiEntry, unsupported_apis
from ottla.broker.config.config_entries import text_of
from ottla.broker.monitoring.metric_table import METRICS
from ottla.cli.main import all_commands
from ottla.client.admin.core import AdminCore
from ottla.client.admin.driver import AdminDriver
from ottla.client.producer.core import ProducerCore
from ottla.config.admin import AdminConfig
from ottla.config.broker.broker_config import BrokerConfig
from ottla.config.consumer import ConsumerConfig
from ottla.config.group import GroupConfig
from ottla.config.mirror import MirrorConfig
from ottla.config.options import REQUIRED, Config
from ottla.config.producer import ProducerConfig
from ottla.config.share_consumer import ShareConsumerConfig
from ottla.config.topic import TopicConfig
from ottla.legacy.consumer.consumer_config import ConsumerConfig as LegacyConsumerConfig
from ottla.legacy.producer.producer_config import ProducerConfig as LegacyProducerConfig
from ottla.metrics.metrics import Metrics
from ottla.net.client import channel_metrics
from ottla.spark.monitoring.metrics import QUERY_METRICS

DOCS = Path(__file__).resolve().parent.parent / "docs"


def table(header: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """Return a Markdown table."""
    lines = [list(header)]
    lines.append(["---"] * len(lines[0]))
    lines += [[str(cell).replace("|", "\\|") for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def options(config: type[Config], besides: type[Config] | None = None) -> str:
    """Return the table of a subject's options, without those of another one."""
    rows = (
        (f"`{key}`", "required" if option.default is REQUIRED else _shown(option.default), option.doc)
        for key, option in sorted(config.options.items())
        if besides is None or key not in besides.options
    )
    return table(("option", "default", "meaning"), rows)


def _shown(default: object) -> str:
    if callable(default):
        return f"`{getattr(default, '__name__', default)}`"
    if isinstance(default, re.Pattern):
        return f"`{default.pattern.replace('|', ', ')}`"
    text = text_of(default)
    return "" if text in (None, "") else f"`{text}`"


def without_effect(config: type[Config]) -> str:
    """Return the table of options without effect."""
    return table(("option", "why"), ((f"`{name}`", why) for name, why in sorted(config.no_effect.items())))


def _needs(row: ApiEntry) -> str:
    """Return the rights that a client needs for an API as a whole."""
    if row.inter_broker_since is None:
        operation = row.required_cluster_operation
        return "" if operation is None else operation.name
    return "a broker of this cluster" + (
        f" (from version {row.inter_broker_since} on)" if row.inter_broker_since else ""
    )


def _versions(row: ApiEntry) -> str:
    versions = row.versions(in_cluster=True)
    return f"{versions[0]}-{versions[-1]}"


def served() -> str:
    """Return the table of the APIs that the broker supports."""
    return table(
        ("key", "API", "versions", "needs of the cluster"),
        ((row.api.key, row.name, _versions(row), _needs(row)) for row in SUPPORTED_APIS),
    )


def not_served() -> str:
    """Return the table of Kafka's other APIs, and why they are not supported."""
    names: dict[str, list[str]] = {}
    for name, reason in unsupported_apis().items():
        names.setdefault(reason, []).append(name)
    return table(("APIs", "why"), ((", ".join(some), reason) for reason, some in names.items()))


def commands() -> str:
    """Return the table of commands."""
    return table(("command", "what it is for"), ((f"`ottla {c.name}`", c.help) for c in all_commands()))


def producer_metrics() -> str:
    """Return the table of a producer's metrics after it has sent records to a broker."""
    core = ProducerCore(ProducerConfig.from_keywords(bootstrap_servers="localhost:9092"), lambda: None)
    core.metrics.record_failure("t", 0)
    core.connections.metrics.for_node(1)
    return _metrics(core.metrics.metrics)


def _metrics(registry: Metrics) -> str:
    rows = sorted((name.group, name.name, name.description) for name in registry.metrics)
    return table(("group", "metric", "meaning"), ((f"`{g}`", f"`{n}`", text) for g, n, text in rows))


def query_metrics() -> str:
    """Return the table of the metrics of a streaming query."""
    return table(("metric", "meaning"), ((f"`{metric.name}`", metric.description) for metric in QUERY_METRICS))


def broker_metrics() -> str:
    """Return the table of a broker's metrics: Kafka's names and those for Prometheus."""
    rows = (
        (f"`{metric.mbean}`", f"`{metric.name}`", ", ".join(f"`{label}`" for label in metric.labels), metric.help)
        for metric in METRICS
    )
    return table(("Kafka's name", "in Prometheus", "labels", "meaning"), rows)


def missing_metrics() -> str:
    """Return the table of Kafka's client metrics that are missing."""
    return table(("metric", "why"), ((f"`{name}`", why) for name, why in channel_metrics.LEFT_OUT.items()))


def admin_calls() -> str:
    """Return the table of the admin client's methods by subject."""
    rows = [
        (f"`{name}`", " ".join((inspect.getdoc(call) or "").split("\n\n")[0].split()))
        for subject in AdminCore.__mro__
        for name, call in vars(subject).items()
        if subject is not AdminDriver and inspect.iscoroutinefunction(call) and not name.startswith("_")
    ]
    return table(("call", "what it does"), rows)


TABLES: dict[str, Callable[[], str]] = {
    "served": served,
    "not-served": not_served,
    "commands": commands,
    "broker-options": lambda: options(BrokerConfig),
    "topic-options": lambda: options(TopicConfig),
    "group-options": lambda: options(GroupConfig),
    "producer-options": lambda: options(ProducerConfig),
    "consumer-options": lambda: options(ConsumerConfig),
    "share-consumer-options": lambda: options(ShareConsumerConfig, besides=ConsumerConfig),
    "mirror-options": lambda: options(MirrorConfig),
    "admin-options": lambda: options(AdminConfig),
    "admin-calls": admin_calls,
    "legacy-producer-options": lambda: options(LegacyProducerConfig),
    "legacy-consumer-options": lambda: options(LegacyConsumerConfig),
    "broker-options-without-effect": lambda: without_effect(BrokerConfig),
    "options-without-effect": lambda: without_effect(AdminConfig),
    "producer-metrics": producer_metrics,
    "broker-metrics": broker_metrics,
    "metrics-left-out": missing_metrics,
    "query-metrics": query_metrics,
}


def renewed(page: str) -> str:
    """Return the page with all generated tables renewed."""
    for name, make in TABLES.items():
        # An empty table matches too: a new page starts with the two comments alone.
        pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
        if pattern.search(page):
            text = make()
            page = pattern.sub(lambda m, t=text: f"{m.group(1)}{t}\n{m.group(2)}", page)  # type: ignore[misc]
    return page


def main() -> int:
    """Rewrite the pages that changed."""
    for path in sorted(DOCS.glob("*.md")):
        old = path.read_text()
        new = renewed(old)
        if new != old:
            path.write_text(new)
            print(f"{path.name} is new")
    return 0


if __name__ == "__main__":
    sys.exit(main())
