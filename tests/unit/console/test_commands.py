"""`ottla console` and `ottla top` on the command line."""

from __future__ import annotations

import io
import json
import socket
import sys

import pytest
from rich.console import Console
from tests.unit.console.consoles import PASSWORD

from ottla.broker.embedded import Broker
from ottla.cli.main import main
from ottla.errors import ConfigurationError
from ottla_console import serving
from ottla_console.cli.top import _table
from ottla_console.security.users import verify_password


def test_top_prints_the_cluster_once_as_json(
    ottla_broker: Broker, ottla_topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    servers = ["--bootstrap-server", ottla_broker.bootstrap_servers]
    assert main(["topics", *servers, "--create", "--topic", ottla_topic, "--partitions", "2"]) == 0
    capsys.readouterr()
    assert main(["top", *servers, "--once", "--json", "--interval", "0.2"]) == 0
    view = json.loads(capsys.readouterr().out)
    assert view["brokers"][0]["is_controller"]
    assert {"name": ottla_topic, "partitions": 2, "messages_per_second": 0.0} in view["topics"]
    assert view["offline"] == view["under_replicated"] == 0


def test_top_prints_tables_once(ottla_broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    servers = ["--bootstrap-server", ottla_broker.bootstrap_servers]
    assert main(["top", *servers, "--once", "--interval", "0.2"]) == 0
    text = capsys.readouterr().out
    assert "Messages/s" in text
    assert ottla_broker.bootstrap_servers in text


def test_long_name_is_truncated_and_numbers_are_not() -> None:
    out = io.StringIO()
    Console(width=60, file=out).print(_table(("Topic", ">Messages/s"), [("t" * 100, "12,345")]))
    assert "Messages/s" in out.getvalue()
    assert "t… " in out.getvalue()
    assert "12,345" in out.getvalue()


def test_top_reports_why_the_cluster_is_unreachable(unused_address: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["top", "--bootstrap-server", unused_address, "--once"]) == 1
    assert "connection refused" in capsys.readouterr().err


def test_console_on_a_public_address_without_users_is_rejected(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["console", "--bootstrap-server", "127.0.0.1:1", "--listen", "0.0.0.0:8080"]) == 1
    assert "add --users FILE" in capsys.readouterr().err


def test_port_in_use_is_reported_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as used:
        address = f"127.0.0.1:{used.getsockname()[1]}"
        assert main(["console", "--bootstrap-server", "127.0.0.1:1", "--listen", address]) == 1
    printed = capsys.readouterr()
    assert printed.err == (
        f"ottla console: cannot bind {address}: Address already in use; stop the other program, or choose another port "
        "with --listen (of the schema registry: --listeners)\n"
    )
    assert printed.out == ""


def test_host_name_with_an_ipv6_address_is_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    families = list[int]()

    def resolve(host: str, port: int, **_: object) -> list[tuple[object, ...]]:
        if host != "six":
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("::1", port, 0, 0))]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    monkeypatch.setattr(socket, "create_server", lambda _, family: families.append(family))
    serving._bind("six", 0)
    assert families == [socket.AF_INET6]
    with pytest.raises(ConfigurationError, match="cannot bind none:0: Name or service not known$"):
        serving._bind("none", 0)


def test_hash_password_prints_a_password_hash(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(PASSWORD + "\n"))
    assert main(["console", "--hash-password"]) == 0
    assert verify_password(PASSWORD, capsys.readouterr().out.strip())
