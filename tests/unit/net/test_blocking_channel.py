"""The blocking channel against misbehaving peers."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from ottla.errors import BrokerConnectionError, MalformedMessageError, NetworkError, RequestTimedOutError
from ottla.net.client.blocking_channel import BlockingChannel
from ottla.protocol.messages.metadata import MetadataRequest


@contextmanager
def peer(serve: Callable[[socket.socket], None], timeout_ms: int = 2000) -> Iterator[BlockingChannel]:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def run() -> None:
            sock, _ = listener.accept()
            with sock:
                sock.recv(10_000)
                serve(sock)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        channel = BlockingChannel("127.0.0.1", listener.getsockname()[1], read_timeout_ms=timeout_ms)
        channel.connect()
        try:
            yield channel
        finally:
            channel.disconnect()
            thread.join(5)


def send_request(channel: BlockingChannel) -> object:
    channel.send(MetadataRequest(topics=[]), 0, 5, "c")
    return channel.receive()


def test_connect_without_a_listener_raises_broker_connection_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    channel = BlockingChannel("127.0.0.1", port)
    with pytest.raises(BrokerConnectionError, match=str(port)):
        channel.connect()
    assert not channel.is_connected


def test_response_is_decoded() -> None:
    response = b"\0\0\0\x0c" + b"\0\0\0\x05" + b"\0\0\0\0" * 2
    with peer(lambda sock: sock.sendall(response)) as channel:
        assert send_request(channel)


def test_wrong_correlation_id_is_a_malformed_message() -> None:
    response = b"\0\0\0\x0c" + b"\0\0\0\x06" + b"\0\0\0\0" * 2
    with peer(lambda sock: sock.sendall(response)) as channel, pytest.raises(MalformedMessageError):
        send_request(channel)


def test_disconnecting_peer_raises_network_error() -> None:
    with peer(lambda sock: None) as channel, pytest.raises(NetworkError, match="closed the connection"):
        send_request(channel)


def test_slowly_dripping_response_times_out() -> None:
    def drip(sock: socket.socket) -> None:
        sock.sendall(b"\0\0\0\x0c")
        for _ in range(11):
            time.sleep(0.03)
            try:
                sock.sendall(b"\0")
            except OSError:
                return

    with peer(drip, timeout_ms=100) as channel:
        begin = time.monotonic()
        with pytest.raises(RequestTimedOutError, match="Metadata"):
            send_request(channel)
        assert time.monotonic() - begin < 1


def test_request_on_a_disconnected_channel_raises_network_error() -> None:
    with peer(lambda sock: None) as channel:
        channel.disconnect()
        channel.disconnect()
        with pytest.raises(NetworkError, match="not connected"):
            send_request(channel)
