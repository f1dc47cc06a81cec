"""The admin client: every call with an Ottla broker; routing, retries and timeouts with scripted brokers."""

from __future__ import annotations

import asyncio
import inspect
import os
import re
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.unit.client.admin_scenarios import (
    OTTLA,
    RESTRICTED,
    SCENARIOS,
    Scenario,
    acls_are_created_listed_and_deleted,
    until,
)
from tests.unit.client.conftest import descriptors
from tests.unit.client.keyboard import ctrl_c
from tests.unit.client.scripted import SILENCE, ScriptedBroker

from ottla import ConfigResource, KafkaAdminClient, NewTopic, OffsetSpec, TopicPartition, aio, errors
from ottla.broker.embedded import Broker
from ottla.client.admin import driver
from ottla.client.admin.core import AdminCore
from ottla.client.admin.driver import AdminDriver
from ottla.protocol.messages import consumer_group_describe, metadata
from ottla.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from ottla.protocol.messages.create_topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.protocol.messages.describe_cluster import DescribeClusterRequest
from ottla.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from ottla.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from ottla.protocol.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ottla.protocol.messages.list_offsets import ListOffsetsRequest
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.protocol.messages.offset_commit import OffsetCommitRequest


@pytest.fixture(scope="module")
def admin() -> Iterator[KafkaAdminClient]:
    with Broker({"group.initial.rebalance.delay.ms": 0}) as node:
        with KafkaAdminClient(bootstrap_servers=node.bootstrap_servers, retry_backoff_ms=5) as client:
            yield client


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.__name__)
def test_admin_client_with_ottla_broker(scenario: Scenario, admin: KafkaAdminClient) -> None:
    scenario(admin, f"s-{uuid.uuid4().hex[:8]}", OTTLA)


def test_ottla_broker_with_acl_authorizer_stores_acls() -> None:
    with Broker({"authorizer.class.name": "AclAuthorizer", "super.users": "User:ANONYMOUS"}) as node:
        with KafkaAdminClient(bootstrap_servers=node.bootstrap_servers, retry_backoff_ms=5) as client:
            acls_are_created_listed_and_deleted(client, "s", RESTRICTED)


# Both APIs


def methods_of(api: type) -> dict[str, Any]:
    return {name: member for name, member in inspect.getmembers(api, callable) if re.match("[a-z]", name)}


INTERNAL_METHODS = set(methods_of(AdminDriver)) - {"metrics"}
"""Starting and stopping is done by `async with`; the others serve the calls."""


def test_both_apis_have_the_same_methods() -> None:
    blocking, asynchronous = methods_of(KafkaAdminClient), methods_of(aio.KafkaAdminClient)
    assert set(blocking) == set(asynchronous) - INTERNAL_METHODS
    for name, call in blocking.items():
        assert inspect.signature(call) == inspect.signature(asynchronous[name]), name
        assert call.__doc__ == asynchronous[name].__doc__ or name == "close", name


def test_every_method_of_the_core_is_in_the_synchronous_api() -> None:
    coroutines = {name for name, call in methods_of(AdminCore).items() if inspect.iscoroutinefunction(call)}
    assert coroutines - INTERNAL_METHODS <= set(methods_of(KafkaAdminClient))


def test_asyncio_admin_client_creates_and_describes_topics() -> None:
    async def test() -> None:
        with Broker() as node:
            async with aio.KafkaAdminClient(bootstrap_servers=node.bootstrap_servers) as admin:
                await admin.create_topics([NewTopic("t", 2, 1)])
                result, cluster = await asyncio.gather(admin.describe_topics(["t"]), admin.describe_cluster())
                assert len(result["t"].partitions) == 2
                assert cluster.controller is not None

    asyncio.run(test())


def test_created_topic_is_printed_without_its_configs() -> None:
    with Broker() as node, KafkaAdminClient(bootstrap_servers=node.bootstrap_servers) as admin:
        (topic,) = admin.create_topics([NewTopic("t", 2, 1)]).values()
    assert topic.configs is not None
    assert repr(topic) == (
        f"CreatedTopic(name='t', topic_id={topic.topic_id!r}, num_partitions=2, replication_factor=1, "
        f"configs=<{len(topic.configs)} configs>)"
    )


# Routing, retries and timeouts


def throttled(request: CreateTopicsRequest) -> CreateTopicsResponse:
    results = [CreatableTopicResult(name=topic.name, error_code=89) for topic in request.topics]
    return CreateTopicsResponse(throttle_time_ms=60, topics=results)


def test_throttled_request_is_retried_after_the_throttle_time(broker: ScriptedBroker) -> None:
    broker.on(CreateTopicsRequest, throttled, times=2)
    with KafkaAdminClient(bootstrap_servers=broker.address, retry_backoff_ms=1) as admin:
        begin = time.monotonic()
        admin.create_topics([NewTopic("new", 1, 1)])
        assert time.monotonic() - begin >= 0.12
        assert len(broker.requests_of(CreateTopicsRequest)) == 3


def test_quota_violation_is_raised_without_retry_on_quota_violation(broker: ScriptedBroker) -> None:
    broker.on(CreateTopicsRequest, throttled)
    with KafkaAdminClient(bootstrap_servers=broker.address) as admin:
        with pytest.raises(errors.ThrottlingQuotaExceededError):
            admin.create_topics([NewTopic("new", 1, 1)], retry_on_quota_violation=False)


def test_quota_violation_is_raised_if_the_retry_after_it_ends_at_the_deadline(broker: ScriptedBroker) -> None:
    broker.on(CreateTopicsRequest, throttled)
    broker.on(CreateTopicsRequest, lambda _: SILENCE)
    with KafkaAdminClient(bootstrap_servers=broker.address, retry_backoff_ms=1) as admin:
        with pytest.raises(errors.ThrottlingQuotaExceededError):
            admin.create_topics([NewTopic("new", 1, 1)], timeout_ms=300)
    assert len(broker.requests_of(CreateTopicsRequest)) == 2


def test_retry_contains_only_failed_topics(broker: ScriptedBroker) -> None:
    def fail_topic_b(request: CreateTopicsRequest) -> CreateTopicsResponse:
        codes = {"a": 0, "b": 7}
        return CreateTopicsResponse(
            topics=[CreatableTopicResult(name=t.name, error_code=codes[t.name]) for t in request.topics]
        )

    broker.on(CreateTopicsRequest, fail_topic_b)
    with KafkaAdminClient(bootstrap_servers=broker.address, retry_backoff_ms=1) as admin:
        admin.create_topics([NewTopic("a", 1, 1), NewTopic("b", 1, 1)])
    assert [[t.name for t in r.topics] for r in broker.requests_of(CreateTopicsRequest)] == [["a", "b"], ["b"]]


def request_timed_out(request: CreateTopicsRequest) -> CreateTopicsResponse:
    return CreateTopicsResponse(topics=[CreatableTopicResult(name=t.name, error_code=7) for t in request.topics])


def test_admin_call_with_not_controller_error_refreshes_metadata_and_is_retried(broker: ScriptedBroker) -> None:
    def not_controller(request: CreateTopicsRequest) -> CreateTopicsResponse:
        code = errors.NotControllerError.code or 0
        return CreateTopicsResponse(topics=[CreatableTopicResult(name=t.name, error_code=code) for t in request.topics])

    broker.on(CreateTopicsRequest, not_controller, times=2)
    with KafkaAdminClient(bootstrap_servers=broker.address, retry_backoff_ms=5) as admin:
        admin.create_topics([NewTopic("new", 1, 1)])
        refreshed = len(broker.requests_of(MetadataRequest))
    assert len(broker.requests_of(CreateTopicsRequest)) == 3
    assert refreshed >= 2


@pytest.mark.option("retries")
def test_retries_limit_ends_a_call_before_its_timeout(broker: ScriptedBroker) -> None:
    broker.on(CreateTopicsRequest, request_timed_out, times=10)
    with KafkaAdminClient(bootstrap_servers=broker.address, retries=2, retry_backoff_ms=1) as admin:
        with pytest.raises(errors.RequestTimedOutError, match="new"):
            admin.create_topics([NewTopic("new", 1, 1)])
    assert len(broker.requests_of(CreateTopicsRequest)) == 3


@pytest.mark.option("default.api.timeout.ms", "request.timeout.ms")
def test_call_ends_after_default_api_timeout_ms(broker: ScriptedBroker) -> None:
    broker.on(CreateTopicsRequest, lambda _: SILENCE, times=10)
    options: dict[str, Any] = {"default_api_timeout_ms": 150, "request_timeout_ms": 150}
    with KafkaAdminClient(bootstrap_servers=broker.address, **options) as admin:
        with pytest.raises(errors.KafkaTimeoutError):
            admin.create_topics([NewTopic("new", 1, 1)])


@pytest.mark.parametrize(
    "call",
    [
        lambda admin: admin.create_topics([NewTopic("new", 1, 1)]),
        lambda admin: admin.list_groups(),
        lambda admin: admin.describe_cluster(),
        lambda admin: admin.list_consumer_group_offsets("g"),
    ],
    ids=["create_topics", "list_groups", "describe_cluster", "list_consumer_group_offsets"],
)
def test_admin_call_while_broker_starts_outlives_request_timeout(
    call: Callable[[KafkaAdminClient], object], broker: ScriptedBroker
) -> None:
    for request in (MetadataRequest, DescribeClusterRequest):
        broker.on(request, lambda _: SILENCE, times=3)
    broker.on(ListGroupsRequest, lambda _: ListGroupsResponse())
    options: dict[str, Any] = {"default_api_timeout_ms": 20_000, "request_timeout_ms": 100, "retry_backoff_ms": 5}
    with KafkaAdminClient(bootstrap_servers=broker.address, **options) as admin:
        call(admin)


@pytest.mark.parametrize("call", ["create_topics", "list_groups", "describe_consumer_groups"])
def test_admin_call_at_its_deadline_raises_timeout_with_the_last_failure(call: str, broker: ScriptedBroker) -> None:
    arguments = {"create_topics": ([NewTopic("new", 1, 1)],), "describe_consumer_groups": (["g"],)}.get(call, ())
    options: dict[str, Any] = {"retry_backoff_ms": 1000, "retry_backoff_max_ms": 1000}
    with KafkaAdminClient(bootstrap_servers=broker.address, **options) as admin:
        admin.list_topics()
        broker.__exit__()
        with pytest.raises(errors.KafkaTimeoutError, match=f"{broker.port}") as raised:
            getattr(admin, call)(*arguments, timeout_ms=300)
    assert isinstance(raised.value.__cause__, errors.BrokerConnectionError)


@pytest.mark.option("retry.backoff.ms", "retry.backoff.max.ms")
def test_retry_backoff_grows_up_to_its_maximum(broker: ScriptedBroker) -> None:
    times: list[float] = []

    def fail(request: CreateTopicsRequest) -> CreateTopicsResponse:
        times.append(time.monotonic())
        return request_timed_out(request)

    broker.on(CreateTopicsRequest, fail, times=20)
    options: dict[str, Any] = {"retry_backoff_ms": 20, "retry_backoff_max_ms": 40, "retries": 8}
    with KafkaAdminClient(bootstrap_servers=broker.address, **options) as admin:
        with pytest.raises(errors.RequestTimedOutError, match="new"):
            admin.create_topics([NewTopic("new", 1, 1)])
    assert len(times) == 9
    # at least 20 ms once and 40 ms seven times, less the jitter of 20 %; without the maximum, it would be 5 s
    assert 0.8 * 0.3 <= times[-1] - times[0] < 3


def test_list_offsets_after_a_leader_change_refreshes_metadata(broker: ScriptedBroker) -> None:
    def not_leader(request: ListOffsetsRequest) -> Any:
        response = broker._list_offsets(request)
        response.topics[0].partitions[0].error_code = 6  # type: ignore[attr-defined]
        return response

    broker.on(ListOffsetsRequest, not_leader)
    tp = TopicPartition("t", 0)
    with KafkaAdminClient(bootstrap_servers=broker.address, retry_backoff_ms=1) as admin:
        assert admin.list_offsets({tp: -1})[tp].offset == 0
    assert len(broker.requests_of(MetadataRequest)) >= 2


def test_reset_of_group_offsets_commits_nothing_for_a_partition_whose_latest_offset_is_unknown(
    broker: ScriptedBroker,
) -> None:
    def denied(request: ListOffsetsRequest) -> Any:
        response = broker._list_offsets(request)
        response.topics[0].partitions[0].error_code = 29  # type: ignore[attr-defined]
        return response

    broker.on(ListOffsetsRequest, lambda _: None)  # there is no record, so that the latest offset is looked up
    broker.on(ListOffsetsRequest, denied)
    tp = TopicPartition("t", 0)
    failed: dict[TopicPartition, errors.KafkaError] = {}
    with KafkaAdminClient(bootstrap_servers=broker.address) as admin:
        assert admin.reset_group_offsets("g", {tp: OffsetSpec.for_timestamp(1)}, errors=failed) == {}
    assert type(failed[tp]) is errors.TopicAuthorizationFailedError
    assert not broker.requests_of(OffsetCommitRequest)


def dead(request: DescribeGroupsRequest) -> DescribeGroupsResponse:
    groups = [DescribedGroup(group_id=group, group_state="Dead") for group in request.groups]
    return DescribeGroupsResponse(groups=groups)


@pytest.mark.parametrize(
    ("error", "requests", "expected"),
    [
        (errors.NotCoordinatorError, 2, "Stable"),
        (errors.CoordinatorLoadInProgressError, 2, "Stable"),
        (errors.GroupIdNotFoundError, 1, "Dead"),
        (errors.TopicAuthorizationFailedError, 1, errors.TopicAuthorizationFailedError),
    ],
)
def test_description_of_a_consumer_group_is_retried_and_its_errors_are_raised(
    error: type[errors.KafkaError], requests: int, expected: Any, broker: ScriptedBroker
) -> None:
    def described(request: ConsumerGroupDescribeRequest) -> ConsumerGroupDescribeResponse:
        first = len(broker.requests_of(ConsumerGroupDescribeRequest)) == 1
        group = consumer_group_describe.DescribedGroup(
            group_id="g", group_state="Stable", error_code=(error.code or 0) if first else 0
        )
        return ConsumerGroupDescribeResponse(groups=[group])

    broker.on(DescribeGroupsRequest, dead, times=2)
    broker.on(ConsumerGroupDescribeRequest, described, times=2)
    with KafkaAdminClient(bootstrap_servers=broker.address, retry_backoff_ms=1) as admin:
        if isinstance(expected, str):
            assert admin.describe_consumer_groups(["g"])["g"].state == expected
        else:
            with pytest.raises(expected):
                admin.describe_consumer_groups(["g"])
    assert len(broker.requests_of(ConsumerGroupDescribeRequest)) == requests


def test_list_offsets_of_a_topic_unknown_to_the_broker_is_retried(broker: ScriptedBroker) -> None:
    tp = TopicPartition("new", 0)
    broker.on(
        MetadataRequest,
        lambda _: broker.add_topic("new", 1) if len(broker.requests_of(MetadataRequest)) > 2 else None,
        5,
    )
    with KafkaAdminClient(bootstrap_servers=broker.address, retry_backoff_ms=5) as admin:
        assert admin.list_offsets({tp: -1})[tp].offset == 0


def test_requests_are_sent_to_controller_leader_or_named_broker() -> None:
    with ScriptedBroker() as one, ScriptedBroker() as other:
        nodes = {7: one, 8: other}
        for broker in nodes.values():
            broker.add_topic("t", 2)
            broker.on(MetadataRequest, lambda _: cluster(nodes, controller=8, leaders=[7, 8]), times=100)
            broker.on(DescribeConfigsRequest, without_configs, times=100)
            broker.on(DescribeLogDirsRequest, lambda _: DescribeLogDirsResponse(results=[]), times=100)
            broker.on(ListGroupsRequest, lambda _: ListGroupsResponse(groups=[]), times=100)
        with KafkaAdminClient(bootstrap_servers=one.address) as admin:
            admin.create_topics([NewTopic("new", 1, 1)])
            assert [len(broker.requests_of(CreateTopicsRequest)) for broker in (one, other)] == [0, 1]
            admin.list_offsets({TopicPartition("t", 0): -1, TopicPartition("t", 1): -1})
            for number, broker in enumerate((one, other)):
                (request,) = broker.requests_of(ListOffsetsRequest)
                assert [p.partition_index for p in request.topics[0].partitions] == [number]
            admin.describe_configs([ConfigResource("broker", "8"), ConfigResource("broker_logger", "8")])
            assert [len(broker.requests_of(DescribeConfigsRequest)) for broker in (one, other)] == [0, 1]
            admin.describe_log_dirs(brokers=[7])
            assert [len(broker.requests_of(DescribeLogDirsRequest)) for broker in (one, other)] == [1, 0]
            admin.list_groups()
            assert [len(broker.requests_of(ListGroupsRequest)) for broker in (one, other)] == [1, 1]


def cluster(nodes: dict[int, ScriptedBroker], controller: int, leaders: list[int]) -> metadata.MetadataResponse:
    partitions = [
        metadata.MetadataResponsePartition(partition_index=i, leader_id=leader, replica_nodes=[], isr_nodes=[])
        for i, leader in enumerate(leaders)
    ]
    return metadata.MetadataResponse(
        brokers=[metadata.MetadataResponseBroker(node_id=n, host=b.host, port=b.port) for n, b in nodes.items()],
        controller_id=controller,
        topics=[metadata.MetadataResponseTopic(name="t", partitions=partitions)],
    )


def without_configs(request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(
        results=[
            DescribeConfigsResult(resource_type=r.resource_type, resource_name=r.resource_name, configs=[])
            for r in request.resources
        ]
    )


@pytest.mark.option("client.id")
def test_requests_carry_the_client_id(broker: ScriptedBroker) -> None:
    with KafkaAdminClient(bootstrap_servers=broker.address, client_id="me") as admin:
        admin.list_topics()
    assert {header.client_id for header in broker.headers} == {"me"}


@pytest.mark.option("bootstrap.servers", "bootstrap.controllers")
def test_config_requires_either_bootstrap_servers_or_controllers() -> None:
    for options in ({}, {"bootstrap.servers": "a:1", "bootstrap.controllers": "b:1"}):
        with pytest.raises(errors.ConfigurationError, match=r"bootstrap\.controllers"):
            KafkaAdminClient(options)
    with KafkaAdminClient() as admin:
        assert admin.config.bootstrap_servers == (("localhost", 9092),)


def test_api_timeout_below_request_timeout_is_rejected() -> None:
    with pytest.raises(errors.ConfigurationError, match=r"default\.api\.timeout\.ms"):
        KafkaAdminClient(bootstrap_servers="a:1", default_api_timeout_ms=10)


def test_admin_client_has_connection_metrics(broker: ScriptedBroker) -> None:
    with KafkaAdminClient(bootstrap_servers=broker.address) as admin:
        admin.list_topics()
        metrics = admin.metrics()
        assert metrics["admin-client-metrics"]["connection-count"] >= 1
        assert any(name.name == "request-total" for name in admin.metrics(raw=True))


def test_describe_cluster_without_the_api_uses_metadata() -> None:
    with ScriptedBroker({"DescribeCluster": -1}) as broker:
        with KafkaAdminClient(bootstrap_servers=broker.address) as admin:
            output = admin.describe_cluster()
            assert (output.cluster_id, [node.id for node in output.nodes]) == ("scripted", [7])
            with pytest.raises(errors.UnsupportedVersionError):
                admin.describe_cluster(include_fenced_brokers=True)


@pytest.mark.parametrize(("newest", "requests"), [(6, 1), (3, 3)])
def test_coordinators_are_looked_up_in_one_request_if_the_broker_supports_it(newest: int, requests: int) -> None:
    with ScriptedBroker({"FindCoordinator": newest}) as broker:
        with KafkaAdminClient(bootstrap_servers=broker.address) as admin:
            result = admin._io.run(admin._asynchronous.group_by_coordinator(["a", "b", "c"]))
        assert result == ({7: ["a", "b", "c"]}, {})
        assert len(broker.requests_of(FindCoordinatorRequest)) == requests


def test_timeout_with_an_unreachable_broker_names_the_cause() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with KafkaAdminClient(bootstrap_servers=f"127.0.0.1:{port}") as admin:
        with pytest.raises(errors.KafkaTimeoutError, match=f"{port}: connection refused; is a broker running"):
            admin.list_partition_reassignments(timeout_ms=300)


def test_ctrl_c_interrupts_a_call(broker: ScriptedBroker) -> None:
    broker.on(CreateTopicsRequest, lambda _: SILENCE, times=10)
    with KafkaAdminClient(bootstrap_servers=broker.address, request_timeout_ms=300) as admin:
        with ctrl_c(lambda: bool(broker.requests_of(CreateTopicsRequest))):
            admin.create_topics([NewTopic("new", 1, 1)])
        assert admin.list_topics() == ["t"]


def test_call_in_a_forked_child_raises_illegal_state(broker: ScriptedBroker) -> None:
    with KafkaAdminClient(bootstrap_servers=broker.address) as admin:
        admin.list_topics()
        child = os.fork()
        if child == 0:
            try:
                admin.list_topics()
            except errors.IllegalStateError:
                os._exit(7)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert admin.list_topics() == ["t"]


def test_missing_topic_is_retried_briefly_without_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, admin: KafkaAdminClient
) -> None:
    monkeypatch.setattr(driver, "SLOW_SECONDS", 0.001)
    with pytest.raises(errors.UnknownTopicOrPartitionError):
        admin.delete_records({TopicPartition("missing", 0): 1})
    assert "retrying until it has taken" not in caplog.text


def test_cancelled_call_leaves_the_client_usable() -> None:
    async def test() -> None:
        with Broker() as node:
            async with aio.KafkaAdminClient(bootstrap_servers=node.bootstrap_servers) as admin:
                for number in range(30):
                    call = asyncio.ensure_future(admin.create_topics([f"t{number}"], wait_for_metadata=True))
                    for _ in range(number):
                        await asyncio.sleep(0)
                    call.cancel()
                    await asyncio.gather(call, return_exceptions=True)
                await admin.create_topics(["last"], wait_for_metadata=True)
                assert "last" in await admin.describe_topics()

    asyncio.run(test())


@pytest.mark.parametrize(
    "handler", [lambda _: SILENCE, lambda request: request_timed_out(request)], ids=["in flight", "in backoff"]
)
def test_close_fails_pending_calls_of_other_threads(broker: ScriptedBroker, handler: Any) -> None:
    broker.on(CreateTopicsRequest, handler, times=10)
    failed: list[BaseException] = []
    options: dict[str, Any] = {"retry_backoff_ms": 20_000, "retry_backoff_max_ms": 20_000}
    admin = KafkaAdminClient(bootstrap_servers=broker.address, **options)

    def call() -> None:
        try:
            admin.create_topics([NewTopic("new", 1, 1)])
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    broker.wait_for(lambda: bool(broker.requests_of(CreateTopicsRequest)))
    time.sleep(0.05)  # the client processes the response and starts its backoff
    admin.close()
    thread.join(2)
    assert [type(error) for error in failed] == [errors.IllegalStateError]


def test_close_leaves_no_threads_and_descriptors(broker: ScriptedBroker) -> None:
    files = descriptors()
    admin = KafkaAdminClient(bootstrap_servers=broker.address)
    name = admin._asynchronous.client_id
    admin.list_topics()
    admin.close()
    admin.close()
    with pytest.raises(errors.IllegalStateError):
        admin.list_topics()
    assert not [thread for thread in threading.enumerate() if name in thread.name]
    until(lambda: descriptors() <= files)  # the scripted broker, in the same process, may close its side later


@pytest.mark.usefixtures("no_leaks")
def test_admin_client_that_cannot_be_created_leaves_no_threads_and_descriptors() -> None:
    with pytest.raises(errors.KafkaError, match="nowhere"):
        KafkaAdminClient(
            bootstrap_servers="127.0.0.1:1",
            metric_reporters="logging",
            security_protocol="SSL",
            ssl_cafile="/nowhere",
        )
