"""The examples written for kafka-python run with kafka-python as well: only the import differs."""

from __future__ import annotations

import uuid

import pytest
from tests.unit.examples.running import loaded

pytestmark = pytest.mark.interop


def test_with_kafka_python(bootstrap: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("kafka")
    topic = f"readme-{uuid.uuid4().hex[:8]}"
    loaded("kafka_python/produce.py", "kafka").main(bootstrap, topic)
    assert "told of offset" in capsys.readouterr().out
    loaded("kafka_python/consume.py", "kafka").main(bootstrap, topic)
    assert "the group begins with b'" in capsys.readouterr().out
    loaded("kafka_python/transactions.py", "kafka").main(bootstrap, f"{topic}-txn")
    assert capsys.readouterr().out == "[b'paid']\n"
