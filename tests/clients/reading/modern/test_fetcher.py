"""One range of a modern log over real sockets: versions, transactions, limits, and leaders that fail."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from spark_kafkawire.errors import (
    BrokerError,
    KafkaWireError,
    LimitError,
    ProtocolError,
    RequestTimedOut,
)
from spark_kafkawire.net.pool import Pool
from spark_kafkawire.options import FetchOptions
from spark_kafkawire.protocol import modern
from spark_kafkawire.protocol.api import VersionRange
from spark_kafkawire.protocol.modern import fetch
from spark_kafkawire.protocol.modern.limits import READ_COMMITTED, READ_UNCOMMITTED
from tests.records.batches import TRANSACTIONAL, batch, marker, record
from tests.support.fetching import (
    COUNT,
    ERRORS,
    SMALL,
    VALUES,
    altered,
    fetcher_of,
    rows,
    throttling,
    values,
    write,
)
from tests.support.log_broker import LEADER_EPOCH, OFFERED
from tests.support.log_server import LogServer
from tests.support.memory_log import MemoryLog
from tests.support.mock_cluster import DISCONNECT, FETCH, MockCluster
from tests.support.polling import poll
from tests.support.settings import net_modern


@pytest.mark.parametrize("version", range(modern.FETCH.versions.max + 1))
def test_every_version_reads_the_whole_log(log: MemoryLog, pool: Pool, version: int) -> None:
    offered = {**OFFERED, modern.FETCH.key: VersionRange(version, version)}
    with LogServer({"t": [log]}, offered=offered) as server:
        fetcher = fetcher_of(server.bootstrap_servers, pool)
        assert values(fetcher) == VALUES
        assert fetcher.bytes_received == len(log._data)


@pytest.mark.parametrize(("count", "asked_bytes"), [(3, 64 << 10), (200, 250 << 10), (2000, 2500 << 10)])
def test_a_small_range_is_a_small_fetch(served: LogServer, pool: Pool, count: int, asked_bytes: int) -> None:
    asked: list[fetch.FetchPartition] = []
    altered(served, lambda item: (asked.append(item), {})[1])  # type: ignore[func-returns-value]
    result = values(fetcher_of(served.bootstrap_servers, pool, stop=count, options=FetchOptions()))
    assert result == VALUES[:count]
    assert [item.partition_max_bytes for item in asked] == [asked_bytes]


def test_the_last_fetch_of_a_range_is_as_large_as_its_rest(pool: Pool) -> None:
    log = MemoryLog(*(batch([record(0, bytes(10_000))]) for _ in range(130)))
    asked: list[int] = []
    with LogServer({"t": [log]}) as server:
        altered(server, lambda item: (asked.append(item.partition_max_bytes), {})[1])  # type: ignore[func-returns-value]
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
    assert served.connection_count == 2


def test_a_read_ends_where_it_was_planned_while_producers_go_on(pool: Pool) -> None:
    with LogServer({"t": [MemoryLog()]}) as server:
        write(server.bootstrap_servers)
        columns = fetcher_of(server.bootstrap_servers, pool).columns()
        result = [item.count for item in [next(columns)]]
        write(server.bootstrap_servers, [b"later"] * 100)
        assert sum(result) + sum(item.count for item in columns) == COUNT


@pytest.mark.parametrize("isolation_level", [READ_COMMITTED, READ_UNCOMMITTED])
def test_a_fetch_names_the_leaders_epoch_and_limits(
    served: LogServer, pool: Pool, isolation_level: int
) -> None:
    asked = served.broker.alter(fetch.FetchRequest, lambda honest, _: honest)
    options = replace(SMALL, isolation_level=isolation_level)
    values(fetcher_of(served.bootstrap_servers, pool, stop=5, options=options))
    [request] = asked
    [topic] = request.topics
    [partition] = topic.partitions
    assert topic.topic_id == served.broker.topic_id("t")
    assert partition.current_leader_epoch == LEADER_EPOCH
    assert (request.isolation_level, request.max_wait_ms, request.min_bytes) == (isolation_level, 50, 1)
    assert request.max_bytes == partition.partition_max_bytes == 4096


def test_a_task_asks_its_leader_for_nothing_but_records(served: LogServer, pool: Pool) -> None:
    fetcher = fetcher_of(served.bootstrap_servers, pool, options=FetchOptions())
    served.requests.clear()
    assert values(fetcher) == VALUES
    assert served.requests == [modern.API_VERSIONS, modern.FETCH]


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


def test_a_response_above_max_message_bytes_is_not_even_received(pool: Pool) -> None:
    log = MemoryLog(batch([record(0, bytes(3_000_000))]))
    options = replace(SMALL, message_bytes_max=100_000)
    with (
        LogServer({"t": [log]}) as server,
        pytest.raises(
            ProtocolError, match=r"Fetch response announces 3000\d+ bytes, at most 1\d+ were expected"
        ),
    ):
        values(fetcher_of(server.bootstrap_servers, pool, stop=1, options=options))


def test_a_batch_that_a_fetch_cuts_is_fetched_with_a_larger_one(pool: Pool) -> None:
    large = [b"small", bytes(300_000), b"small too"]
    with cutting([*large, *VALUES]) as server:
        fetcher = fetcher_of(server.bootstrap_servers, pool, stop=len(large) + COUNT)
        assert values(fetcher) == large + VALUES


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


def test_a_quota_makes_a_read_wait_on_its_connection(served: LogServer, pool: Pool) -> None:
    came = throttling(served, itertools.cycle([300, 0]))
    assert values(fetcher_of(served.bootstrap_servers, pool, stop=7)) == VALUES[:7]
    assert came[1] - came[0] >= 0.3
    assert served.connection_count == 2  # the bootstrap server's and the leader's


def test_a_quota_that_stays_used_up_ends_a_read_with_its_name(served: LogServer, pool: Pool) -> None:
    throttling(served, itertools.repeat(1))
    with pytest.raises(
        BrokerError, match=r"^gave up after 4 .* throttles this client for another 0.001 s: its quota"
    ):
        values(fetcher_of(served.bootstrap_servers, pool))


@pytest.mark.slow
@pytest.mark.parametrize("error", ERRORS.values(), ids=ERRORS)
def test_an_error_that_passes_costs_nothing_but_time(written: MockCluster, pool: Pool, error: int) -> None:
    written.push_request_errors(FETCH, 0, error, error, 0, 0, error)
    result = rows(fetcher_of(written.bootstrap_servers, pool))
    assert result == list(enumerate(VALUES))


@pytest.mark.parametrize("error", [29, 35])
def test_an_error_that_stays_names_the_place(written: MockCluster, pool: Pool, error: int) -> None:
    written.push_request_errors(FETCH, error)
    with pytest.raises(
        BrokerError, match=r"^t 0 at offset 0 on broker 1 \(127.0.0.1:\d+\): Fetch: "
    ) as caught:
        values(fetcher_of(written.bootstrap_servers, pool))
    assert caught.value.code == error


def test_a_leader_that_moves_in_the_middle_is_followed(written: MockCluster, pool: Pool) -> None:
    columns = fetcher_of(written.bootstrap_servers, pool).columns()
    result: list[bytes] = []
    for number, item in enumerate(columns):
        assert item.values is not None
        result += item.values.to_pylist()
        if number % 50 == 0:
            written.set_leader("t", 0, 1 + number % 3)
    assert result == VALUES


def test_a_leader_that_dies_in_the_middle_is_replaced(written: MockCluster, pool: Pool) -> None:
    columns = fetcher_of(written.bootstrap_servers, pool).columns()
    first = next(columns)
    assert first.values is not None
    written.set_broker_down(1)
    written.set_leader("t", 0, 3)
    result = first.values.to_pylist()
    for item in columns:
        assert item.values is not None
        result += item.values.to_pylist()
    assert result == VALUES


@pytest.mark.slow
def test_more_failures_than_retries_are_borne_with_patience(written: MockCluster, pool: Pool) -> None:
    written.push_request_errors(FETCH, *[DISCONNECT, 6] * 5)
    options = replace(SMALL, retry_timeout_s=20.0)
    assert values(fetcher_of(written.bootstrap_servers, pool, options=options)) == VALUES
    written.push_request_errors(FETCH, *[DISCONNECT, 6] * 5)
    with pytest.raises(KafkaWireError, match=r"^gave up after 4 attempts"):
        values(fetcher_of(written.bootstrap_servers, pool))


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
    net = net_modern(timeout_s=2, retries=1, backoff_s=0.001)
    assert values(fetcher_of(written.bootstrap_servers, pool, stop=10, net=net)) == VALUES[:10]
    columns = fetcher_of(written.bootstrap_servers, pool, net=net).columns()
    next(columns)
    written.set_broker_rtt(1, 30_000)
    with pytest.raises(RequestTimedOut, match=r"no answer within 2 s \(requestTimeout\)"):
        list(columns)


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
    """The aborted transaction that a broker names in responses that begin before its marker."""
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
        result = rows(fetcher_of(server.bootstrap_servers, pool, start, stop, options))
    committed = [(1, b"b1"), (4, b"a4"), (5, b"b5")]
    assert result == [(offset, value) for offset, value in committed if start <= offset < stop]
