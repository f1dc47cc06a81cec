"""Links forward bytes, buffer them while they are cut, and identify the source of connections."""

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
    """A server that sends back the received bytes."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=_serve, args=(server,), daemon=True).start()
        yield server.getsockname()[1]


def _serve(server: socket.socket) -> None:
    while True:
        try:
            connection, _ = server.accept()
        except OSError:
            return
        threading.Thread(target=_echo, args=(connection,), daemon=True).start()


def _echo(connection: socket.socket) -> None:
    with connection, contextlib.suppress(OSError):
        while data := connection.recv(100):
            connection.sendall(data)


@pytest.fixture
def links() -> Iterator[Links]:
    with Links(lambda: {os.getpid(): "me"}) as made:
        yield made


def send_and_receive(connection: socket.socket, text: bytes, seconds: float = 5) -> bytes:
    connection.settimeout(seconds)
    connection.sendall(text)
    return connection.recv(100)


def test_cut_link_buffers_bytes_until_it_is_repaired(echo: int, links: Links) -> None:
    port = links.listen("server", echo)
    with socket.create_connection(("127.0.0.1", port)) as open_one:
        assert send_and_receive(open_one, b"1") == b"1"
        links.cut(lambda link: link == Link("me", "server"))
        with pytest.raises(TimeoutError):
            send_and_receive(open_one, b"2", seconds=0.1)
        with socket.create_connection(("127.0.0.1", port)) as new_one:
            with pytest.raises(TimeoutError):
                send_and_receive(new_one, b"3", seconds=0.1)
            links.heal()
            new_one.settimeout(5)
            assert new_one.recv(100) == b"3"
        open_one.settimeout(5)
        assert open_one.recv(100) == b"2"


def test_other_links_are_not_cut(echo: int, links: Links) -> None:
    links.cut(lambda link: link.source != "me")
    with socket.create_connection(("127.0.0.1", links.listen("server", echo))) as connection:
        assert send_and_receive(connection, b"1") == b"1"


def test_reset_breaks_open_connections(echo: int, links: Links) -> None:
    with socket.create_connection(("127.0.0.1", links.listen("server", echo, source="client"))) as connection:
        assert send_and_receive(connection, b"1") == b"1"
        links.reset(lambda link: link.between("server", "client"))
        connection.settimeout(5)
        with pytest.raises(ConnectionResetError):
            connection.recv(100)


def test_link_to_a_closed_port_resets_the_connection(links: Links) -> None:
    with socket.create_connection(("127.0.0.1", links.listen("server", 1))) as connection:
        connection.settimeout(5)
        with pytest.raises(ConnectionResetError):
            connection.recv(100)


def test_owner_of_returns_the_process_of_a_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert owner_of(port, [1, os.getpid()]) in (1, os.getpid())
        assert owner_of(port, []) is None
