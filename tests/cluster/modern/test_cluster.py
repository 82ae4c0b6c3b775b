"""Requests of a read to a modern cluster: offsets by bounds, timestamps and groups, through every fault."""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Iterator
from dataclasses import replace

import pytest

from spark_kafkawire.errors import (
    BrokerError,
    ConnectFailed,
    OptionError,
    ProtocolError,
    UnknownTopicError,
    UnsupportedVersionError,
)
from spark_kafkawire.model import PartitionBounds, TopicPartition
from spark_kafkawire.net.pool import POOL
from spark_kafkawire.protocol import modern
from spark_kafkawire.protocol.api import Api, VersionRange
from spark_kafkawire.protocol.modern.error_codes import ErrorCode
from spark_kafkawire.protocol.modern.group_offsets import (
    NO_OFFSET,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    OffsetFetchGroupResponse,
    OffsetFetchPartitionResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchTopicResponse,
)
from spark_kafkawire.protocol.modern.limits import READ_COMMITTED, READ_UNCOMMITTED
from spark_kafkawire.protocol.modern.list_offsets import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
)
from spark_kafkawire.protocol.modern.metadata import MetadataRequest, MetadataResponse
from tests.cluster.modern.clusters import (
    COORDINATOR_NOT_AVAILABLE,
    GROUP_REFUSED,
    cluster_of,
)
from tests.net.peers import closed_port
from tests.support import librdkafka
from tests.support.cases import for_each
from tests.support.foreign import Record
from tests.support.log_broker import LEADER_EPOCH, OFFERED
from tests.support.log_server import LogServer
from tests.support.memory_log import MemoryLog
from tests.support.mock_cluster import (
    DISCONNECT,
    LIST_OFFSETS,
    OFFSET_FETCH,
    MockCluster,
)
from tests.support.noida import NoidaBroker
from tests.support.settings import net_modern

PARTITION = TopicPartition("t", 0)
HASTY = net_modern(timeout_s=0.5, backoff_s=0.001)
NOT_LEADER, UNKNOWN_LEADER_EPOCH, OFFSET_NOT_AVAILABLE = 6, 75, 78


@pytest.fixture(autouse=True)
def no_kept_connections() -> Iterator[None]:
    yield
    POOL.close_idle()


@pytest.fixture
def partitions(mock_cluster: MockCluster) -> list[TopicPartition]:
    """Six partitions on three brokers, with as many records each as its number."""
    mock_cluster.create_topic("t", partitions=6)
    for partition in range(6):
        mock_cluster.set_leader("t", partition, 1 + partition % 3)
    records = [Record(b"v", partition=partition) for partition in range(6) for _ in range(partition)]
    librdkafka.produce(mock_cluster.bootstrap_servers, "t", records)
    return [TopicPartition("t", partition) for partition in range(6)]


def expected(partitions: list[TopicPartition]) -> dict[TopicPartition, PartitionBounds]:
    return {tp: PartitionBounds(tp, 0, tp.partition) for tp in partitions}


def test_bounds_come_from_all_leaders_which_are_asked_once_in_the_order_of_the_partitions(
    mock_cluster: MockCluster, partitions: list[TopicPartition]
) -> None:
    backwards = partitions[::-1]
    mock_cluster.start_request_tracking()
    result = cluster_of(mock_cluster.bootstrap_servers).bounds(backwards)
    assert result == expected(partitions)
    assert list(result) == backwards
    asked = [request.broker_id for request in mock_cluster.requests() if request.api_key == LIST_OFFSETS]
    assert sorted(asked) == [1, 1, 2, 2, 3, 3]  # where logs start, and where they end


@pytest.mark.slow
@pytest.mark.parametrize("error", [NOT_LEADER, UNKNOWN_LEADER_EPOCH, OFFSET_NOT_AVAILABLE, DISCONNECT])
def test_what_a_broker_cannot_tell_now_is_asked_again(
    mock_cluster: MockCluster, partitions: list[TopicPartition], error: int
) -> None:
    mock_cluster.push_request_errors(LIST_OFFSETS, error, error)
    assert cluster_of(mock_cluster.bootstrap_servers).bounds(partitions) == expected(partitions)


def test_a_leader_that_moved_is_found(mock_cluster: MockCluster, partitions: list[TopicPartition]) -> None:
    cluster = cluster_of(mock_cluster.bootstrap_servers)
    cluster.leaders_of(partitions)
    for tp in partitions:
        mock_cluster.set_leader("t", tp.partition, 2)
    assert cluster.bounds(partitions) == expected(partitions)


def test_a_leader_that_is_down_is_an_error_that_names_it(
    mock_cluster: MockCluster, partitions: list[TopicPartition]
) -> None:
    cluster = cluster_of(mock_cluster.bootstrap_servers, net=HASTY)
    cluster.leaders_of(partitions)
    mock_cluster.set_broker_down(2)
    with pytest.raises((ConnectFailed, BrokerError), match=r"^gave up after \d+ attempts"):
        cluster.bounds(partitions)
    mock_cluster.set_broker_up(2)
    assert cluster.bounds(partitions) == expected(partitions)


def test_an_advertised_address_that_does_not_answer_is_named_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    nobody = closed_port()
    with LogServer({"t": [MemoryLog()]}) as server:
        monkeypatch.setattr(server.broker, "broker", nobody)
        with pytest.raises(
            ConnectFailed,
            match=r": the leader of t 0, at the address that brokers advertise \(advertised\.listeners\): "
            rf"broker 7 \(127.0.0.1:{nobody.port}\): cannot connect",
        ):
            cluster_of(server.bootstrap_servers, net=HASTY).bounds([PARTITION])


def test_an_error_that_no_retry_cures_comes_at_once(
    mock_cluster: MockCluster, partitions: list[TopicPartition]
) -> None:
    mock_cluster.push_request_errors(LIST_OFFSETS, *[29] * 2)
    with pytest.raises(
        BrokerError, match=r"^ListOffsets of t \d on broker \d .*not authorized for this operation"
    ):
        cluster_of(mock_cluster.bootstrap_servers).bounds(partitions)


@for_each("version", range(9))
def test_every_version_tells_the_bounds(version: int) -> None:
    offered = {**OFFERED, modern.LIST_OFFSETS.key: VersionRange(version, version)}
    with LogServer({"t": [MemoryLog()]}, offered=offered) as server:
        librdkafka.produce(server.bootstrap_servers, "t", [Record(b"v")] * 5)
        assert cluster_of(server.bootstrap_servers).bounds([PARTITION]) == {
            PARTITION: PartitionBounds(PARTITION, 0, 5)
        }


@pytest.mark.parametrize(("version", "asked_for"), [(7, EARLIEST_TIMESTAMP), (8, EARLIEST_LOCAL_TIMESTAMP)])
def test_brokers_before_tiered_storage_have_all_on_their_disks(version: int, asked_for: int) -> None:
    offered = {**OFFERED, modern.LIST_OFFSETS.key: VersionRange(0, version)}
    with LogServer({"t": [MemoryLog()]}, offered=offered) as server:
        asked = server.broker.alter(ListOffsetsPartitionResponse, lambda honest, *_: honest)
        assert cluster_of(server.bootstrap_servers).local_starts([PARTITION]) == {PARTITION: 0}
        assert [item.timestamp for item in asked] == [asked_for]


@pytest.mark.parametrize(
    ("earliest", "latest", "fault"),
    [
        (-5, 3, "it gives the offset -5 of t 0, but the minimum is 0"),
        (-1, -1, "it gives the offset -1 of t 0, but the minimum is 0"),
        (7, 3, r"^ListOffsets of t 0: impossible bounds \[7, 3\)"),
        (0, -(2**63), "it gives the offset -9223372036854775808 of t 0, but the minimum is 0"),
    ],
)
def test_impossible_bounds_are_a_protocol_error(earliest: int, latest: int, fault: str) -> None:
    with LogServer({"t": [MemoryLog()]}) as server:
        server.broker.alter(
            ListOffsetsPartitionResponse,
            lambda honest, _, asked: replace(
                honest, offset=earliest if asked.timestamp == EARLIEST_TIMESTAMP else latest
            ),
        )
        with pytest.raises(ProtocolError, match=fault):
            cluster_of(server.bootstrap_servers).bounds([PARTITION])


def test_a_broker_too_old_for_timestamps_says_so() -> None:
    offered = {**OFFERED, modern.LIST_OFFSETS.key: VersionRange(0, 0)}
    with LogServer({"t": [MemoryLog()]}, offered=offered) as server:
        cluster = cluster_of(server.bootstrap_servers)
        with pytest.raises(UnsupportedVersionError, match=r"broker 0 .* older than Kafka 0\.10\.1"):
            cluster.start_offsets({PARTITION: 1_700_000_000_000}, {})


def test_a_broker_that_does_not_offer_a_request_says_so_and_leaves_no_connection() -> None:
    offered = {key: versions for key, versions in OFFERED.items() if key != modern.LIST_OFFSETS.key}
    with LogServer({"t": [MemoryLog()]}, offered=offered) as server:
        cluster = cluster_of(server.bootstrap_servers)
        cluster.leaders_of([PARTITION])
        kept_count = POOL.kept_count
        with pytest.raises(UnsupportedVersionError, match="the broker does not offer ListOffsets"):
            cluster.bounds([PARTITION])
        assert POOL.kept_count == kept_count


def test_the_offset_of_a_timestamp_is_that_of_the_first_record_as_young(noida: NoidaBroker) -> None:
    topic = noida.create_topic(partitions=2)
    records = [Record(b"v", timestamp_ms=1_700_000_000_000 + 10 * number) for number in range(100)]
    librdkafka.produce(noida.bootstrap_servers, topic, records, batch_num_messages=7)
    partition, empty = TopicPartition(topic, 0), TopicPartition(topic, 1)
    cluster = cluster_of(noida.bootstrap_servers)
    for ms, offset in ((0, 0), (1_700_000_000_000, 0), (1_700_000_000_335, 34), (1_700_000_000_991, None)):
        assert cluster.start_offsets({partition: ms, empty: ms}, {}) == {partition: offset, empty: None}
        assert cluster.stop_offsets({partition: ms}, {}) == {partition: offset}


@pytest.mark.parametrize("isolation_level", [READ_COMMITTED, READ_UNCOMMITTED])
def test_all_questions_for_offsets_name_the_isolation_level(isolation_level: int) -> None:
    with LogServer({"t": [MemoryLog()]}) as server:
        asked = server.broker.alter(ListOffsetsRequest, lambda honest, _: honest)
        cluster = cluster_of(server.bootstrap_servers, isolation_level)
        cluster.bounds([PARTITION])
        cluster.start_offsets({PARTITION: 5}, {})
        cluster.stop_offsets({PARTITION: 5}, {})
    assert [item.isolation_level for item in asked] == [isolation_level] * 4


def test_committed_reads_end_where_an_open_transaction_begins(noida: NoidaBroker) -> None:
    topic = noida.create_topic()
    partition = TopicPartition(topic, 0)
    librdkafka.produce(noida.bootstrap_servers, topic, [Record(b"v")] * 3)
    with librdkafka.transaction(noida.bootstrap_servers, topic, [Record(b"open")] * 4, outcome="open"):
        result = cluster_of(noida.bootstrap_servers).bounds([partition])
        assert result == {partition: PartitionBounds(partition, 0, 7)}
        result = cluster_of(noida.bootstrap_servers, READ_COMMITTED).bounds([partition])
        assert result == {partition: PartitionBounds(partition, 0, 3)}


def test_a_topic_that_brokers_list_and_do_not_know_is_named() -> None:
    with LogServer({"t": [MemoryLog()]}) as server:

        def reported(honest: MetadataResponse, request: MetadataRequest) -> MetadataResponse:
            unknown = [replace(topic, error_code=3, partitions=()) for topic in honest.topics]
            return replace(honest, topics=tuple(unknown)) if request.topics else honest

        server.broker.alter(MetadataRequest, reported)
        with pytest.raises(UnknownTopicError, match=r"topic 't' on .*UNKNOWN_TOPIC_OR_PARTITION"):
            cluster_of(server.bootstrap_servers).partitions_of(["t"])


def test_topics_that_were_listed_are_asked_for_again_where_the_list_did_not_describe_them() -> None:
    with LogServer({"a": [MemoryLog()] * 2, "b": [MemoryLog()]}) as server:
        cluster = cluster_of(server.bootstrap_servers)

        def in_the_making(honest: MetadataResponse, request: MetadataRequest) -> MetadataResponse:
            topics = (replace(item, partitions=()) if item.name == "b" else item for item in honest.topics)
            return honest if request.topics is not None else replace(honest, topics=tuple(topics))

        def asked(*topics: str) -> list[Api]:
            server.requests.clear()
            assert cluster.topics() == ["a", "b"]
            partitions = cluster.listed_partitions(topics)
            assert partitions == tuple(
                TopicPartition(topic, part) for topic in topics for part in sizes[topic]
            )
            return [api for api in server.requests if api is modern.METADATA]

        sizes = {"a": range(2), "b": range(1)}
        assert len(asked("a", "b")) == 1
        server.broker.alter(MetadataRequest, in_the_making)
        assert len(asked("a")) == 1
        assert len(asked("a", "b")) == 2
        with pytest.raises(UnknownTopicError, match="no broker holds the topic c"):
            cluster.listed_partitions(["a", "c"])


def test_the_internal_topic_of_old_brokers_is_known_by_its_name() -> None:
    offered = {**OFFERED, modern.METADATA.key: VersionRange(0, 0)}
    with LogServer({"t": [MemoryLog()], "__consumer_offsets": [MemoryLog()]}, offered=offered) as server:
        assert cluster_of(server.bootstrap_servers).topics() == ["t"]


def test_internal_topics_are_not_what_an_unknown_topic_may_mean() -> None:
    topics = {"__consumer_offsets": [MemoryLog()], "consumer_offset": [MemoryLog()]}
    with LogServer(topics) as server:
        cluster = cluster_of(server.bootstrap_servers)
        with pytest.raises(
            UnknownTopicError, match=r"topic _consumer_offset; did you mean consumer_offset\?$"
        ):
            cluster.partitions_of(["_consumer_offset"])
        # They are there all the same for who asks for them by name.
        with pytest.raises(UnknownTopicError, match=r"topic nothing-like-it; create it"):
            cluster.partitions_of(["__consumer_offsets", "nothing-like-it"])


def test_assigned_partitions_that_are_not_there_are_left_out_with_a_warning(
    noida: NoidaBroker, caplog: pytest.LogCaptureFixture
) -> None:
    topic = noida.create_topic(partitions=2)
    partitions = [TopicPartition(topic, 1), TopicPartition(topic, 2), TopicPartition(topic, 7)]
    with caplog.at_level(logging.WARNING, "spark_kafkawire"):
        assert cluster_of(noida.bootstrap_servers).assigned(partitions) == (partitions[0],)
        assert cluster_of(noida.bootstrap_servers).assigned(partitions[2:]) == ()
    assert caplog.messages == [
        f"option assign: {result} left out, as in Spark's own connector; topic {topic} has 2 partitions"
        for result in (f"{topic} 2, {topic} 7 are", f"{topic} 7 is")
    ]


def test_an_assigned_topic_that_is_not_there_is_an_error(noida: NoidaBroker) -> None:
    partitions = [TopicPartition(noida.create_topic(), 0), TopicPartition("no-such", 0)]
    with pytest.raises(UnknownTopicError, match=r"no broker holds the topic no-such; create it"):
        cluster_of(noida.bootstrap_servers).assigned(partitions)


def test_committed_offsets_are_those_of_the_group(noida: NoidaBroker) -> None:
    topic = noida.create_topic(partitions=3)
    librdkafka.commit_offsets(noida.bootstrap_servers, "group-of-test", topic, {0: 5, 2: 0})
    cluster = cluster_of(noida.bootstrap_servers, group_id="group-of-test")
    partitions = [TopicPartition(topic, partition) for partition in (2, 1, 0)]
    assert cluster.committed_offsets(partitions) == {partitions[0]: 0, partitions[1]: None, partitions[2]: 5}


@for_each("version", range(1, 9))
def test_every_version_tells_committed_offsets(version: int) -> None:
    offered = {
        **OFFERED,
        modern.OFFSET_FETCH.key: VersionRange(version, version),
        modern.FIND_COORDINATOR.key: VersionRange(min(version - 1, 4), min(version - 1, 4)),
    }
    with LogServer({"t": [MemoryLog()]}, offered=offered) as server:
        result = cluster_of(server.bootstrap_servers, group_id="g").committed_offsets([PARTITION])
        assert result == {PARTITION: 1}


@contextlib.contextmanager
def committing(version: int, answers: int) -> Iterator[tuple[LogServer, list[OffsetFetchRequest]]]:
    """A coordinator of that version for whom a transaction that commits offsets is open for so many answers,
    and the requests that it gets."""
    asked: list[OffsetFetchRequest] = []
    offered = {**OFFERED, modern.OFFSET_FETCH.key: VersionRange(version, version)}
    with LogServer({"t": [MemoryLog()]}, offered=offered) as server:

        def answer(request: OffsetFetchRequest) -> OffsetFetchResponse:
            asked.append(request)
            is_unstable = request.require_stable and len(asked) <= answers
            code = ErrorCode.UNSTABLE_OFFSET_COMMIT if is_unstable else ErrorCode.NONE
            part = OffsetFetchPartitionResponse(
                partition_index=0, committed_offset=NO_OFFSET if is_unstable else 7, error_code=code
            )
            topics = (OffsetFetchTopicResponse(name="t", partitions=(part,)),)
            group = OffsetFetchGroupResponse(group_id="g", topics=topics, error_code=0)
            return OffsetFetchResponse(topics=topics, groups=(group,))

        server.broker.answer_with(OffsetFetchRequest, answer)
        yield server, asked


@pytest.mark.parametrize(("version", "requests"), [(6, 1), (7, 6), (8, 6)])
def test_a_transaction_that_commits_offsets_is_waited_for_where_brokers_tell(
    version: int, requests: int
) -> None:
    with committing(version, answers=5) as (server, asked):
        result = cluster_of(server.bootstrap_servers, group_id="g").committed_offsets([PARTITION])
    assert result == {PARTITION: 7}
    assert len(asked) == requests


def test_offsets_that_a_transaction_holds_for_too_long_are_one_line() -> None:
    with committing(8, answers=1000) as (server, _):
        with pytest.raises(BrokerError) as raised:
            cluster_of(server.bootstrap_servers, group_id="g", net=HASTY).committed_offsets([PARTITION])
        assert raised.value.retriable
        assert re.fullmatch(
            r"gave up after .*: OffsetFetch of group 'g' on broker .*, t 0: a transaction that commits "
            r"offsets is still open \(error 88 UNSTABLE_OFFSET_COMMIT\); run again when it has ended, .*",
            str(raised.value),
        )
        # Who only shows offsets does not wait.
        assert cluster_of(server.bootstrap_servers).groups.offsets("g", [PARTITION]) == {PARTITION: 7}


def test_a_group_that_is_refused_is_an_error_at_once(
    mock_cluster: MockCluster, partitions: list[TopicPartition]
) -> None:
    mock_cluster.push_request_errors(OFFSET_FETCH, GROUP_REFUSED)
    with pytest.raises(
        BrokerError, match=r"^OffsetFetch of group 'g' on broker .*: the user is not authorized"
    ):
        cluster_of(mock_cluster.bootstrap_servers, group_id="g").committed_offsets(partitions)


@pytest.mark.parametrize("version", range(5))
def test_a_coordinator_that_is_not_there_yet_is_waited_for(version: int) -> None:
    # librdkafka's mock cluster (2.16) puts a null into its errors where no version has one.
    offered = {**OFFERED, modern.FIND_COORDINATOR.key: VersionRange(version, version)}
    with LogServer({"t": [MemoryLog()]}, offered=offered) as server:
        codes = [COORDINATOR_NOT_AVAILABLE] * 2

        def find(honest: FindCoordinatorResponse, _: FindCoordinatorRequest) -> FindCoordinatorResponse:
            code = codes.pop() if codes else 0
            coordinators = tuple(replace(item, error_code=code) for item in honest.coordinators or ())
            return replace(honest, error_code=code, coordinators=coordinators)

        server.broker.alter(FindCoordinatorRequest, find)
        result = cluster_of(server.bootstrap_servers, group_id="g").committed_offsets([PARTITION])
        assert (result, codes) == ({PARTITION: 1}, [])


def test_committed_offsets_need_a_group() -> None:
    with pytest.raises(OptionError, match=r"'committed' needs kafka\.group\.id"):
        cluster_of("127.0.0.1:1").committed_offsets([PARTITION])


def test_topics_that_are_there_tell_their_ids() -> None:
    with LogServer({"t": [MemoryLog()], "u": [MemoryLog()]}) as server:
        cluster = cluster_of(server.bootstrap_servers)
        assert cluster.topic_ids(["t", "gone"]) == {"t": server.broker.topic_id("t")}


def test_who_led_a_partition_before_does_not_tell_where_it_ends() -> None:
    with LogServer({"t": [MemoryLog()]}) as server:
        codes = iter([UNKNOWN_LEADER_EPOCH])
        seen = server.broker.alter(
            ListOffsetsPartitionResponse, lambda honest, *_: replace(honest, error_code=next(codes, 0))
        )
        cluster = cluster_of(server.bootstrap_servers)
        assert cluster.bounds((PARTITION,)) == {PARTITION: PartitionBounds(PARTITION, 0, 0)}
        cluster.local_starts((PARTITION,))
    assert len(seen) > 3
    assert {partition.current_leader_epoch for partition in seen} == {LEADER_EPOCH}
