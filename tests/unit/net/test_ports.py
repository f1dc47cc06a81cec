from __future__ import annotations

import socket
from pathlib import Path

import pytest

from ottla.net import ports
from ottla.net.ports import free_port, outgoing_from


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget which ports were returned before."""
    monkeypatch.setattr(ports, "_returned", set())


def test_free_port_is_below_the_ephemeral_range() -> None:
    assert all(ports.LOWEST <= free_port() < outgoing_from(ports.OUTGOING) for _ in range(100))


def test_port_in_use_is_not_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", free_port())) as server:
        taken = server.getsockname()[1]
        candidates = iter([taken, taken, taken + 1])
        monkeypatch.setattr(ports, "_candidate", lambda in_a_row: next(candidates))
        assert free_port() == taken + 1


def test_consecutive_ports_are_all_free(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", free_port(3))) as server:
        taken = server.getsockname()[1]
        ports._returned.clear()
        candidates = iter([taken - 1, taken + 1])
        monkeypatch.setattr(ports, "_candidate", lambda in_a_row: next(candidates))
        assert free_port(in_a_row=2) == taken + 1


def test_without_a_free_port_os_error_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setattr(ports, "_candidate", lambda in_a_row: server.getsockname()[1])
        with pytest.raises(OSError, match="no 1 free ports in a row"):
            free_port()


def test_kernel_chooses_the_port_if_all_ports_are_ephemeral(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    range_file = tmp_path / "range"
    range_file.write_text("1024\t65535\n")
    monkeypatch.setattr(ports, "OUTGOING", range_file)
    assert outgoing_from(range_file) == 1024
    assert free_port() > 0


def test_missing_port_range_file_has_the_default(tmp_path: Path) -> None:
    assert outgoing_from(tmp_path / "missing") == ports.OUTGOING_FROM


def test_port_is_not_returned_twice_although_it_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    first = ports.free_port()
    candidates = iter([first, first, first + 1, *range(first + 2, first + 50)])
    monkeypatch.setattr(ports, "_candidate", lambda _: next(candidates))
    assert ports.free_port() != first
