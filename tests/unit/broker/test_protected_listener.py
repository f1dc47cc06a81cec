from __future__ import annotations

import asyncio
from pathlib import Path

from tests.unit.broker.broker_client import BrokerClient, with_broker


def test_broker_connection_is_accepted_at_max_connections_by_closing_an_idle_client(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        ports = {endpoint.name: endpoint.port for endpoint in client.node.endpoints}
        clients = [await asyncio.open_connection("127.0.0.1", ports["CLIENTS"]) for _ in range(3)]
        listeners = {listener.name: listener for listener in client.node._listeners}
        async with asyncio.timeout(10):
            while len(listeners["CLIENTS"].connections) < 3:
                await asyncio.sleep(0.001)
            broker = await asyncio.open_connection("127.0.0.1", ports["BROKERS"])
            assert await clients[0][0].read() == b"", "the client that was idle for longest is closed"
            while not listeners["BROKERS"].connections:
                await asyncio.sleep(0.001)
        assert len(listeners["CLIENTS"].connections) == 2
        for _, writer in (*clients, broker):
            writer.close()

    with_broker(
        test,
        tmp_path,
        listeners="CLIENTS://127.0.0.1:0,BROKERS://127.0.0.1:0",
        listener_security_protocol_map="CLIENTS:PLAINTEXT,BROKERS:PLAINTEXT",
        inter_broker_listener_name="BROKERS",
        max_connections=3,
    )
