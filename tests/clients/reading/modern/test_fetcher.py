"""One range of a modern log over real sockets: every version, every gap, every fault of a leader."""

from __future__ import annotations

import contextlib
import itertools
import logging
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from spark_kafkawire.clients.reading.fetcher import Fetcher
from spark_kafkawire.clients.reading.task import FetchTask
from spark_kafkawire.cluster.modern.cluster import Cluster
from spark_kafkawire.cluster.modern.metadata import Metadata
from spark_kafkawire.errors import (
    BrokerError,
    CorruptDataError,
    DataLossError,
    KafkaWireError,
    LimitError,
    ProtocolError,
    RequestTimedOut,
)
from spark_kafkawire.model import Leader, OffsetRange, TopicPartition
from spark_kafkawire.net.pool import Pool
from spark_kafkawire.options import FetchOptions, NetOptions
from spark_kafkawire.protocol import modern
from spark_kafkawire.protocol.api import VersionRange
from spark_kafkawire.protocol.modern import fetch
from spark_kafkawire.protocol.modern.describe_configs import DescribedResource, ResourceConfigs
from spark_kafkawire.protocol.modern.isolation import READ_COMMITTED, READ_UNCOMMITTED
from spark_kafkawire.protocol.modern.limits import NO_TOPIC_ID
from spark_kafkawire.protocol.modern.list_offsets import (
    EARLIEST_LOCAL_TIMESTAMP,
    LATEST_TIMESTAMP,
    ListOffsetsPartition,
    ListOffsetsPartitionReply,
)
from spark_kafkawire.protocol.modern.metadata import MetadataTopic
from tests.records.batches import TRANSACTIONAL, batch, marker, record
from tests.support import librdkafka
from tests.support.foreign import Record
from tests.support.log_broker import LEADER_EPOCH, OFFERED
from tests.support.log_server import LogServer, Sent
from tests.support.memory_log import MemoryLog
from tests.support.mock_cluster import DISCONNECT, FETCH, MockCluster
from tests.support.noida import NoidaBroker
from tests.support.polling import poll
from tests.support.settings import net_modern, servers

NET = net_modern(timeout_s=5.0, backoff_s=0.001)
LOG = TopicPartition("t", 0)
COUNT = 2000
VALUES = [b"%06d" % number * 5 for number in range(COUNT)]
#: Several fetches for one log.
SMALL = FetchOptions(fetch_bytes=4096, wait_ms=50)


@pytest.fixture
def pool() -> Iterator[Pool]:
    pool = Pool()
    yield pool
    pool.close_idle()


def cluster_of(bootstrap_servers: str, pool: Pool, net: NetOptions = NET) -> Cluster:
    metadata = Metadata(servers(bootstrap_servers), net, connections=pool)
    return Cluster(metadata, net, READ_UNCOMMITTED)


def fetcher_of(
    bootstrap_servers: str,
    pool: Pool,
    start: int = 0,
    stop: int = COUNT,
    options: FetchOptions = SMALL,
    net: NetOptions = NET,
    leader: Leader | None = None,
) -> Fetcher:
    cluster = cluster_of(bootstrap_servers, pool, net)
    task = FetchTask(OffsetRange(LOG, start, stop), leader or cluster.leaders_of((LOG,))[LOG])
    return Fetcher(task, cluster, options, net, connections=pool)


def values(fetcher: Fetcher) -> list[bytes]:
    return [value for _, value in rows(fetcher)]


def rows(fetcher: Fetcher) -> list[tuple[int, bytes]]:
    found: list[tuple[int, bytes]] = []
    for columns in fetcher.columns():
        assert columns.values is not None
        found += zip(columns.offset.tolist(), columns.values.to_pylist(), strict=True)
    return found


def write(
    bootstrap_servers: str, written: list[bytes] = VALUES, compression: str = "none", batch_count: int = 7
) -> None:
    records = [Record(value) for value in written]
    librdkafka.produce(bootstrap_servers, LOG.topic, records, compression, batch_num_messages=batch_count)


@pytest.fixture(scope="module")
def log() -> MemoryLog:
    """VALUES in batches of seven; tests do not change it."""
    log = MemoryLog()
    with LogServer({"t": [log]}) as server:
        write(server.bootstrap_servers)
    assert log.stop_offset == COUNT
    return log


@pytest.fixture
def served(log: MemoryLog) -> Iterator[LogServer]:
    with LogServer({"t": [log]}) as server:
        yield server


@pytest.fixture
def written(mock_cluster: MockCluster) -> MockCluster:
    """The mock cluster with VALUES in a log that broker 1 leads."""
    mock_cluster.create_topic("t", replicas=3)
    mock_cluster.set_leader("t", 0, 1)
    write(mock_cluster.bootstrap_servers)
    return mock_cluster


def altered(server: LogServer, change: Callable[[fetch.FetchPartition], dict[str, Any]]) -> None:
    """Fetch replies with some fields changed; ``change`` gets what was asked for."""
    answers = dict(server.broker._answers)
    honest = answers[fetch.FetchRequest]

    def fetched(request: fetch.FetchRequest) -> fetch.FetchReply:
        [asked] = request.topics
        reply: fetch.FetchReply = honest(replace(request, topics=(replace(asked, topic=LOG.topic),)))
        [topic] = reply.responses
        [partition] = topic.partitions
        changes = change(asked.partitions[0])
        throttle_time_ms = changes.pop("throttle_time_ms", 0)
        topics = (replace(topic, partitions=(replace(partition, **changes),)),)
        return replace(reply, responses=topics, throttle_time_ms=throttle_time_ms)

    server.broker._answers = {**answers, fetch.FetchRequest: fetched}


@pytest.mark.parametrize("version", range(modern.FETCH.versions.max + 1))
def test_every_version_reads_the_whole_log(log: MemoryLog, pool: Pool, version: int) -> None:
    offered = {**OFFERED, modern.FETCH.key: VersionRange(version, version)}
    with LogServer({"t": [log]}, offered=offered) as server:
        fetcher = fetcher_of(server.bootstrap_servers, pool)
        assert values(fetcher) == VALUES
        assert fetcher.bytes_received == len(log._data)


@pytest.mark.parametrize(("start", "stop"), [(0, 1), (3, 4), (6, 8), (7, 14), (1000, 1999), (1999, 2000)])
def test_a_range_begins_and_ends_inside_batches(served: LogServer, pool: Pool, start: int, stop: int) -> None:
    found = rows(fetcher_of(served.bootstrap_servers, pool, start, stop))
    assert found == list(zip(range(start, stop), VALUES[start:stop], strict=True))


@pytest.mark.parametrize(("count", "asked_bytes"), [(3, 64 << 10), (200, 250 << 10), (2000, 2500 << 10)])
def test_a_small_range_is_not_paid_for_with_a_large_fetch(
    served: LogServer, pool: Pool, count: int, asked_bytes: int
) -> None:
    asked: list[fetch.FetchPartition] = []
    altered(served, lambda each: (asked.append(each), {})[1])  # type: ignore[func-returns-value]
    found = values(fetcher_of(served.bootstrap_servers, pool, stop=count, options=FetchOptions()))
    assert found == VALUES[:count]
    assert [each.partition_max_bytes for each in asked] == [asked_bytes]


def test_the_last_fetch_of_a_range_is_as_large_as_its_rest(pool: Pool) -> None:
    log = MemoryLog(*(batch([record(0, bytes(10_000))]) for _ in range(130)))
    asked: list[int] = []
    with LogServer({"t": [log]}) as server:
        altered(server, lambda each: (asked.append(each.partition_max_bytes), {})[1])  # type: ignore[func-returns-value]
        options = FetchOptions(fetch_bytes=500_000)
        assert len(values(fetcher_of(server.bootstrap_servers, pool, stop=129, options=options))) == 129
    # The first guess is 1 KiB for a record, and then it is known better.
    assert (asked[0], asked[1:3]) == (165_120, [500_000, 500_000])
    assert asked[3:] == [pytest.approx(15 * 10_000 * 1.25, rel=0.02)]


def test_the_next_fetch_is_on_its_way_before_records_are_decoded(served: LogServer, pool: Pool) -> None:
    columns = fetcher_of(served.bootstrap_servers, pool).columns()
    next(columns)
    poll(lambda: served.requests.count(modern.FETCH) == 2, "a second fetch")
    columns.close()  # type: ignore[attr-defined]  # it is a generator
    assert pool.kept_count == 1  # the one that asked for the leader: the other has a fetch on its way


def test_a_read_that_ends_well_gives_its_connection_back(served: LogServer, pool: Pool) -> None:
    for _ in range(3):
        values(fetcher_of(served.bootstrap_servers, pool))
    assert pool.kept_count == 2  # the bootstrap server's and the leader's
    assert len(served._connections) == 2


def test_a_read_ends_where_it_was_planned_while_producers_go_on(pool: Pool) -> None:
    with LogServer({"t": [MemoryLog()]}) as server:
        write(server.bootstrap_servers)
        columns = fetcher_of(server.bootstrap_servers, pool).columns()
        found = [each.count for each in [next(columns)]]
        write(server.bootstrap_servers, [b"later"] * 100)
        assert sum(found) + sum(each.count for each in columns) == COUNT


class CutLog(MemoryLog):
    """Answers as brokers before Fetch version 3 do: as many bytes as were asked for, cut anywhere."""

    def read(self, offset: int, size_max: int) -> bytes:
        return bytes(super().read(offset, 1 << 30))[:size_max]


@contextlib.contextmanager
def cutting(written: list[bytes]) -> Iterator[LogServer]:
    log = CutLog()
    with LogServer({"t": [log]}) as server:
        write(server.bootstrap_servers, written, batch_count=1)
    offered = {**OFFERED, modern.FETCH.key: VersionRange(0, 2)}
    with LogServer({"t": [log]}, offered=offered) as server:
        yield server


@contextlib.contextmanager
def whole(written: list[bytes]) -> Iterator[LogServer]:
    with LogServer({"t": [MemoryLog()]}) as server:
        write(server.bootstrap_servers, written, batch_count=1)
        yield server


def test_a_reply_above_max_message_bytes_is_not_even_received(pool: Pool) -> None:
    log = MemoryLog(batch([record(0, bytes(3_000_000))]))
    options = replace(SMALL, message_bytes_max=100_000)
    with (
        LogServer({"t": [log]}) as server,
        pytest.raises(
            ProtocolError, match=r"Fetch reply announces 3000\d+ bytes, at most 1\d+ were asked for"
        ),
    ):
        values(fetcher_of(server.bootstrap_servers, pool, stop=1, options=options))


def test_a_batch_that_a_fetch_cuts_is_fetched_with_a_larger_one(pool: Pool) -> None:
    large = [b"small", bytes(300_000), b"small too"]
    with cutting([*large, *VALUES]) as server:
        fetcher = fetcher_of(server.bootstrap_servers, pool, stop=len(large) + COUNT)
        assert values(fetcher) == large + VALUES


def test_a_first_batch_above_the_fetch_size_comes_whole(noida: NoidaBroker, pool: Pool) -> None:
    topic = noida.create_topic()
    big = bytes(range(256)) * 3000
    librdkafka.produce(noida.bootstrap_servers, topic, [Record(b"small"), Record(big), Record(b"small too")])
    log = TopicPartition(topic, 0)
    cluster = cluster_of(noida.bootstrap_servers, pool)
    task = FetchTask(OffsetRange(log, 0, 3), cluster.leaders_of((log,))[log])
    assert values(Fetcher(task, cluster, SMALL, NET, connections=pool)) == [b"small", big, b"small too"]


@pytest.mark.parametrize("serving", [cutting, whole])
def test_a_batch_above_max_message_bytes_is_an_error_that_names_it(
    pool: Pool, serving: Callable[[list[bytes]], contextlib.AbstractContextManager[LogServer]]
) -> None:
    options = replace(SMALL, message_bytes_max=100_000)
    with (
        serving([bytes(300_000)]) as server,
        pytest.raises(
            LimitError,
            match=r"t 0 on broker 0 .*a batch at offset 0 or .* has 300\d+ bytes, more than maxMessageBytes",
        ),
    ):
        values(fetcher_of(server.bootstrap_servers, pool, stop=1, options=options))


def test_a_batch_above_max_message_bytes_is_an_error_behind_one_below_it(pool: Pool) -> None:
    options = replace(SMALL, fetch_bytes=1 << 20, message_bytes_max=100_000)
    # So many that both batches are asked for at once.
    small = batch([record(number, b"x") for number in range(1000)])
    with (
        LogServer({"t": [MemoryLog(small, batch([record(0, bytes(300_000))]))]}) as server,
        pytest.raises(LimitError, match=r"a batch at offset 0 or .* has 300\d+ bytes, more than maxMessageB"),
    ):
        values(fetcher_of(server.bootstrap_servers, pool, stop=1001, options=options))


def test_compressed_records_may_not_become_more_than_the_limit(pool: Pool) -> None:
    options = replace(SMALL, decompressed_bytes_max=500_000)
    with LogServer({"t": [MemoryLog()]}) as server:
        write(server.bootstrap_servers, [bytes(300_000)] * 3, compression="gzip", batch_count=3)
        with pytest.raises(LimitError, match=r"t 0 on broker 0 .*maxDecompressedBytes"):
            values(fetcher_of(server.bootstrap_servers, pool, stop=3, options=options))


def test_what_a_fetch_brings_from_before_its_offset_is_left_out(log: MemoryLog, pool: Pool) -> None:
    class EarlyLog(MemoryLog):
        def read(self, offset: int, size_max: int) -> bytes:
            return bytes(log.read(max(offset - 10, 0), size_max))

    early = EarlyLog()
    early.stop_offset = log.stop_offset
    with LogServer({"t": [early]}) as server:
        assert rows(fetcher_of(server.bootstrap_servers, pool)) == list(enumerate(VALUES))


@pytest.mark.parametrize(("first", "second"), [(7, 7), (14, 7), (7, 11)])
def test_batches_that_repeat_offsets_inside_an_answer_are_an_error(
    served: LogServer, log: MemoryLog, pool: Pool, first: int, second: int
) -> None:
    def at(offset: int) -> bytes:
        return offset.to_bytes(8, "big") + bytes(log.read(0, 1))[8:]

    altered(served, lambda _: {"records": at(0) + at(first) + at(second)})
    where = rf"^t 0 on broker 0 .*batch at offset {second} is damaged: "
    with pytest.raises(CorruptDataError, match=where):
        values(fetcher_of(served.bootstrap_servers, pool))


class CompactedLog(MemoryLog):
    """Batches of seven of which every second one is gone, and the log's last offsets with it."""

    def __init__(self, log: MemoryLog) -> None:
        super().__init__()
        self.stop_offset, self._data = log.stop_offset, log._data
        self._all = list(zip(log._offsets, log._positions, strict=True))

    def read(self, offset: int, _size_max: int, /) -> bytes:
        ends = [*(position for _, position in self._all[1:]), len(self._data)]
        kept = [
            (start, position, end)
            for (start, position), end in zip(self._all, ends, strict=True)
            if start % 14 == 0
        ]
        for start, position, end in kept:
            if start + 7 > offset:
                return bytes(self._data[position:end])
        return b""


@pytest.mark.parametrize("start", [0, 3, 7, 13, 14])
def test_offsets_that_compaction_took_are_no_loss(log: MemoryLog, pool: Pool, start: int) -> None:
    stop = COUNT - COUNT % 14
    with LogServer({"t": [CompactedLog(log)]}) as server:
        found = rows(fetcher_of(server.bootstrap_servers, pool, start, stop - 7))
    left = [offset for offset in range(start, stop) if offset % 14 < 7]
    assert found == [(offset, VALUES[offset]) for offset in left]


def test_a_log_whose_last_records_are_compacted_away_ends_where_it_was_planned(
    log: MemoryLog, pool: Pool, caplog: pytest.LogCaptureFixture
) -> None:
    with LogServer({"t": [CompactedLog(log)]}) as server, caplog.at_level(logging.WARNING, "spark_kafkawire"):
        server.broker.configs["t"] = {"cleanup.policy": "compact,delete"}
        found = rows(fetcher_of(server.bootstrap_servers, pool, 1960, 1980))
        assert [offset for offset, _ in found] == [*range(1960, 1967), *range(1974, 1980)]
        assert caplog.text == ""
        assert rows(fetcher_of(server.bootstrap_servers, pool, 1995, COUNT)) == []
    assert "t 0 at offset 1995 on broker 0" in caplog.text
    assert "no record is left up to 2000, which compaction explains" in caplog.text


def test_empty_answers_do_not_prove_that_records_are_gone(
    served: LogServer, pool: Pool, caplog: pytest.LogCaptureFixture
) -> None:
    numbers = itertools.count(1)
    altered(served, lambda _: {"records": b""} if next(numbers) <= 3 else {})
    with caplog.at_level(logging.WARNING, "spark_kafkawire"):
        assert values(fetcher_of(served.bootstrap_servers, pool)) == VALUES
    altered(served, lambda _: {"records": b""})
    with pytest.raises(
        BrokerError,
        match=r"^gave up after 4 attempts .*: t 0 at offset 0 on broker 0 .* no record below offset 2000, .*"
        r"; compaction does not explain it, for cleanup.policy is delete; if nothing is missing, end the "
        r"range at 0 \(endingOffsets\)$",
    ):
        values(fetcher_of(served.bootstrap_servers, pool))
    assert caplog.text == ""


def test_a_compacted_topic_is_asked_once_more_before_its_end_is_believed(
    served: LogServer, pool: Pool
) -> None:
    served.broker.configs["t"] = {"cleanup.policy": "compact"}
    numbers = itertools.count(1)
    altered(served, lambda _: {"records": b""} if next(numbers) <= 3 else {})
    fetcher = fetcher_of(served.bootstrap_servers, pool)
    before = served.requests.count(modern.METADATA)
    assert values(fetcher) == VALUES
    assert served.requests.count(modern.METADATA) > before  # who leads it was asked again


def test_a_compacted_topic_whose_end_its_leader_does_not_confirm_is_waited_for(
    served: LogServer, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = served.broker._listed

    def listed(topic: str, asked: ListOffsetsPartition) -> ListOffsetsPartitionReply:
        reply = honest(topic, asked)
        return replace(reply, offset=1990) if asked.timestamp == LATEST_TIMESTAMP else reply

    monkeypatch.setattr(served.broker, "_listed", listed)
    served.broker.configs["t"] = {"cleanup.policy": "compact"}
    altered(served, lambda _: {"records": b""})
    with pytest.raises(BrokerError, match=r"^gave up after 4 .*; the leader says that the log ends at 1990$"):
        values(fetcher_of(served.bootstrap_servers, pool))


@pytest.mark.parametrize("refused", ["no right", "too old", "no answer"])
def test_what_cannot_be_seen_is_no_proof_either(
    log: MemoryLog, pool: Pool, monkeypatch: pytest.MonkeyPatch, refused: str
) -> None:
    offered = {**OFFERED}
    if refused == "too old":
        del offered[modern.DESCRIBE_CONFIGS.key]
    with LogServer({"t": [log]}, offered=offered) as server:
        server.broker.configs["t"] = {"cleanup.policy": "compact"}
        honest = server.broker._configs_of
        changes: dict[str, Any] = {
            "no right": {"error_code": 29, "configs": ()},
            "no answer": {"configs": ()},
        }

        def answered(asked: DescribedResource) -> ResourceConfigs:
            return replace(honest(asked), **changes.get(refused, {}))

        monkeypatch.setattr(server.broker, "_configs_of", answered)
        altered(server, lambda _: {"records": b""})
        reason = {
            "no right": "the user may not do this to the topic",
            "too old": "brokers before 0.11 do not tell cleanup.policy",
            "no answer": "the answer does not tell cleanup.policy",
        }[refused]
        with pytest.raises(
            BrokerError,
            match=rf"compaction might explain it, but cannot be seen: DescribeConfigs .* 't': {reason}.*; "
            r"let the user do DescribeConfigs, or, if nothing is missing, end the range at 0 \(ending",
        ) as caught:
            values(fetcher_of(server.bootstrap_servers, pool))
        assert "\n" not in str(caught.value)


def test_what_is_compacted_before_an_open_transaction_is_proven_by_its_records(
    log: MemoryLog, pool: Pool, caplog: pytest.LogCaptureFixture
) -> None:
    # Compaction took [1967, 1974), and the transaction begins at 1974.
    open_log = CompactedLog(log)
    with LogServer({"t": [open_log]}) as server:
        honest = server.broker._answers[fetch.FetchRequest]

        def fetched(request: fetch.FetchRequest) -> fetch.FetchReply:
            reply: fetch.FetchReply = honest(request)
            [topic] = reply.responses
            [partition] = topic.partitions
            asked = request.topics[0].partitions[0].fetch_offset
            if request.isolation_level == READ_COMMITTED and asked >= 1967:
                partition = replace(partition, records=b"")
            topics = (replace(topic, partitions=(replace(partition, last_stable_offset=1974),)),)
            return replace(reply, responses=topics)

        server.broker._answers = {**server.broker._answers, fetch.FetchRequest: fetched}
        options = replace(SMALL, isolation_level=READ_COMMITTED)
        with caplog.at_level(logging.WARNING, "spark_kafkawire"):
            found = rows(fetcher_of(server.bootstrap_servers, pool, 1960, 1974, options))
        assert [offset for offset, _ in found] == list(range(1960, 1967))
        assert caplog.text == ""
        assert modern.DESCRIBE_CONFIGS not in server.requests
        # A record of the range that comes so is no proof, and not read: it may be of the transaction.
        altered(server, lambda _: {"records": bytes(log.read(1967, 1))})
        fetched_open = server.broker._answers[fetch.FetchRequest]
        server.broker._answers = {
            **server.broker._answers,
            fetch.FetchRequest: lambda each: _only_uncommitted(fetched_open(each), each),
        }
        with pytest.raises(BrokerError, match=r"^gave up after 4 attempts .*no record below offset 1974"):
            values(fetcher_of(server.bootstrap_servers, pool, 1967, 1974, options))


def _only_uncommitted(reply: fetch.FetchReply, request: fetch.FetchRequest) -> fetch.FetchReply:
    if request.isolation_level == READ_UNCOMMITTED:
        return reply
    [topic] = reply.responses
    [partition] = topic.partitions
    return replace(reply, responses=(replace(topic, partitions=(replace(partition, records=b""),)),))


@pytest.mark.parametrize(
    "change",
    [{"high_watermark": 1999}, {"high_watermark": -1}, {"throttle_time_ms": 1}],
    ids=["a new leader", "a leader that does not tell", "a quota"],
)
def test_records_that_are_only_late_are_not_taken_for_compacted_ones(
    served: LogServer, pool: Pool, change: dict[str, Any]
) -> None:
    # Compaction could explain it: what the broker says besides is why it does not.
    served.broker.configs |= {LOG.topic: {"cleanup.policy": "compact"}}
    altered(served, lambda _: {"records": b"", **change})
    with pytest.raises(
        BrokerError, match=r"^gave up after 4 attempts .*Fetch brought no record below offset 2000"
    ):
        values(fetcher_of(served.bootstrap_servers, pool))


def test_answers_without_records_between_others_cost_nothing_but_time(served: LogServer, pool: Pool) -> None:
    numbers = itertools.count(1)
    altered(served, lambda _: {} if next(numbers) % 3 == 0 else {"records": b""})
    assert values(fetcher_of(served.bootstrap_servers, pool)) == VALUES


def throttling(server: LogServer, throttles_ms: Iterator[int]) -> list[float]:
    """Fetches that are answered as by brokers whose quota is used up, without any partition, until
    ``throttles_ms`` gives 0. The times at which they came."""
    honest, came = server.broker._answers[fetch.FetchRequest], list[float]()

    def fetched(request: fetch.FetchRequest) -> fetch.FetchReply:
        came.append(time.monotonic())
        throttle_time_ms = next(throttles_ms)
        if throttle_time_ms:
            return fetch.FetchReply(throttle_time_ms=throttle_time_ms, responses=())
        reply: fetch.FetchReply = honest(request)
        return reply

    server.broker._answers = {**server.broker._answers, fetch.FetchRequest: fetched}
    return came


def test_a_quota_makes_a_read_wait_on_its_connection(served: LogServer, pool: Pool) -> None:
    came = throttling(served, itertools.cycle([300, 0]))
    assert values(fetcher_of(served.bootstrap_servers, pool, stop=7)) == VALUES[:7]
    assert came[1] - came[0] >= 0.3
    assert len(served._connections) == 2  # the bootstrap server's and the leader's


def test_a_quota_that_stays_used_up_ends_a_read_with_its_name(served: LogServer, pool: Pool) -> None:
    throttling(served, itertools.repeat(1))
    with pytest.raises(BrokerError, match=r"^gave up after 4 .* throttles this client, for 0.001 s .* quota"):
        values(fetcher_of(served.bootstrap_servers, pool))


def test_a_reply_about_nothing_is_none(served: LogServer, pool: Pool) -> None:
    served.broker._answers = {
        **served.broker._answers,
        fetch.FetchRequest: lambda _: fetch.FetchReply(responses=()),
    }
    with pytest.raises(ProtocolError, match=" 0, which was asked for, but of nothing"):
        values(fetcher_of(served.bootstrap_servers, pool))


def test_records_in_tiered_storage_are_waited_for(
    served: LogServer, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = served.broker._listed

    def listed(topic: str, asked: ListOffsetsPartition) -> ListOffsetsPartitionReply:
        reply = honest(topic, asked)
        return replace(reply, offset=1000) if asked.timestamp == EARLIEST_LOCAL_TIMESTAMP else reply

    monkeypatch.setattr(served.broker, "_listed", listed)
    altered(served, lambda _: {"records": b""})
    served.broker.configs["t"] = {"cleanup.policy": "compact"}
    with pytest.raises(
        BrokerError, match=r"found nothing where the log has data: up to 1000 in tiered storage"
    ):
        values(fetcher_of(served.bootstrap_servers, pool))
    assert values(fetcher_of(served.bootstrap_servers, pool, start=1000)) == []


def test_a_broker_that_gives_nothing_for_lost_offsets_is_a_data_loss(
    served: LogServer, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Tansu 0.6 does so, where others answer OFFSET_OUT_OF_RANGE.
    honest = served.broker._listed

    def listed(topic: str, asked: ListOffsetsPartition) -> ListOffsetsPartitionReply:
        reply = honest(topic, asked)
        return reply if asked.timestamp == LATEST_TIMESTAMP else replace(reply, offset=1500)

    monkeypatch.setattr(served.broker, "_listed", listed)
    altered(served, lambda asked: {} if asked.fetch_offset >= 1500 else {"records": b""})
    with pytest.raises(DataLossError, match=r"records up to 1500 are gone; the log now holds \[1500, 2000\)"):
        values(fetcher_of(served.bootstrap_servers, pool))
    options = replace(SMALL, fail_on_data_loss=False)
    assert values(fetcher_of(served.bootstrap_servers, pool, options=options)) == VALUES[1500:]


def transactions() -> MemoryLog:
    """Producer 1 aborts and then commits, between records of 2, which commits."""
    parts = []
    for offset, (producer_id, value) in enumerate(
        [(1, b"a0"), (2, b"b1"), (1, b"a2"), (1, None), (1, b"a4"), (2, b"b5"), (1, None), (2, None)]
    ):
        kind = int(offset != 3)
        producer = (producer_id, 0, offset)
        parts.append(
            marker(offset, producer_id, kind)
            if value is None
            else batch([record(0, value)], offset, attributes=TRANSACTIONAL, producer=producer)
        )
    return MemoryLog(*parts)


def aborted_in(asked: fetch.FetchPartition) -> dict[str, Any]:
    """The aborted transaction that a broker names in replies that begin before its marker."""
    aborted = fetch.AbortedTransaction(producer_id=1, first_offset=0)
    return {"aborted_transactions": (aborted,) if asked.fetch_offset <= 3 else ()}


@pytest.mark.parametrize("fetch_bytes", [1, 4096])
@pytest.mark.parametrize(("start", "stop"), [(0, 8), (0, 3), (2, 8), (3, 7), (4, 8), (6, 8)])
def test_records_of_aborted_transactions_are_left_out(
    pool: Pool, fetch_bytes: int, start: int, stop: int
) -> None:
    with LogServer({"t": [transactions()]}) as server:
        altered(server, aborted_in)
        options = replace(SMALL, fetch_bytes=fetch_bytes, isolation_level=READ_COMMITTED)
        found = rows(fetcher_of(server.bootstrap_servers, pool, start, stop, options))
    committed = [(1, b"b1"), (4, b"a4"), (5, b"b5")]
    assert found == [(offset, value) for offset, value in committed if start <= offset < stop]


@pytest.mark.parametrize("isolation_level", [READ_COMMITTED, READ_UNCOMMITTED])
def test_a_fetch_says_what_it_knows_of_the_leader_and_what_it_wants(
    served: LogServer, pool: Pool, isolation_level: int
) -> None:
    asked: list[fetch.FetchRequest] = []
    honest = served.broker._answers[fetch.FetchRequest]

    def noted(request: fetch.FetchRequest) -> fetch.FetchReply:
        asked.append(request)
        reply: fetch.FetchReply = honest(request)
        return reply

    served.broker._answers = {**served.broker._answers, fetch.FetchRequest: noted}
    options = replace(SMALL, isolation_level=isolation_level)
    values(fetcher_of(served.bootstrap_servers, pool, stop=5, options=options))
    [request] = asked
    [topic] = request.topics
    [partition] = topic.partitions
    assert topic.topic_id == served.broker.topic_id("t")
    assert partition.current_leader_epoch == LEADER_EPOCH
    assert (request.isolation_level, request.max_wait_ms, request.min_bytes) == (isolation_level, 50, 1)
    assert request.max_bytes == partition.partition_max_bytes == 4096


ERRORS = {
    "NOT_LEADER_OR_FOLLOWER": 6,
    "FENCED_LEADER_EPOCH": 74,
    "UNKNOWN_LEADER_EPOCH": 75,
    "UNKNOWN_TOPIC_OR_PARTITION": 3,
    "LEADER_NOT_AVAILABLE": 5,
    "REPLICA_NOT_AVAILABLE": 9,
    "KAFKA_STORAGE_ERROR": 56,
    "UNKNOWN_TOPIC_ID": 100,
    "REQUEST_TIMED_OUT": 7,
    "THROTTLING_QUOTA_EXCEEDED": 89,
    "CORRUPT_MESSAGE": 2,
    "UNKNOWN_SERVER_ERROR": -1,
    "DISCONNECT": DISCONNECT,
}


@pytest.mark.parametrize("error", ERRORS.values(), ids=ERRORS)
def test_an_error_that_passes_costs_nothing_but_time(written: MockCluster, pool: Pool, error: int) -> None:
    written.push_request_errors(FETCH, 0, error, error, 0, 0, error)
    found = rows(fetcher_of(written.bootstrap_servers, pool))
    assert found == list(enumerate(VALUES))


@pytest.mark.parametrize("error", [29, 35])
def test_an_error_that_stays_is_one_line_that_names_the_place(
    written: MockCluster, pool: Pool, error: int
) -> None:
    written.push_request_errors(FETCH, error)
    with pytest.raises(
        BrokerError, match=r"^t 0 at offset 0 on broker 1 \(127.0.0.1:\d+\): Fetch: "
    ) as caught:
        values(fetcher_of(written.bootstrap_servers, pool))
    assert caught.value.code == error


def test_a_leader_that_moves_in_the_middle_is_followed(written: MockCluster, pool: Pool) -> None:
    columns = fetcher_of(written.bootstrap_servers, pool).columns()
    found: list[bytes] = []
    for number, each in enumerate(columns):
        assert each.values is not None
        found += each.values.to_pylist()
        if number % 50 == 0:
            written.set_leader("t", 0, 1 + number % 3)
    assert found == VALUES


def test_a_leader_that_dies_in_the_middle_is_replaced(written: MockCluster, pool: Pool) -> None:
    columns = fetcher_of(written.bootstrap_servers, pool).columns()
    first = next(columns)
    assert first.values is not None
    written.set_broker_down(1)
    written.set_leader("t", 0, 3)
    found = first.values.to_pylist()
    for each in columns:
        assert each.values is not None
        found += each.values.to_pylist()
    assert found == VALUES


def test_more_failures_than_retries_are_borne_with_patience(written: MockCluster, pool: Pool) -> None:
    written.push_request_errors(FETCH, *[DISCONNECT, 6] * 5)
    options = replace(SMALL, patience_s=20.0)
    assert values(fetcher_of(written.bootstrap_servers, pool, options=options)) == VALUES
    written.push_request_errors(FETCH, *[DISCONNECT, 6] * 5)
    with pytest.raises(KafkaWireError, match=r"^gave up after 4 attempts"):
        values(fetcher_of(written.bootstrap_servers, pool))


def test_a_leader_that_is_away_for_longer_than_the_retries_is_waited_for(
    written: MockCluster, pool: Pool
) -> None:
    columns = fetcher_of(written.bootstrap_servers, pool, options=replace(SMALL, patience_s=20.0)).columns()
    found = [next(columns).count]
    written.set_broker_down(1)
    timer = threading.Timer(0.5, written.set_broker_up, (1,))
    timer.start()
    found += [each.count for each in columns]
    timer.join()
    assert sum(found) == COUNT


def test_a_cluster_that_is_gone_ends_the_read(written: MockCluster, pool: Pool) -> None:
    columns = fetcher_of(written.bootstrap_servers, pool).columns()
    next(columns)
    written.set_broker_down(-1)
    with pytest.raises(
        KafkaWireError, match=r"^gave up after .* t 0 at offset \d+: gave up after 4 attempts "
    ):
        list(columns)


@pytest.mark.slow
def test_a_slow_answer_is_waited_for_and_a_slower_one_ends_the_read(written: MockCluster, pool: Pool) -> None:
    written.set_broker_rtt(1, 100)
    net = net_modern(timeout_s=0.5, retries=1, backoff_s=0.001)
    assert values(fetcher_of(written.bootstrap_servers, pool, stop=10, net=net)) == VALUES[:10]
    columns = fetcher_of(written.bootstrap_servers, pool, net=net).columns()
    next(columns)
    written.set_broker_rtt(1, 30_000)
    with pytest.raises(RequestTimedOut, match=r"no answer within 0.5 s \(requestTimeout\)"):
        list(columns)


def test_a_leader_that_serves_nothing_although_records_are_due_ends_the_read(
    served: LogServer, pool: Pool
) -> None:
    altered(served, lambda _: {"records": b"", "high_watermark": 1000})
    with pytest.raises(
        BrokerError,
        match=r"^gave up after 4 attempts .* t 0 at offset 1000 on broker 0 .*no record below offset 2000, "
        r"where the log ended when the read was planned; now the broker says 1000$",
    ):
        values(fetcher_of(served.bootstrap_servers, pool, start=1000))


def test_a_log_that_lost_its_end_is_a_data_loss(
    served: LogServer, pool: Pool, caplog: pytest.LogCaptureFixture
) -> None:
    # A leader out of sync was elected: what it has not got is gone.
    with pytest.raises(DataLossError, match=r"records up to 2010 are gone; the log now holds \[0, 2000\)"):
        values(fetcher_of(served.bootstrap_servers, pool, stop=COUNT + 10))
    options = replace(SMALL, fail_on_data_loss=False)
    with caplog.at_level(logging.WARNING, "spark_kafkawire"):
        found = values(fetcher_of(served.bootstrap_servers, pool, stop=COUNT + 10, options=options))
    assert found == VALUES
    assert "t 0 at offset 2000 on broker 0" in caplog.text
    assert "records up to 2010 are gone" in caplog.text


def loses(written: MockCluster, before_offset: int) -> None:
    written.delete_records("t", 0, before_offset)


def test_offsets_that_retention_took_are_a_data_loss(written: MockCluster, pool: Pool) -> None:
    loses(written, 700)
    with pytest.raises(
        DataLossError,
        match=r"^t 0 at offset 3 on broker 1 .*: records up to 700 are gone; the log now holds \[700, 2000\);"
        r" to read what is left, set failOnDataLoss=false$",
    ):
        values(fetcher_of(written.bootstrap_servers, pool, start=3))


@pytest.mark.parametrize(
    ("start", "stop", "before", "expected"),
    [
        (0, 2000, 700, (700, 2000)),  # what is left is read
        (0, 700, 700, None),  # nothing is left
        (0, 500, 700, None),
        (800, 900, 700, (800, 900)),  # nothing of it was lost
        (1999, 2000, 2000, None),
    ],
)
def test_what_survives_is_read_once_with_a_warning(
    written: MockCluster,
    pool: Pool,
    caplog: pytest.LogCaptureFixture,
    start: int,
    stop: int,
    before: int,
    expected: tuple[int, int] | None,
) -> None:
    loses(written, before)
    options = replace(SMALL, fail_on_data_loss=False)
    with caplog.at_level(logging.WARNING, "spark_kafkawire"):
        found = rows(fetcher_of(written.bootstrap_servers, pool, start, stop, options))
    first, last = expected or (0, 0)
    assert found == list(zip(range(first, last), VALUES[first:last], strict=True))
    assert ("are gone" in caplog.text) == (start < before)


def test_retention_in_the_middle_of_a_read_gives_no_duplicates(written: MockCluster, pool: Pool) -> None:
    options = replace(SMALL, fail_on_data_loss=False)
    found: list[int] = []
    for number, columns in enumerate(fetcher_of(written.bootstrap_servers, pool, options=options).columns()):
        found += columns.offset.tolist()
        if number == 0:
            loses(written, 1000)
    assert found == sorted(set(found))
    assert set(range(1000, COUNT)) <= set(found) < set(range(COUNT))


def test_an_offset_that_is_out_of_range_and_back_is_read(written: MockCluster, pool: Pool) -> None:
    written.push_request_errors(FETCH, 1, 0, 1)
    assert values(fetcher_of(written.bootstrap_servers, pool)) == VALUES


def test_a_log_that_ends_before_the_range_does_is_a_data_loss(written: MockCluster, pool: Pool) -> None:
    with pytest.raises(DataLossError, match=r"records up to 2100 are gone; the log now holds \[0, 2000\)"):
        values(fetcher_of(written.bootstrap_servers, pool, start=2050, stop=2100))


def test_a_gap_at_a_log_start_that_moved_is_a_data_loss(log: MemoryLog, pool: Pool) -> None:
    with LogServer({"t": [CompactedLog(log)]}) as server:
        altered(server, lambda _: {"log_start_offset": 14})
        with pytest.raises(BrokerError, match="a fetch found nothing where the log has data"):
            values(fetcher_of(server.bootstrap_servers, pool, start=7, stop=21))


def test_a_topic_that_was_made_anew_is_a_data_loss(
    served: LogServer, pool: Pool, caplog: pytest.LogCaptureFixture
) -> None:
    planned = cluster_of(served.bootstrap_servers, pool).leaders_of((LOG,))[LOG]
    before = replace(planned, topic_id=served.broker.topic_id("of another time"))
    altered(served, lambda _: {"error_code": 100})
    with pytest.raises(
        DataLossError, match=r"records up to 2000 are gone; .*'t' was deleted, and another topic"
    ):
        values(fetcher_of(served.bootstrap_servers, pool, leader=before))
    options = replace(SMALL, fail_on_data_loss=False)
    with caplog.at_level(logging.WARNING, "spark_kafkawire"):
        assert values(fetcher_of(served.bootstrap_servers, pool, leader=before, options=options)) == []
    assert "another topic has its name now" in caplog.text


@pytest.mark.parametrize("planned", [True, False])
def test_a_topic_whose_id_was_not_known_is_not_another_one(
    served: LogServer, pool: Pool, monkeypatch: pytest.MonkeyPatch, planned: bool
) -> None:
    leader = cluster_of(served.bootstrap_servers, pool).leaders_of((LOG,))[LOG]
    if planned:  # and brokers that know no ids answer later
        monkeypatch.setattr(served.broker, "topic_id", lambda _: NO_TOPIC_ID)
    else:
        leader = replace(leader, topic_id=None)
    numbers = itertools.count(1)
    altered(served, lambda _: {"error_code": 6 if next(numbers) == 2 else 0})
    assert values(fetcher_of(served.bootstrap_servers, pool, leader=leader)) == VALUES


def test_a_leader_whose_epoch_falls_is_not_read_from(
    served: LogServer, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Before 2.8 topics have no ids; the epochs of one that is made anew begin with 0.
    monkeypatch.setattr(served.broker, "topic_id", lambda _: NO_TOPIC_ID)
    planned = cluster_of(served.bootstrap_servers, pool).leaders_of((LOG,))[LOG]
    later = replace(planned, epoch=LEADER_EPOCH + 1)
    numbers = itertools.count(1)
    altered(served, lambda _: {"error_code": 75 if next(numbers) == 1 else 0})
    with pytest.raises(
        BrokerError,
        match=r"^gave up after 4 attempts .*: t 0 at offset 0.* leads in epoch 5, after 6 when the "
        r"read was planned: the topic was made anew, or brokers are behind$",
    ):
        values(fetcher_of(served.bootstrap_servers, pool, leader=later))


def test_a_topic_that_no_broker_knows_for_a_while_is_not_gone(
    served: LogServer, pool: Pool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    planned = cluster_of(served.bootstrap_servers, pool).leaders_of((LOG,))[LOG]
    numbers, logs = itertools.count(1), served.broker.logs
    altered(served, lambda _: {"error_code": 6 if next(numbers) == 1 else 0})
    honest, asked = served.broker._topic, itertools.count(1)

    def topic(name: str) -> MetadataTopic:
        # Each try asks four times.
        served.broker.logs = {} if next(asked) <= 10 else logs
        described = honest(name)
        served.broker.logs = logs
        return described

    monkeypatch.setattr(served.broker, "_topic", topic)
    options = replace(SMALL, fail_on_data_loss=False, patience_s=60.0)
    with caplog.at_level(logging.WARNING, "spark_kafkawire"):
        assert values(fetcher_of(served.bootstrap_servers, pool, leader=planned, options=options)) == VALUES
    assert "are gone" not in caplog.text
    assert all(each.endswith("trying again for up to 60 s (patience)") for each in caplog.messages)


def test_a_topic_that_is_gone_is_a_data_loss(log: MemoryLog, pool: Pool) -> None:
    topics = {"t": [log]}
    with LogServer(topics) as server:
        fetcher = fetcher_of(server.bootstrap_servers, pool)
        altered(server, lambda _: {"error_code": 3})
        del topics["t"]
        server.broker.logs = {"t": [log], **topics}
        server.broker._topic = lambda name: modern.metadata.MetadataTopic(  # type: ignore[method-assign]
            error_code=3, name=name, partitions=()
        )
        with pytest.raises(DataLossError, match=r"records up to 2000 are gone; the topic is gone: "):
            values(fetcher)


def test_an_answer_about_something_else_ends_the_read(served: LogServer, pool: Pool) -> None:
    altered(served, lambda _: {"partition_index": 7})
    with pytest.raises(
        ProtocolError, match=r"t 0 at offset 0: broker 0 .*: it tells of [0-9a-f-]{36} 7, where "
    ):
        values(fetcher_of(served.bootstrap_servers, pool))


def test_an_answer_that_begins_before_the_offset_again_and_again_ends_the_read(
    served: LogServer, log: MemoryLog, pool: Pool
) -> None:
    altered(served, lambda _: {"records": log.read(0, 100)})
    with pytest.raises(BrokerError, match="Fetch brought no record"):
        values(fetcher_of(served.bootstrap_servers, pool))


@pytest.mark.parametrize("byte", [150, 1000, 3000])
def test_a_flipped_bit_is_found(log: MemoryLog, pool: Pool, byte: int) -> None:
    def flip(api: object, frame: bytes) -> Sent:
        flipped = bytearray(frame)
        if api is modern.FETCH:
            flipped[byte] ^= 1
        return Sent(bytes(flipped))

    with (
        LogServer({"t": [log]}, lie=flip) as server,
        pytest.raises(KafkaWireError, match=r"^t 0 ") as caught,
    ):
        values(fetcher_of(server.bootstrap_servers, pool))
    assert "000000" not in str(caught.value)
    assert isinstance(caught.value, CorruptDataError) or byte == 150


def test_a_task_asks_its_leader_for_nothing_but_records(served: LogServer, pool: Pool) -> None:
    fetcher = fetcher_of(served.bootstrap_servers, pool, options=FetchOptions())
    served.requests.clear()
    assert values(fetcher) == VALUES
    assert served.requests == [modern.API_VERSIONS, modern.FETCH]
