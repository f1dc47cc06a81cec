"""The code in README.md and in the pages of docs: Python runs, commands parse, properties are configs."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.how_to.pages import run_page
from tests.unit.docs.code_blocks import DOCS, code_blocks
from tests.unit.registry.registries import serve_registry

import ottla
from ottla.cli.completion import parser_of_all
from ottla.config.broker.broker_config import BrokerConfig
from ottla.config.properties import parse

PAGES = [DOCS.parent / "README.md", *sorted(DOCS.glob("*.md")), *sorted((DOCS.parent / "examples").rglob("*.md"))]
RUN = (
    "admin",
    "asyncio",
    "clients",
    "consumer",
    "metrics",
    "producer",
    "share-consumer",
    "from-confluent-kafka",
    "from-kafka-python",
)
TESTED_ELSEWHERE = {
    "README": "tests/interop/clients/test_examples.py and tests/spark/test_first_use.py",
    "index": "tests/unit/docs/test_tutorial.py",
    "tutorial": "tests/unit/docs/test_tutorial.py; its commands by test_tutorial_commands.py",
    "testing": "tests/unit/docs/test_testing_page.py",
    "legacy": "tests/interop/clients/test_ottla_zookeeper_consumer.py, which has a ZooKeeper",
    "pipeline": "tests/unit/pipelines/declarative/test_projects.py runs the project that it shows a part of",
    "tables": "tests/spark/test_tables.py, which has a table",
    "schema-registry": "test_python_of_the_schema_registry_page_runs",
    "security": "test_python_of_the_security_page_runs",
}
"""Pages whose Python is tested elsewhere, and where."""
COMMAND = re.compile(r"^(?:    )?(?:[^|#\n]*\| *)?(ottla (?:[^\n]*\\\n)*[^\n]*)", re.MULTILINE)
PLACEHOLDER = re.compile(r"[…]|\.\.\.|<[a-z]|\[")


@pytest.fixture
def broker() -> Iterator[ottla.Broker]:
    with ottla.Broker({"group.initial.rebalance.delay.ms": 0}) as broker:
        yield broker


@pytest.mark.parametrize("name", RUN)
def test_python_of_the_page_runs(
    name: str, broker: ottla.Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ends = {
        "        print(record.value)": "        print(record.value); break",
        "print(record.offset, record.key, record.value)": "break",
        "while True:": "for _ in range(2):",
    }
    run_page(f"../{name}", broker.bootstrap_servers, tmp_path, ends)


def test_python_of_the_schema_registry_page_runs(
    broker: ottla.Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with serve_registry(broker.bootstrap_servers) as url:
        actual = {"http://localhost:8081": url, "        print(record.value)": "        print(record.value); break"}
        run_page("../schema-registry", broker.bootstrap_servers, tmp_path, actual)
    assert capsys.readouterr().out == "{'page': '/index.html'}\n"


LOGIN = "org.apache.kafka.common.security"


def test_python_of_the_security_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page runs without TLS, whose certificate would be for the page's host, and with tokens from a file."""
    monkeypatch.chdir(tmp_path)
    listener = "listener.name.sasl_plaintext"
    configs = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": "OAUTHBEARER,SCRAM-SHA-512,PLAIN",
        f"{listener}.oauthbearer.sasl.jaas.config": f"{LOGIN}.oauthbearer.OAuthBearerLoginModule required;",
        f"{listener}.scram-sha-512.sasl.jaas.config": f"{LOGIN}.scram.ScramLoginModule required;",
        f"{listener}.plain.sasl.jaas.config": (
            f'{LOGIN}.plain.PlainLoginModule required user_alice="alice\'s password";'
        ),
        "delegation.token.secret.key": "a long random text",
    }
    with ottla.Broker(configs) as broker:
        assert broker._node is not None
        port = next(e.port for e in broker._node.endpoints if e.protocol == "SASL_PLAINTEXT")
        actual = {
            "localhost:9094": f"127.0.0.1:{port}",
            "SASL_SSL": "SASL_PLAINTEXT",
            "https://login.example.com/token": (tmp_path / "token").as_uri(),
        }
        run_page("../security", broker.bootstrap_servers, tmp_path, actual)


def test_python_of_every_page_is_run() -> None:
    pages = {page.stem for page in PAGES if any(block.language == "python" for block in code_blocks(page))}
    assert pages == {*RUN, *TESTED_ELSEWHERE}


def commands(page: Path) -> Iterator[str]:
    """Yield the command lines in the code of a page that have no placeholders."""
    text = page.read_text()
    code = [block.source for block in code_blocks(page) if block.language in ("", "sh", "bash", "console")]
    code += re.findall(r"(?:^ {4}\S[^\n]*\n)+", re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE), re.M)
    for source in code:
        for line in COMMAND.findall(source):
            if not PLACEHOLDER.search(line):
                yield line.replace("\\\n", " ")


def words(line: str) -> list[str]:
    """Return the arguments of the first command of a line."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|;&<>")
    lexer.whitespace_split = True
    arguments = []
    for word in lexer:
        if word[0] in "|;&<>":
            break
        arguments.append(word)
    return arguments


def test_commands_of_the_pages_parse(capsys: pytest.CaptureFixture[str]) -> None:
    parser = parser_of_all()
    wrong = {}
    lines = [(page, line) for page in PAGES for line in commands(page)]
    for page, line in lines:
        arguments = words(line)[1:]
        if arguments and arguments[0] != "spark-submit":  # passes its options through
            try:
                parser.parse(arguments)
            except SystemExit as end:
                if end.code:
                    wrong[f"{page.name}: {line}"] = capsys.readouterr().err.splitlines()[-1]
    assert not wrong
    assert len(lines) > 60


def test_each_topic_is_created_by_one_command() -> None:
    """A reader who follows several pages with one broker would find another topic than the page describes."""
    pages = [*sorted(DOCS.glob("*.md")), *sorted((DOCS / "how-to").glob("*.md"))]
    created = [
        match[1]
        for page in pages
        for line in commands(page)
        if "topics " in line and "--create" in line and (match := re.search(r"--topic ([\w.-]+)", line))
    ]
    assert sorted({name for name in created if created.count(name) > 1}) == []
    assert len(created) > 10


def test_properties_of_the_pages_are_configs_of_a_broker(caplog: pytest.LogCaptureFixture) -> None:
    for page in PAGES:
        for block in code_blocks(page):
            if block.language == "properties":
                BrokerConfig.from_kafka(parse(block.source))
    assert not [record.getMessage() for record in caplog.records]
