"""Options of the admin client: Kafka's defaults and bounds; each is documented and has a test."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.unit.client.marked_options import marked, missing_mark

from ottla.config.admin import AdminConfig
from ottla.config.client import ClientConfig
from ottla.errors import ConfigurationError

OPTIONS_PAGE = Path(__file__).resolve().parents[3] / "docs" / "options.md"

DEFAULTS: dict[str, Any] = {
    "bootstrap.servers": (),
    "bootstrap.controllers": (),
    "client.id": "",
    "client.dns.lookup": "use_all_dns_ips",
    "connections.max.idle.ms": 300_000,
    "default.api.timeout.ms": 60_000,
    "metadata.max.age.ms": 300_000,
    "metadata.recovery.strategy": "rebootstrap",
    "metadata.recovery.rebootstrap.trigger.ms": 300_000,
    "metric.reporters": (),
    "metrics.num.samples": 2,
    "metrics.recording.level": "INFO",
    "metrics.sample.window.ms": 30_000,
    "receive.buffer.bytes": 65_536,
    "reconnect.backoff.max.ms": 1_000,
    "reconnect.backoff.ms": 50,
    "request.timeout.ms": 30_000,
    "retries": 2**31 - 1,
    "retry.backoff.max.ms": 1_000,
    "retry.backoff.ms": 100,
    "security.protocol": "PLAINTEXT",
    "send.buffer.bytes": 131_072,
    "socket.connection.setup.timeout.max.ms": 30_000,
    "socket.connection.setup.timeout.ms": 10_000,
}
"""AdminClientConfig of Kafka 4, without TLS and SASL (common to all clients) and options without effect."""


@pytest.mark.parametrize(("option", "default"), DEFAULTS.items())
def test_option_has_kafkas_default(option: str, default: Any) -> None:
    assert AdminConfig.options[option].default == default


@pytest.mark.parametrize("option", ["security.providers", "enable.metrics.push", "auto.include.jmx.reporter"])
def test_option_without_effect_is_accepted(option: str) -> None:
    AdminConfig.from_kafka({"bootstrap.servers": "a:1", option: "x"})


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("bootstrap.controllers", "nowhere"),
        ("default.api.timeout.ms", -1),
        ("default.api.timeout.ms", "soon"),
        ("retries", -1),
        ("retries", 2**31),
    ],
)
def test_invalid_value_is_rejected_with_the_option_name(option: str, value: Any) -> None:
    with pytest.raises(ConfigurationError, match=option.replace(".", r"\.")):
        AdminConfig({"bootstrap.servers": "a:1", option: value})


@pytest.mark.option("request.timeout.ms", "default.api.timeout.ms")
def test_request_timeout_above_default_api_timeout_raises_the_api_timeout() -> None:
    assert AdminConfig({"bootstrap.servers": "a:1", "request.timeout.ms": 90_000}).default_api_timeout_ms == 90_000


def test_every_option_is_documented() -> None:
    page = OPTIONS_PAGE.read_text().partition("## Admin client")[2]
    assert [option for option in AdminConfig.options if f"| `{option}` |" not in page] == [], "run make docs"


def test_every_admin_option_has_a_test() -> None:
    own = set(AdminConfig.options) - set(ClientConfig.options)
    untested = (own | {"bootstrap.servers"}) - set(marked("test_admin*.py"))
    assert not untested, missing_mark(*untested)
