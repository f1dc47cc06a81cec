"""franz-go, sarama and kafkajs, unmodified, against our broker; programs in Go and JavaScript report the results."""

import uuid
from collections.abc import Callable

import pytest
from tests.interop.programs import go_version, kafkajs_version, run_go, run_kafkajs

pytestmark = pytest.mark.interop

Record = Callable[[str, str, str, list[str]], None]


def name() -> str:
    return f"t-{uuid.uuid4().hex[:8]}"


def test_franz_go_scenario_passes(bootstrap: str, compatibility: Record) -> None:
    checked = run_go("franz", bootstrap, name())
    compatibility("franz-go", go_version("github.com/twmb/franz-go"), "all of it", checked)


def test_sarama_scenario_passes(bootstrap: str, compatibility: Record) -> None:
    checked = run_go("sarama", bootstrap, name())
    compatibility("sarama", go_version("github.com/IBM/sarama"), "all of it", checked)


def test_kafkajs_scenario_passes(bootstrap: str, compatibility: Record) -> None:
    compatibility("kafkajs", kafkajs_version(), "all of it", run_kafkajs(bootstrap, name()))
