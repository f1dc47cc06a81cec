"""Links carry bytes, swallow them while they are cut, and know who dials."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Iterator

import pytest
from tests.chaos.links import Link, Links
from tests.chaos.sockets import owner_of


@pytest.fixture
def echo() -> Iterator[int]:
    """A server that sends back what it gets."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=_serve, args=(server,), daemon=True).start()
        yield server.getsockname()[1]


def _serve(server: socket.socket) -> None:
    while True:
        try:
            connection, _ = server.accept()
        except OSError:
            return
        threading.Thread(target=_answer, args=(connection,), daemon=True).start()


def _answer(connection: socket.socket) -> None:
    with connection, contextlib.suppress(OSError):
        while data := connection.recv(100):
            connection.sendall(data)


@pytest.fixture
def links() -> Iterator[Links]:
    with Links(lambda: {os.getpid(): "me"}) as made:
        yield made


def ask(connection: socket.socket, text: bytes, seconds: float = 5) -> bytes:
    connection.settimeout(seconds)
    connection.sendall(text)
    return connection.recv(100)


def test_a_cut_link_swallows_and_goes_on_when_it_is_whole(echo: int, links: Links) -> None:
    port = links.listen("server", echo)
    with socket.create_connection(("127.0.0.1", port)) as open_one:
        assert ask(open_one, b"1") == b"1"
        links.cut(lambda link: link == Link("me", "server"))
        with pytest.raises(TimeoutError):
            ask(open_one, b"2", seconds=0.1)
        with socket.create_connection(("127.0.0.1", port)) as new_one:
            with pytest.raises(TimeoutError):
                ask(new_one, b"3", seconds=0.1)
            links.heal()
            new_one.settimeout(5)
            assert new_one.recv(100) == b"3"
        open_one.settimeout(5)
        assert open_one.recv(100) == b"2"


def test_other_links_stay_whole(echo: int, links: Links) -> None:
    links.cut(lambda link: link.source != "me")
    with socket.create_connection(("127.0.0.1", links.listen("server", echo))) as connection:
        assert ask(connection, b"1") == b"1"


def test_reset_breaks_what_is_open(echo: int, links: Links) -> None:
    with socket.create_connection(("127.0.0.1", links.listen("server", echo, source="client"))) as connection:
        assert ask(connection, b"1") == b"1"
        links.reset(lambda link: link.between("server", "client"))
        connection.settimeout(5)
        with pytest.raises(ConnectionResetError):
            connection.recv(100)


def test_a_server_that_is_down_ends_the_connection(links: Links) -> None:
    with socket.create_connection(("127.0.0.1", links.listen("server", 1))) as connection:
        connection.settimeout(5)
        with pytest.raises(ConnectionResetError):
            connection.recv(100)


def test_the_process_behind_a_port_is_found() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert owner_of(port, [1, os.getpid()]) in (1, os.getpid())
        assert owner_of(port, []) is None
