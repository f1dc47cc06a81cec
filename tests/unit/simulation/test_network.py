"""The simulated network: order, cuts, resets, ends, and hosts without power."""

from __future__ import annotations

import errno
import random

import pytest

from ottla.simulation.event_loop import SimulatedLoop, StuckError
from ottla.simulation.network import WINDOW_BYTES, Network, SimulatedSocket
from ottla.simulation.process import Process


class Pair:
    """Two connected sockets on two hosts."""

    def __init__(self) -> None:
        self.loop = SimulatedLoop()
        self.network = Network(self.loop, random.Random(1))
        self.processes = Process("client", "10.0.0.1"), Process("server", "10.0.0.2")
        listener = self.network.open_socket(self.processes[1])
        listener.bind(("10.0.0.2", 9092))
        listener.listen()
        self.client = self.network.open_socket(self.processes[0])
        with pytest.raises(BlockingIOError):
            self.client.connect(("10.0.0.2", 9092))
        self.run(1)
        self.server, _ = listener.accept()

    def run(self, seconds: float) -> None:
        """Let time pass."""
        self.loop.call_outside(self.loop.time() + seconds, self.loop.stop)
        self.loop.run_forever()


def received(sock: SimulatedSocket) -> bytes:
    data = bytearray(100_000)
    return bytes(data[: sock.recv_into(data)])


def test_bytes_arrive_in_order() -> None:
    pair = Pair()
    for number in range(100):
        pair.client.sendmsg([b"%d," % number])
    pair.run(1)
    assert received(pair.server) == b"".join(b"%d," % number for number in range(100))


def test_bytes_sent_at_the_same_time_mostly_arrive_together() -> None:
    pair = Pair()
    arrivals: list[bytes] = []
    pair.network.on_message = lambda source, target, data: arrivals.append(data)
    for number in range(100):
        pair.client.sendmsg([b"%02d" % number])
    pair.run(1)
    assert 2 < len(arrivals) < 40
    arrivals.clear()
    for number in range(10):
        pair.client.sendmsg([b"%02d" % number])
        pair.run(0.1)
    assert len(arrivals) == 10


def test_cut_link_delays_bytes_in_one_direction_only() -> None:
    pair = Pair()
    pair.network.cut("10.0.0.1", "10.0.0.2")
    pair.client.send(b"request")
    pair.server.send(b"push")
    pair.run(10)
    assert not pair.server.is_readable
    assert received(pair.client) == b"push"
    pair.network.heal("10.0.0.1", "10.0.0.2")
    pair.run(1)
    assert received(pair.server) == b"request"


def test_window_limits_unread_bytes() -> None:
    pair = Pair()
    assert pair.client.send(bytes(2 * WINDOW_BYTES)) == WINDOW_BYTES
    with pytest.raises(BlockingIOError):
        pair.client.send(b"more")
    pair.run(1)
    assert not pair.client.is_writable
    received(pair.server)
    assert pair.client.is_writable


def test_close_ends_the_stream_after_its_last_byte() -> None:
    pair = Pair()
    pair.client.send(b"last words")
    pair.client.close()
    pair.run(1)
    assert received(pair.server) == b"last words"
    assert received(pair.server) == b""


def test_close_with_unread_bytes_resets_the_connection() -> None:
    pair = Pair()
    pair.client.send(b"unread")
    pair.run(1)
    pair.server.close()
    pair.run(1)
    with pytest.raises(ConnectionResetError):
        received(pair.client)


def test_killed_process_closes_its_sockets() -> None:
    pair = Pair()
    process = pair.processes[1]
    process.on_death.append(lambda: pair.network.close_sockets_of(process))
    process.kill()
    pair.run(1)
    assert received(pair.client) == b""
    new_client = pair.network.open_socket(pair.processes[0])
    with pytest.raises(BlockingIOError):
        new_client.connect(("10.0.0.2", 9092))
    pair.run(1)
    assert new_client.getsockopt(1, 4) == errno.ECONNREFUSED


def test_host_without_power_is_silent_and_resets_connections_after_power_on() -> None:
    pair = Pair()
    pair.network.power_off("10.0.0.2")
    pair.client.send(b"anyone there?")
    pair.run(60)
    assert not pair.client.is_readable
    pair.network.power_on("10.0.0.2")
    pair.run(1)
    with pytest.raises(ConnectionResetError):
        received(pair.client)


def test_callbacks_wait_for_a_paused_process_and_are_dropped_for_a_killed_one() -> None:
    pair = Pair()
    calls: list[str] = []
    paused, dead = pair.processes
    for process in pair.processes:
        process.run(pair.loop.call_later, 1, calls.append, process.name)
    paused.pause()
    dead.kill()
    pair.run(5)
    assert calls == []
    pair.loop.resume(paused)
    pair.run(1)
    assert calls == ["client"]


def test_run_without_pending_timers_raises_stuck_error() -> None:
    loop = SimulatedLoop()
    with pytest.raises(StuckError, match="no timer is pending"):
        loop.run_until_complete(loop.create_future())


def test_ended_connections_are_listed_until_they_are_closed() -> None:
    pair = Pair()
    assert pair.network.ended_connections(pair.processes[1]) == []
    pair.client.close()
    pair.run(1)
    assert pair.network.ended_connections(pair.processes[1]) == [pair.client.local]
    pair.server.close()
    assert pair.network.ended_connections(pair.processes[1]) == []
