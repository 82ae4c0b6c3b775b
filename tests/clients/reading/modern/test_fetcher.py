"""One range of a modern log over real sockets: every version, every part of a partition, transactions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from spark_kafkawire.net.pool import Pool
from spark_kafkawire.options import FetchOptions
from spark_kafkawire.protocol import modern
from spark_kafkawire.protocol.api import VersionRange
from spark_kafkawire.protocol.modern import fetch
from spark_kafkawire.protocol.modern.limits import READ_COMMITTED, READ_UNCOMMITTED
from tests.records.batches import TRANSACTIONAL, batch, marker, record
from tests.support.fetching import COUNT, SMALL, VALUES, altered, fetcher_of, rows, values, write
from tests.support.log_broker import LEADER_EPOCH, OFFERED
from tests.support.log_server import LogServer
from tests.support.memory_log import MemoryLog
from tests.support.polling import poll


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
    assert served.connection_count == 2


def test_a_read_ends_where_it_was_planned_while_producers_go_on(pool: Pool) -> None:
    with LogServer({"t": [MemoryLog()]}) as server:
        write(server.bootstrap_servers)
        columns = fetcher_of(server.bootstrap_servers, pool).columns()
        found = [each.count for each in [next(columns)]]
        write(server.bootstrap_servers, [b"later"] * 100)
        assert sum(found) + sum(each.count for each in columns) == COUNT


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
        found = rows(fetcher_of(server.bootstrap_servers, pool, start, stop, options))
    committed = [(1, b"b1"), (4, b"a4"), (5, b"b5")]
    assert found == [(offset, value) for offset, value in committed if start <= offset < stop]


@pytest.mark.parametrize("isolation_level", [READ_COMMITTED, READ_UNCOMMITTED])
def test_a_fetch_says_what_it_knows_of_the_leader_and_what_it_wants(
    served: LogServer, pool: Pool, isolation_level: int
) -> None:
    asked: list[fetch.FetchRequest] = []

    def noted(request: fetch.FetchRequest) -> fetch.FetchResponse:
        asked.append(request)
        response: fetch.FetchResponse = honest(request)
        return response

    honest = served.broker.answer_with(fetch.FetchRequest, noted)
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
