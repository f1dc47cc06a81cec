"""The examples written for kafka-python run with kafka-python as well: only the import differs."""

from __future__ import annotations

import inspect
import uuid

import pytest
from tests.unit.examples.running import load_example

import ottla
from ottla.config.admin import AdminConfig
from ottla.config.consumer import ConsumerConfig
from ottla.config.producer import ProducerConfig

pytestmark = pytest.mark.interop


def test_examples_run_with_kafka_python(bootstrap: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("kafka")
    topic = f"readme-{uuid.uuid4().hex[:8]}"
    load_example("kafka_python/produce.py", "kafka").main(bootstrap, topic)
    assert "callback got offset" in capsys.readouterr().out
    load_example("kafka_python/consume.py", "kafka").main(bootstrap, topic)
    assert "the group begins with b'" in capsys.readouterr().out
    load_example("kafka_python/transactions.py", "kafka").main(bootstrap, f"{topic}-txn")
    assert capsys.readouterr().out == "[b'paid']\n"


LEFT_OUT = {
    "KafkaProducer": {"max_usable_produce_magic"},
    "KafkaConsumer": {"bootstrap"},
    "KafkaAdminClient": {"get_broker_version_data"},
}
"""Methods of kafka-python about its internals."""
CONFIGS = {"KafkaProducer": ProducerConfig, "KafkaConsumer": ConsumerConfig, "KafkaAdminClient": AdminConfig}
NOT_KEYWORDS = {"null_logger", "update_offsets"}
"""Internal parameters of kafka-python's methods."""
UNKNOWN = {"proxy_url", "bootstrap_timeout_ms", "receive_message_max_bytes"}
"""Keywords that are a TypeError here; docs/from-kafka-python.md says so."""


@pytest.mark.parametrize("name", LEFT_OUT)
def test_clients_have_the_methods_and_keywords_of_kafka_python(name: str) -> None:
    theirs = getattr(pytest.importorskip("kafka"), name)
    ours = getattr(ottla, name)
    methods = {method for method in dir(theirs) if method[0] != "_" and callable(getattr(theirs, method))}
    assert {method for method in methods if not hasattr(ours, method)} == LEFT_OUT[name]
    for method in methods - LEFT_OUT[name]:
        keywords = inspect.signature(getattr(ours, method)).parameters
        assert set(inspect.signature(getattr(theirs, method)).parameters) - set(keywords) <= NOT_KEYWORDS, method
    config = CONFIGS[name]
    existing = {option.attribute for option in config.options.values()} | {
        n.replace(".", "_") for n in config.no_effect
    }
    missing = {keyword for keyword in theirs.DEFAULT_CONFIG if not keyword.startswith(tuple(existing))}
    assert missing <= UNKNOWN
