"""Names from requests are escaped in logs, so that they cannot forge log lines."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from types import ModuleType

import pytest
from tests.unit.broker.broker_client import BrokerClient, with_broker

import ottla
import ottla_pipelines
from ottla import logs
from ottla.errors import InvalidTopicError
from ottla.model import TopicPartition
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest

FORGED = "x\n2026-11-23 ERROR all is lost\x1b[2J\x9b\u2028\u202e"
ESCAPED = r"x\n2026-11-23 ERROR all is lost\x1b[2J\x9b\u2028\u202e"


def loggers(package: ModuleType) -> set[str]:
    files = Path(package.__path__[0]).rglob("*.py")
    sources = [file.read_text("utf-8") for file in files]
    assert not any("getChild(" in source for source in sources), "a filter does not apply to the children of a logger"
    return {name for source in sources for name in re.findall(r'getLogger\(f?"([^"]+)"', source)}


def test_every_logger_of_the_package_is_protected() -> None:
    assert loggers(ottla) == set(logs.LOGGERS)
    assert loggers(ottla_pipelines) - set(logs.LOGGERS) == {"ottla_pipelines"}
    assert logs.ESCAPE in logging.getLogger("ottla_pipelines").filters


@pytest.mark.parametrize(
    "value", [FORGED, InvalidTopicError(FORGED), TopicPartition(FORGED, 3), (FORGED,), {"a": FORGED}, FORGED.encode()]
)
@pytest.mark.parametrize("layout", ["group %s", "group %r"])
def test_control_characters_of_names_are_escaped_in_logs(
    value: object, layout: str, caplog: pytest.LogCaptureFixture
) -> None:
    logs.protect()
    logging.getLogger("ottla.coordinator").warning(layout + ", %d members, %.1f s", value, 3, 0.5)
    (record,) = caplog.records
    message = record.getMessage()
    assert message.isprintable()
    assert "all is lost" in message
    assert message.endswith(", 3 members, 0.5 s")


def test_text_without_control_characters_is_logged_unchanged(caplog: pytest.LogCaptureFixture) -> None:
    logs.protect()
    logging.getLogger("ottla.broker").warning("%s and %s", "größe, ünïcode", None)
    assert caplog.messages == ["größe, ünïcode and None"]


def test_logged_traceback_has_no_line_that_looks_like_a_record(caplog: pytest.LogCaptureFixture) -> None:
    logs.protect()
    try:
        raise InvalidTopicError(FORGED)
    except InvalidTopicError:
        logging.getLogger("ottla.net").exception("a request failed")
    formatted = logging.Formatter("%(asctime)s %(message)s").format(caplog.records[0])
    assert "\x1b" not in formatted
    assert all(line.startswith("    ") for line in formatted.splitlines()[1:])
    assert "InvalidTopicError: x" in formatted


def test_topic_name_of_a_request_is_escaped_in_the_broker_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "ottla.authorizer")

    async def test(client: BrokerClient) -> None:
        topic = CreatableTopic(name=FORGED, num_partitions=1, replication_factor=1)
        await client.request(CreateTopicsRequest(topics=[topic]), 7)

    with_broker(test, tmp_path, authorizer_class_name="AclAuthorizer")
    assert [message for message in caplog.messages if ESCAPED in message]
    assert all(message.isprintable() for message in caplog.messages)
