"""Packs: small ranges of many partitions in one request, each as exact as a read of its own."""

from __future__ import annotations

import contextlib
import itertools
import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from spark_kafkawire.clients.reading.pack import Pack
from spark_kafkawire.clients.reading.task import FetchTask
from spark_kafkawire.errors import CorruptDataError, DataLossError, KafkaWireError
from spark_kafkawire.model import OffsetRange, TopicPartition
from spark_kafkawire.net.pool import Pool
from spark_kafkawire.options import BadRecords, FetchOptions
from spark_kafkawire.protocol import modern
from spark_kafkawire.protocol.api import VersionRange
from spark_kafkawire.protocol.modern import fetch
from tests.records.batches import batch, record
from tests.support.fetching import ERRORS, NET, cluster_of, throttling
from tests.support.log_broker import OFFERED
from tests.support.log_server import LogServer, Sent
from tests.support.memory_log import MemoryLog
from tests.support.short_and_long import short_and_long

Rows = dict[TopicPartition, list[tuple[int, bytes]]]
OPTIONS = FetchOptions(wait_ms=50)


def value_of(topic: str, partition: int, offset: int) -> bytes:
    return f"{topic} {partition} {offset}".encode() * (1 + partition)


def log_of(topic: str, partition: int, count: int = 12, batch_count: int = 4) -> MemoryLog:
    values = [value_of(topic, partition, offset) for offset in range(count)]
    return MemoryLog(
        *(
            batch([record(delta, value) for delta, value in enumerate(values[pos : pos + batch_count])])
            for pos in range(0, count, batch_count)
        )
    )


@pytest.fixture
def logs() -> dict[str, list[MemoryLog]]:
    """Seven partitions of two topics."""
    return {
        "t": [log_of("t", partition) for partition in range(4)],
        "u": [log_of("u", partition) for partition in range(3)],
    }


@pytest.fixture
def served(logs: dict[str, list[MemoryLog]]) -> Iterator[LogServer]:
    with LogServer(logs) as server:
        yield server


def ranges_of(logs: dict[str, list[MemoryLog]]) -> list[OffsetRange]:
    return [
        OffsetRange(TopicPartition(topic, partition), 0, log.stop_offset)
        for topic, item in logs.items()
        for partition, log in enumerate(item)
    ]


def expected(ranges: Sequence[OffsetRange]) -> Rows:
    return {
        item.topic_partition: [
            (offset, value_of(item.topic_partition.topic, item.topic_partition.partition, offset))
            for offset in range(item.start_offset, item.stop_offset)
        ]
        for item in ranges
    }


def pack_of(
    server: LogServer, pool: Pool, ranges: Sequence[OffsetRange], options: FetchOptions = OPTIONS
) -> Pack:
    cluster = cluster_of(server.bootstrap_servers, pool)
    leaders = cluster.leaders_of([item.topic_partition for item in ranges])
    tasks = [FetchTask(item, leaders[item.topic_partition]) for item in ranges]
    return Pack(tasks, cluster, options, NET, connections=pool)


def read(pack: Pack) -> Rows:
    result: Rows = defaultdict(list)
    for task, columns in pack.columns():
        assert columns.values is not None
        rows = zip(columns.offset.tolist(), columns.values.to_pylist(), strict=True)
        result[task.range.topic_partition] += rows
    return dict(result)


def answering(
    server: LogServer,
    change: Callable[[str, fetch.FetchPartition, fetch.FetchPartitionResponse], dict[str, Any]],
) -> list[int]:
    """Change the parts of Fetch responses. Returns the counts of partitions of all requests that come."""
    counts: list[int] = []

    def fetched(request: fetch.FetchRequest) -> fetch.FetchResponse:
        counts.append(sum(len(topic.partitions) for topic in request.topics))
        response: fetch.FetchResponse = honest(request)
        topics = tuple(
            replace(
                topic,
                partitions=tuple(
                    replace(part, **change(topic.topic, part_asked, part))
                    for part_asked, part in zip(asked.partitions, topic.partitions, strict=True)
                ),
            )
            for asked, topic in zip(request.topics, response.responses, strict=True)
        )
        return replace(response, responses=topics)

    honest = server.broker.answer_with(fetch.FetchRequest, fetched)
    return counts


def once(topic: str, partition: int, **changes: Any) -> Callable[..., dict[str, Any]]:
    """A change of the first response for a partition."""
    left = [changes]

    def change(name: str, asked: fetch.FetchPartition, _: object) -> dict[str, Any]:
        return left.pop() if left and (name, asked.partition) == (topic, partition) else {}

    return change


@pytest.mark.parametrize("version", range(modern.FETCH.versions.max + 1))
def test_every_version_packs_all_partitions(
    logs: dict[str, list[MemoryLog]], pool: Pool, version: int
) -> None:
    offered = {**OFFERED, modern.FETCH.key: VersionRange(version, version)}
    with LogServer(logs, offered=offered) as server:
        assert read(pack_of(server, pool, ranges_of(logs))) == expected(ranges_of(logs))
        assert server.requests.count(modern.FETCH) == 1
        assert pool.kept_count == 2  # the bootstrap server's and the leader's


def test_ranges_begin_and_end_inside_batches(served: LogServer, pool: Pool) -> None:
    ranges = [
        OffsetRange(TopicPartition("t", 0), 3, 4),
        OffsetRange(TopicPartition("u", 2), 0, 6),
        OffsetRange(TopicPartition("t", 2), 5, 12),
    ]
    assert read(pack_of(served, pool, ranges)) == expected(ranges)


def filling(server: LogServer) -> list[list[tuple[str, int]]]:
    """Fetch responses as those of Apache Kafka: only the first records exceed a limit. Returns the partitions
    of all requests that come."""
    came: list[list[tuple[str, int]]] = []

    def fetched(request: fetch.FetchRequest) -> fetch.FetchResponse:
        left, is_first, topics = request.max_bytes, True, []
        came.append([(topic.topic, item.partition) for topic in request.topics for item in topic.partitions])
        for topic in request.topics:
            parts = []
            for asked in topic.partitions:
                [name] = [
                    name for name in server.broker.logs if server.broker.topic_id(name) == topic.topic_id
                ]
                log = server.broker.logs[name][asked.partition]
                limit = min(left, asked.partition_max_bytes)
                data = bytes(log.read(asked.fetch_offset, limit))
                if len(data) > limit and not is_first:
                    data = b""
                is_first = is_first and not data
                left = max(0, left - len(data))
                part = server.broker._fetched(name, asked, 0)
                parts.append(replace(part, records=data))
            topics.append(
                fetch.FetchTopicResponse(topic=name, topic_id=topic.topic_id, partitions=tuple(parts))
            )
        return fetch.FetchResponse(responses=tuple(topics))

    server.broker.answer_with(fetch.FetchRequest, fetched)
    return came


def test_partitions_that_a_response_has_no_room_for_come_first_in_the_next(
    served: LogServer, logs: dict[str, list[MemoryLog]], pool: Pool
) -> None:
    came = filling(served)
    ranges = ranges_of(logs)
    assert read(pack_of(served, pool, ranges, replace(OPTIONS, fetch_bytes=200))) == expected(ranges)
    firsts = [item[0] for item in came]
    assert len(set(firsts[: len(ranges)])) > 3  # they take turns
    assert max(map(len, came)) == len(ranges)
    batches = sum(len(log._offsets) for item in logs.values() for log in item)
    assert len(came) <= batches


def test_a_batch_above_the_limit_of_its_partition_takes_few_requests(pool: Pool) -> None:
    large = {"t": [MemoryLog(batch([record(0, bytes([number]) * 200_000)])) for number in range(20)]}
    ranges = ranges_of(large)
    with LogServer(large) as server:
        came = filling(server)
        result = read(pack_of(server, pool, ranges))
    assert [result[item.topic_partition] for item in ranges] == [
        [(0, bytes([number]) * 200_000)] for number in range(20)
    ]
    assert len(came) <= 4  # 64 KiB, 128 KiB and 256 KiB


@pytest.mark.parametrize("name", sorted(ERRORS.keys() - {"DISCONNECT"}))
def test_an_error_of_one_partition_leaves_its_neighbours_alone(
    served: LogServer, logs: dict[str, list[MemoryLog]], pool: Pool, name: str
) -> None:
    counts = answering(served, once("t", 1, error_code=ERRORS[name], records=b""))
    assert read(pack_of(served, pool, ranges_of(logs))) == expected(ranges_of(logs))
    assert counts == [7, 1]


def test_leaders_that_moved_are_looked_up_and_asked_together(
    served: LogServer, logs: dict[str, list[MemoryLog]], pool: Pool
) -> None:
    refused = {0, 1, 2}

    def change(topic: str, asked: fetch.FetchPartition, _: object) -> dict[str, Any]:
        if topic == "t" and asked.partition in refused:
            refused.remove(asked.partition)
            return {"error_code": ERRORS["NOT_LEADER_OR_FOLLOWER"], "records": b""}
        return {}

    counts = answering(served, change)
    pack = pack_of(served, pool, ranges_of(logs))
    metadata_count = served.requests.count(modern.METADATA)
    assert read(pack) == expected(ranges_of(logs))
    assert counts == [7, 3]
    assert served.requests.count(modern.METADATA) == metadata_count + 1


def test_the_leader_of_a_part_moves_to_another_broker(logs: dict[str, list[MemoryLog]], pool: Pool) -> None:
    with LogServer(logs) as new, LogServer(logs) as old:
        pack = pack_of(old, pool, ranges_of(logs))
        old.broker.broker = new.broker.broker  # what Metadata says from now on
        counts = answering(old, lambda topic, *_: {"error_code": 6, "records": b""} if topic == "t" else {})
        new_counts = answering(new, lambda *_: {})
        assert read(pack) == expected(ranges_of(logs))
    assert (counts, new_counts) == ([7], [4])


def test_a_pack_without_its_broker_is_read_from_another(logs: dict[str, list[MemoryLog]], pool: Pool) -> None:
    with LogServer(logs) as new:
        with LogServer(logs) as old:
            pack = pack_of(old, pool, ranges_of(logs))
        pack._cluster = cluster = cluster_of(new.bootstrap_servers, pool)
        for fetcher in pack._waiting:
            fetcher._cluster = fetcher._connection._cluster = cluster
        assert read(pack) == expected(ranges_of(logs))
        assert new.requests.count(modern.FETCH) == 1


def test_a_connection_that_ends_is_replaced_for_the_whole_pack(
    served: LogServer, logs: dict[str, list[MemoryLog]], pool: Pool
) -> None:
    frames = itertools.count()

    def cut(api: object, frame: bytes) -> Sent:
        is_first = api is modern.FETCH and next(frames) == 0
        return Sent(frame[: len(frame) // 2], "close") if is_first else Sent(frame)

    served.lie = cut
    assert read(pack_of(served, pool, ranges_of(logs))) == expected(ranges_of(logs))
    assert served.requests.count(modern.FETCH) == 2


def test_a_quota_makes_a_pack_wait(served: LogServer, logs: dict[str, list[MemoryLog]], pool: Pool) -> None:
    throttling(served, itertools.chain([20, 10], itertools.repeat(0)))
    assert read(pack_of(served, pool, ranges_of(logs))) == expected(ranges_of(logs))
    assert served.requests.count(modern.FETCH) == 3


def test_a_truncated_partition_is_a_data_loss(
    served: LogServer, logs: dict[str, list[MemoryLog]], pool: Pool, caplog: pytest.LogCaptureFixture
) -> None:
    pack = pack_of(served, pool, ranges_of(logs))
    logs["t"][2] = log_of("t", 2, count=4)
    with pytest.raises(DataLossError, match=r"^t 2 at offset 4 .* up to 12 are gone"):
        read(pack)
    lenient = pack_of(
        served,
        pool,
        [*ranges_of(logs)[:2], OffsetRange(TopicPartition("t", 2), 0, 12)],
        replace(OPTIONS, fail_on_data_loss=False),
    )
    assert read(lenient) == expected(ranges_of(logs)[:3])
    assert "t 2 at offset 4" in caplog.text


@pytest.mark.parametrize("is_in_log", [True, False])
def test_one_damaged_part(
    served: LogServer, logs: dict[str, list[MemoryLog]], pool: Pool, is_in_log: bool
) -> None:
    pack = pack_of(served, pool, ranges_of(logs), replace(OPTIONS, bad_records=BadRecords.DROP))
    log = logs["t"][1]
    damaged = bytearray(log._data)
    damaged[log._positions[1] + 70] ^= 1
    if is_in_log:
        log._data = damaged
        result = read(pack)
        rows = expected(ranges_of(logs))
        del rows[TopicPartition("t", 1)][4:8]
        assert result == rows
        with pytest.raises(CorruptDataError, match=r"^t 1 on broker 0"):
            read(pack_of(served, pool, ranges_of(logs)))
    else:
        answering(served, once("t", 1, records=bytes(damaged)))
        assert read(pack) == expected(ranges_of(logs))


def test_a_fatal_error_ends_the_read_and_leaves_no_connection_behind(
    served: LogServer, logs: dict[str, list[MemoryLog]], pool: Pool
) -> None:
    answering(served, lambda topic, *_: {"error_code": 29, "records": b""} if topic == "u" else {})
    with pytest.raises(KafkaWireError, match=r"^u 0 at offset 0 on broker 0 .*TOPIC_AUTHORIZATION_FAILED"):
        read(pack_of(served, pool, ranges_of(logs)))


@short_and_long("seeds", short=6, long=100)
def test_drawn_faults_leave_exact_rows_or_an_error(
    served: LogServer, logs: dict[str, list[MemoryLog]], pool: Pool, seeds: int
) -> None:
    draw = random.Random(7)
    codes = [code for name, code in ERRORS.items() if name != "DISCONNECT"]
    dropped = set()

    def change(topic: str, asked: fetch.FetchPartition, part: fetch.FetchPartitionResponse) -> dict[str, Any]:
        records = bytes(part.records or b"")
        kind = draw.choice(["none", "none", "error", "empty", "flip", "drop", "low end"])
        if kind == "error":
            return {"error_code": draw.choice(codes), "records": b""}
        if kind == "empty":
            return {"records": b""}
        if kind == "flip" and records:
            flipped = bytearray(records)
            flipped[draw.randrange(len(flipped))] ^= 1 << draw.randrange(8)
            return {"records": bytes(flipped)}
        # A gap that two fetches show is one of the log.
        if kind == "drop" and records and (topic, asked.partition) not in dropped:
            dropped.add((topic, asked.partition))
            size = 12 + int.from_bytes(records[8:12], "big")
            return {"records": records[size:]}
        if kind == "low end":
            return {"high_watermark": draw.randrange(12)}
        return {}

    answering(served, change)
    for _ in range(seeds):
        options = replace(OPTIONS, wait_ms=0, fetch_bytes=draw.choice([1024, 12 << 20]))
        dropped.clear()
        with contextlib.suppress(KafkaWireError):
            assert read(pack_of(served, pool, ranges_of(logs), options)) == expected(ranges_of(logs))
