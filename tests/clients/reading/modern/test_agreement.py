"""Fetch responses that contradict themselves, the leader or the request, or are damaged."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from spark_kafkawire.clients.reading.task import Contradiction
from spark_kafkawire.errors import BrokerError, CorruptDataError, ProtocolError
from spark_kafkawire.net.pool import Pool
from spark_kafkawire.protocol import modern
from spark_kafkawire.protocol.modern import fetch
from spark_kafkawire.protocol.modern.describe_configs import ResourceConfigs
from spark_kafkawire.protocol.modern.fetch import AbortedTransaction, FetchPartition
from spark_kafkawire.protocol.modern.limits import READ_COMMITTED
from spark_kafkawire.protocol.modern.list_offsets import LATEST_TIMESTAMP
from tests.records.batches import TRANSACTIONAL, batch, marker, message, record
from tests.support.fetching import (
    PARTITION,
    SMALL,
    VALUES,
    altered,
    fetcher_of,
    list_offsets_as,
    rows,
    values,
)
from tests.support.log_server import LogServer
from tests.support.memory_log import MemoryLog

#: Two batches, [0, 5) and [5, 12).
FIRST, SECOND = range(5), range(5, 12)
ROWS = [(offset, b"%d" % offset) for offset in range(12)]
COMMITTED = replace(SMALL, isolation_level=READ_COMMITTED)


def at(base_offset: int, numbers: range) -> bytes:
    """A batch of numbered values, at whichever offset."""
    return batch([record(delta, b"%d" % number) for delta, number in enumerate(numbers)], base_offset)


class TwelveRecords(MemoryLog):
    """The honest log, with ``compact`` or ``delete`` as its policy."""

    def __init__(self) -> None:
        super().__init__(at(0, FIRST), at(5, SECOND))


def served(policy: str = "delete") -> LogServer:
    server = LogServer({"t": [TwelveRecords()]})
    server.broker.configs["t"] = {"cleanup.policy": policy}
    return server


Change = dict[str, Any]
TWO = at(0, FIRST)
CONTRADICTIONS: dict[str, tuple[Change, str]] = {
    "the second batch, one bit changed": ({"records": TWO + at(5 | 1 << 40, SECOND)},
     r"t 0 at offset 5 on broker 0 \(.*\): Fetch returned nothing at offset 5, but a batch of offsets "
     r"1099511627781 to 1099511627787, and by the same response the log ends at offset 12; compare"),
    "the second batch at the high watermark": ({"records": TWO + at(12, SECOND)},
     "nothing at offset 5, but a batch of offsets 12 to 18, .* ends at offset 12; compare"),
    "the second batch across the high watermark": ({"records": TWO + at(7, SECOND)},
     "nothing at offset 5, but a batch of offsets 7 to 13, .* ends at offset 12; compare"),
    "the first batch above the high watermark": ({"records": at(1000, range(12))},
     "t 0 at offset 0 on .*: Fetch returned nothing at offset 0, but a batch of offsets 1000 to 1011"),
    "a gap, and no high watermark": ({"records": at(5, SECOND), "high_watermark": -1},
     "nothing at offset 0, but a batch of offsets 5 to 11, .* the end of the log is not known; compare"),
    "a batch above the high watermark and below the last stable offset": ({"records": TWO + at(20, SECOND),
     "last_stable_offset": 100},
     "nothing at offset 5, but a batch of offsets 20 to 26, .* ends at offset 12; compare"),
    "a gap and a high watermark that another answer does not bear out": ({"records": TWO + at(20, SECOND),
     "high_watermark": 100},
     r"t 0 at offset 0 on .*: Fetch returned nothing at offset 5, but batches up to offset 26, and by "
     r"ListOffsets the log ends at offset 12; compare"),
    "a log start above the batch": ({"records": TWO, "log_start_offset": 5},
     "at offset 0 on .*log starts at offset 5 by the response that contains the batch at offset 0; compare"),
    "a log start inside of the batch and above the offset": ({"records": TWO, "log_start_offset": 1},
     "the log starts at offset 1 by the response that contains the batch at offset 0; compare"),
}  # fmt: skip


@pytest.mark.parametrize("policy", ["delete", "compact"])
@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_a_response_that_contradicts_itself_ends_the_read(
    pool: Pool, name: str, policy: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Unless it is fetched again, and does so no more."""
    change, message = CONTRADICTIONS[name]
    numbers = itertools.count()
    with served(policy) as server:
        altered(server, lambda _: {} if next(numbers) else dict(change))
        assert rows(fetcher_of(server.bootstrap_servers, pool, 0, 12)) == ROWS
        assert caplog.text == ""
        altered(server, lambda _: dict(change))
        with pytest.raises(Contradiction, match=rf"^gave up after 4 attempts .*{message}") as caught:
            values(fetcher_of(server.bootstrap_servers, pool, 0, 12))
    assert "\n" not in str(caught.value)


def test_batches_that_were_appended_while_a_fetch_was_answered_are_fetched_again(pool: Pool) -> None:
    # A broker reads the high watermark before the records.
    numbers = itertools.count()
    with served() as server:
        altered(server, lambda _: {} if next(numbers) else {"high_watermark": 5})
        assert rows(fetcher_of(server.bootstrap_servers, pool, 0, 12)) == ROWS
    with served() as server:
        altered(server, lambda _: {"high_watermark": 5})
        with pytest.raises(
            BrokerError,
            match=r"^gave up after 4 .*t 0 at offset 5 on .*no record below offset 12, .*broker reports 5",
        ):
            values(fetcher_of(server.bootstrap_servers, pool, 0, 12))


@pytest.mark.parametrize(
    "change",
    [
        {"high_watermark": -1},
        {"high_watermark": 13},
        {"high_watermark": 11},
        {"last_stable_offset": -1},
        {"last_stable_offset": 13},
        {"last_stable_offset": 5},
        {"log_start_offset": -1},
        # Of a partition that begins inside of a batch, where DeleteRecords has cut it.
        {"log_start_offset": 3},
    ],
    ids=str,
)
def test_responses_that_brokers_send_are_read(pool: Pool, change: Change) -> None:
    with served() as server:
        altered(server, lambda _: dict(change))
        start = max(change.get("log_start_offset", 0), 0)
        assert rows(fetcher_of(server.bootstrap_servers, pool, start, 12)) == ROWS[start:]


def test_committed_records_end_at_the_last_stable_offset_of_their_own_response(pool: Pool) -> None:
    with served() as server:
        altered(server, lambda _: {"last_stable_offset": 5})
        assert rows(fetcher_of(server.bootstrap_servers, pool, 0, 5, COMMITTED)) == ROWS[:5]
        altered(server, lambda _: {"records": TWO + at(8, SECOND), "last_stable_offset": 8})
        with pytest.raises(Contradiction, match=r"a batch of offsets 8 to 14, .* ends at offset 8; compare"):
            rows(fetcher_of(server.bootstrap_servers, pool, 0, 8, COMMITTED))


def test_a_batch_behind_the_range_proves_its_end_where_the_log_has_it(pool: Pool) -> None:
    def compacted(asked: FetchPartition) -> Change:
        return {
            "records": at(20, SECOND) if asked.fetch_offset else TWO + at(20, SECOND),
            "high_watermark": 27,
        }

    with served("compact") as server:
        altered(server, compacted)
        list_offsets_as(server, {LATEST_TIMESTAMP: 27})
        assert rows(fetcher_of(server.bootstrap_servers, pool, 0, 12)) == ROWS[:5]
        assert server.requests.count(modern.DESCRIBE_CONFIGS) == 1


# --- gaps inside of the data ---


def gappy(*ranges: tuple[int, range]) -> Callable[[FetchPartition], Change]:
    """Responses with these batches, of a partition that ends at 1000."""
    batches = [at(*item) for item in ranges]
    stops = [first + len(numbers) for first, numbers in ranges]

    def change(asked: FetchPartition) -> Change:
        left = [item for item, stop in zip(batches, stops, strict=True) if stop > asked.fetch_offset]
        return {"records": b"".join(left), "high_watermark": 1000}

    return change


def test_a_gap_inside_the_data_of_a_topic_that_is_not_compacted_is_reported_once(
    pool: Pool, caplog: pytest.LogCaptureFixture
) -> None:
    starts = range(0, 100, 10)
    with served() as server, caplog.at_level(logging.WARNING, "spark_kafkawire"):
        altered(server, gappy(*((start, range(7)) for start in starts)))
        list_offsets_as(server, {LATEST_TIMESTAMP: 1000})
        result = rows(fetcher_of(server.bootstrap_servers, pool, 0, 97))
        asked = server.requests.count(modern.DESCRIBE_CONFIGS), server.requests.count(modern.FETCH)
    assert [offset for offset, _ in result] == [start + i for start in starts for i in range(7)]
    [warning] = caplog.messages
    assert warning.startswith(
        f"t 0 [0, 97) on broker 0 (127.0.0.1:{server.port}): the log has gaps, 27 of its offsets are "
        "missing: [7, 10), [17, 20), [27, 30), [37, 40), [47, 50) and 4 more; cleanup.policy is delete"
    )
    # The policy once, and the response once more.
    assert asked == (1, 2)


def test_a_gap_of_a_compacted_topic_is_no_news(pool: Pool, caplog: pytest.LogCaptureFixture) -> None:
    with served("compact,delete") as server, caplog.at_level(logging.WARNING, "spark_kafkawire"):
        altered(server, gappy((0, range(5)), (7, range(5))))
        assert len(rows(fetcher_of(server.bootstrap_servers, pool, 0, 12))) == 10
        assert server.requests.count(modern.DESCRIBE_CONFIGS) == 1
        assert server.requests.count(modern.FETCH) == 1
    assert caplog.text == ""


def test_ignore_a_gap_that_the_next_fetch_does_not_show(pool: Pool, caplog: pytest.LogCaptureFixture) -> None:
    numbers = itertools.count()
    with served() as server, caplog.at_level(logging.WARNING, "spark_kafkawire"):
        altered(server, lambda _: {} if next(numbers) else {"records": at(5, SECOND)})
        assert rows(fetcher_of(server.bootstrap_servers, pool, 0, 12)) == ROWS
    assert caplog.text == ""


def test_gaps_that_are_elsewhere_each_time_end_the_read(pool: Pool) -> None:
    numbers = itertools.count()
    with served() as server:
        altered(server, lambda _: {"records": TWO + at(6 + next(numbers), range(1)), "high_watermark": 1000})
        with pytest.raises(
            Contradiction,
            match=r"^gave up after 4 attempts .*: t 0 at offset 0 on broker 0 .*: Fetch returned nothing at "
            r"the offsets 5 to 8, but batches after them, and another fetch shows other "
            r"offsets; cleanup.policy is delete",
        ):
            rows(fetcher_of(server.bootstrap_servers, pool, 0, 12))


def test_a_gap_of_an_unknown_policy_is_reported_with_why(
    pool: Pool, caplog: pytest.LogCaptureFixture
) -> None:
    with served("compact") as server, caplog.at_level(logging.WARNING, "spark_kafkawire"):
        server.broker.alter(ResourceConfigs, lambda honest, _: replace(honest, error_code=29, configs=()))
        altered(server, gappy((0, range(5)), (7, range(5))))
        assert len(rows(fetcher_of(server.bootstrap_servers, pool, 0, 12))) == 10
    [warning] = caplog.messages
    assert "2 of its offsets are missing: [5, 7); cleanup.policy, which might explain it, is not " in warning


def test_plain_messages_of_old_formats_have_gaps_too(pool: Pool, caplog: pytest.LogCaptureFixture) -> None:
    log = [message(offset, b"%d" % offset, magic=0) for offset in (0, 1, 4, 5)]
    with served() as server, caplog.at_level(logging.WARNING, "spark_kafkawire"):
        altered(server, lambda _: {"records": b"".join(log)})
        assert [offset for offset, _ in rows(fetcher_of(server.bootstrap_servers, pool, 0, 6))] == [
            0,
            1,
            4,
            5,
        ]
    [warning] = caplog.messages
    assert "2 of its offsets are missing: [2, 4); " in warning


# --- transactions ---


def transactional(base_offset: int, value: bytes, producer_id: int = 1) -> bytes:
    return batch(
        [record(0, value)], base_offset, attributes=TRANSACTIONAL, producer=(producer_id, 0, base_offset)
    )


#: A transaction of producer 1 that is aborted, and one of producer 2 that is committed.
TRANSACTIONS = [
    transactional(0, b"a"),
    transactional(1, b"b", 2),
    transactional(2, b"c"),
    marker(3, 1, 0),
    marker(4, 2, 1),
    at(5, range(5, 6)),
]
ABORTED = AbortedTransaction(producer_id=1, first_offset=0)


def in_responses(*responses: tuple[int, list[AbortedTransaction]]) -> Callable[[FetchPartition], Change]:
    """Responses of so many batches, and what each of them calls aborted."""
    left = iter(responses)
    batches = iter(TRANSACTIONS)

    def change(_: FetchPartition) -> Change:
        count, aborted = next(left)
        records = b"".join(itertools.islice(batches, count))
        return {
            "records": records,
            "high_watermark": 6,
            "last_stable_offset": 6,
            "aborted_transactions": tuple(aborted),
        }

    return change


@pytest.mark.parametrize(
    "responses",
    [
        [(6, [ABORTED])],
        # Brokers list transactions up to the next entry of an index, and those that reach into a response.
        [(6, [ABORTED, AbortedTransaction(producer_id=1, first_offset=9)])],
        [(1, [ABORTED]), (5, [ABORTED])],
        [(3, [ABORTED]), (1, [ABORTED]), (2, [])],
    ],
    ids=str,
)
def test_transactions_that_several_responses_bring_are_read(
    pool: Pool, responses: list[tuple[int, list[AbortedTransaction]]]
) -> None:
    with served() as server:
        altered(server, in_responses(*responses))
        assert values(fetcher_of(server.bootstrap_servers, pool, 0, 6, COMMITTED)) == [b"b", b"5"]


ONE_ABORTS = "batch at offset 3 is damaged: it aborts the transaction of producer 1, which no response calls"
TWO_COMMITS = "batch at offset 4 is damaged: it commits the transaction of producer 2, which the response"


@pytest.mark.parametrize(
    ("responses", "message"),
    [
        ([(6, [])], ONE_ABORTS),
        ([(3, []), (3, [])], ONE_ABORTS),
        ([(6, [replace(ABORTED, producer_id=7)])], ONE_ABORTS),
        ([(6, [replace(ABORTED, first_offset=4)])], ONE_ABORTS),
        ([(6, [replace(ABORTED, first_offset=1)])],
         "batch at offset 1 is damaged: the response calls the transaction of producer 1 aborted from "
         "offset 1 on, and it began before that"),
        ([(1, []), (5, [ABORTED])],
         "batch at offset 1 is damaged: the response calls the transaction of producer 1 aborted from "),
        ([(6, [ABORTED, replace(ABORTED, producer_id=2)])], TWO_COMMITS),
        ([(4, [ABORTED, replace(ABORTED, producer_id=2)]), (2, [])], TWO_COMMITS),
        ([(1, [ABORTED]), (5, [])],
         "batch at offset 2 is damaged: an earlier response called its transaction, of producer 1, "
         "aborted"),
    ],
    ids=str,
)  # fmt: skip
def test_what_responses_call_aborted_must_agree_with_the_markers_of_the_log(
    pool: Pool, responses: list[tuple[int, list[AbortedTransaction]]], message: str
) -> None:
    with served() as server:
        altered(server, in_responses(*responses))
        with pytest.raises(CorruptDataError, match=rf"^{PARTITION} on broker 0 .*: {message}"):
            values(fetcher_of(server.bootstrap_servers, pool, 0, 6, COMMITTED))


def test_markers_and_batches_that_compaction_emptied_are_of_no_transaction(pool: Pool) -> None:
    emptied = batch([], 0, attributes=TRANSACTIONAL, producer=(1, 0, 0), last_delta=0)
    emptied_marker = batch([], 2, attributes=TRANSACTIONAL | 32, producer=(2, 0, -1), last_delta=0)
    log = emptied + transactional(1, b"b", 2) + emptied_marker + marker(3, 1, 0) + transactional(4, b"e", 2)
    log += marker(5, 2, 0)
    with served("compact") as server:
        altered(
            server,
            lambda _: {
                "records": log,
                "last_stable_offset": 6,
                "aborted_transactions": (AbortedTransaction(producer_id=2, first_offset=4),),
            },
        )
        assert values(fetcher_of(server.bootstrap_servers, pool, 0, 6, COMMITTED)) == [b"b"]


def test_retry_after_a_response_without_the_partition(served: LogServer, pool: Pool) -> None:
    served.broker.answer_with(fetch.FetchRequest, lambda _: fetch.FetchResponse(responses=()))
    with pytest.raises(ProtocolError, match=" 0, which was requested, and contains nothing"):
        values(fetcher_of(served.bootstrap_servers, pool))


def test_an_answer_about_something_else_ends_the_read(served: LogServer, pool: Pool) -> None:
    altered(served, lambda _: {"partition_index": 7})
    with pytest.raises(
        ProtocolError, match=r"t 0 at offset 0: broker 0 .*: it contains [0-9a-f-]{36} 7, but "
    ):
        values(fetcher_of(served.bootstrap_servers, pool))


def test_what_a_fetch_brings_from_before_its_offset_is_left_out(log: MemoryLog, pool: Pool) -> None:
    class EarlyLog(MemoryLog):
        def read(self, offset: int, size_max: int) -> bytes:
            return bytes(log.read(max(offset - 10, 0), size_max))

    early = EarlyLog()
    early.stop_offset = log.stop_offset
    with LogServer({"t": [early]}) as server:
        assert rows(fetcher_of(server.bootstrap_servers, pool)) == list(enumerate(VALUES))
