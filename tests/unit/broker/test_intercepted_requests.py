"""Request interceptors, which are called instead of the handlers until they are removed."""

from __future__ import annotations

from typing import Any

from ottla import Broker, KafkaAdminClient
from ottla.broker.apis import ApiEntry, Handler
from ottla.broker.request_context import RequestContext
from ottla.protocol.message import Request

seen: list[tuple[str, str]] = []


def record_request(entry: ApiEntry, handler: Handler, request: Request[Any], context: RequestContext) -> Any:
    seen.append((entry.name, context.client_id))
    return handler(request, context)


def test_interceptor_sees_requests_until_it_is_removed() -> None:
    seen.clear()
    with Broker() as broker, KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers, client_id="a") as admin:
        admin.list_topics()
        assert not seen
        broker.intercept(record_request)
        admin.list_topics()
        assert ("Metadata", "a") in seen
        broker.intercept(None)
        seen.clear()
        admin.list_topics()
        assert not seen


def test_interceptor_applies_to_brokers_that_are_started_again() -> None:
    seen.clear()
    with Broker(brokers=2) as cluster:
        cluster.intercept(record_request)
        cluster.restart_broker(1)
        address = cluster.bootstrap_servers.split(",")[1]
        with KafkaAdminClient(bootstrap_servers=address, client_id="a") as admin:
            admin.list_topics()
    assert ("ApiVersions", "a") in seen
