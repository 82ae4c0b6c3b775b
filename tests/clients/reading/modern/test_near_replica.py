"""Reads from the nearest replica (KIP-392): followers that serve, lag, fail or lie, and the leader's word."""

from __future__ import annotations

import itertools
import logging
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

import pytest

from spark_kafkawire.clients.reading.modern import near_replica
from spark_kafkawire.errors import BrokerError
from spark_kafkawire.net.client_rack import ClientRack
from spark_kafkawire.net.pool import Pool
from spark_kafkawire.options import BadRecords, FetchOptions
from spark_kafkawire.protocol import modern
from spark_kafkawire.protocol.api import VersionRange
from spark_kafkawire.protocol.modern import fetch
from spark_kafkawire.protocol.modern.error_codes import ErrorCode as Code
from spark_kafkawire.protocol.modern.limits import READ_COMMITTED
from tests.records.batches import TRANSACTIONAL, batch, marker, record
from tests.support.cases import for_each
from tests.support.fetching import (
    COUNT,
    ERRORS,
    SMALL,
    VALUES,
    CompactedLog,
    altered,
    cluster_of,
    fetcher_of,
    names,
    replicas,
    rows,
    throttling,
)
from tests.support.log_server import LogServer, Sent
from tests.support.memory_log import MemoryLog
from tests.support.mock_cluster import FETCH, MockCluster
from tests.support.polling import poll

NEAR: Final = replace(SMALL, rack=ClientRack("text", "near"))
ALL: Final = list(enumerate(VALUES))


@pytest.fixture
def near(written: MockCluster) -> MockCluster:
    """Broker 1 leads, and names broker 2 to consumers."""
    written.set_rack(2, "near")
    written.set_follower("t", 0, 2)
    written.start_request_tracking()
    return written


def fetches(cluster: MockCluster) -> Counter[int]:
    result = Counter(item.broker_id for item in cluster.requests() if item.api_key == FETCH)
    cluster.clear_requests()
    return result


def test_a_follower_in_the_rack_serves_all_but_the_first_fetch(near: MockCluster, pool: Pool) -> None:
    assert rows(fetcher_of(near.bootstrap_servers, pool, options=NEAR)) == ALL
    result = fetches(near)
    assert (result[1], result[3]) == (1, 0)
    assert result[2] > 10
    assert rows(fetcher_of(near.bootstrap_servers, pool, 1000, options=NEAR)) == ALL[1000:]
    assert set(fetches(near)) == {2}, "the next task of a process knows the follower"
    assert cluster_of(near.bootstrap_servers, pool).racks() == {"near"}


@pytest.mark.slow
@for_each("error", ERRORS.values(), ids=ERRORS)
def test_an_error_of_a_follower_that_passes_costs_nothing_but_time(
    near: MockCluster, pool: Pool, error: int
) -> None:
    """Also where the leader insists on its follower: this one names it to clients without a rack, too."""
    near.clear_requests()
    near.push_broker_errors(2, FETCH, (0, 0), (0, 0), (error, 0))
    assert rows(fetcher_of(near.bootstrap_servers, pool, options=NEAR)) == ALL
    assert fetches(near)[1] == 2


def test_a_leader_that_insists_on_a_follower_that_fails_ends_the_read(near: MockCluster, pool: Pool) -> None:
    near.set_broker_down(2)
    with pytest.raises(BrokerError, match=r"gave up after 4 attempts .* names replica 2 in its place"):
        rows(fetcher_of(near.bootstrap_servers, pool, options=NEAR))


def test_a_dead_leader_is_not_missed_while_its_follower_serves(near: MockCluster, pool: Pool) -> None:
    columns = fetcher_of(near.bootstrap_servers, pool, options=NEAR).columns()
    result = [next(columns).offset.tolist()]
    near.set_broker_down(1)
    result += [item.offset.tolist() for item in columns]
    assert [offset for item in result for offset in item] == list(range(COUNT))
    assert fetches(near)[2] > 10


# Two brokers of which a test alters each.


def damaged(server: LogServer) -> None:
    """A byte of each batch's records is another one on its way."""

    def fetched(honest: fetch.FetchResponse, _: fetch.FetchRequest) -> fetch.FetchResponse:
        [topic] = honest.responses
        [part] = topic.partitions
        records = bytearray(part.records or b"")
        records[-3] ^= 1
        return replace(
            honest, responses=(replace(topic, partitions=(replace(part, records=bytes(records)),)),)
        )

    server.broker.alter(fetch.FetchRequest, fetched)


def answers(**changes: Any) -> Callable[[LogServer], None]:
    return lambda server: altered(server, lambda asked: changes if asked.fetch_offset else {})


def lags(server: LogServer) -> None:
    """It has half of the log."""
    altered(
        server, lambda asked: {"records": b"", "high_watermark": 1000} if asked.fetch_offset > 999 else {}
    )


LIES: Final[Mapping[str, Callable[[LogServer], None]]] = {
    "it has nothing there": answers(records=b""),
    "it lags": lags,
    "it has half a batch": answers(records=bytes(50)),
    "the offset is out of range": answers(error_code=Code.OFFSET_OUT_OF_RANGE, records=b""),
    "the offset is not there yet": answers(error_code=Code.OFFSET_NOT_AVAILABLE, records=b""),
    "the topic is unknown": answers(error_code=Code.UNKNOWN_TOPIC_OR_PARTITION, records=b""),
    "the user may not read it": answers(error_code=Code.TOPIC_AUTHORIZATION_FAILED, records=b""),
    "the log starts later": answers(log_start_offset=COUNT),
    "the log ends earlier": answers(high_watermark=3),
    "another replica is nearer": answers(preferred_read_replica=3, records=b""),
    "its bytes are damaged": damaged,
    "it hangs up": lambda server: setattr(server, "lie", lambda *_: Sent(b"", "close")),
    "it sends noise": lambda server: setattr(server, "lie", lambda *_: Sent(b"\x7f" * 40, "close")),
}


@pytest.mark.parametrize("bad_records", [BadRecords.FAIL, BadRecords.DROP])
@for_each("lie", LIES.values(), ids=LIES)
def test_a_follower_proves_no_gap_no_end_no_loss_and_no_damage(
    log: MemoryLog,
    pool: Pool,
    caplog: pytest.LogCaptureFixture,
    bad_records: BadRecords,
    lie: Callable[[LogServer], None],
) -> None:
    options = replace(NEAR, bad_records=bad_records, fail_on_data_loss=bad_records is BadRecords.FAIL)
    with replicas(log) as (leader, follower), caplog.at_level(logging.WARNING, "spark_kafkawire"):
        lie(follower)
        assert rows(fetcher_of(leader.bootstrap_servers, pool, options=options)) == ALL
        assert follower.requests
    assert caplog.text == ""


@for_each("whole", ["leader", "follower", "none"])
def test_a_gap_of_a_compacted_follower_is_asked_of_the_leader(log: MemoryLog, pool: Pool, whole: str) -> None:
    leaders, followers = (log if whole == name else CompactedLog(log) for name in ("leader", "follower"))
    with replicas(leaders, followers) as (leader, follower):
        leader.broker.configs["t"] = {"cleanup.policy": "compact"}
        result = rows(fetcher_of(leader.bootstrap_servers, pool, stop=1400, options=NEAR))
        is_kept = [whole != "none" or offset % 14 < 7 for offset in range(1400)]
        assert result == list(itertools.compress(ALL, is_kept))
        assert modern.FETCH in follower.requests


def test_a_follower_is_no_witness_of_the_end_of_a_compacted_log(log: MemoryLog, pool: Pool) -> None:
    with replicas(CompactedLog(log)) as (leader, follower):
        leader.broker.configs["t"] = {"cleanup.policy": "compact"}
        asked = leader.broker.alter(fetch.FetchRequest, lambda honest, _: honest)
        for options in (SMALL, NEAR):
            assert rows(fetcher_of(leader.bootstrap_servers, pool, 1995, options=options)) == []
        alone, near = asked[: len(asked) // 2], asked[len(asked) // 2 :]
        assert [item.rack_id for item in near] == ["near", *("" for _ in alone)]
        assert follower.requests.count(modern.FETCH) == 1


def test_aborted_transactions_are_asked_of_the_leader(pool: Pool) -> None:
    """The marker, which would contradict the lie, is after the range and its responses."""
    parts = [
        batch([record(0, b"%d" % at)], at, attributes=TRANSACTIONAL, producer=(1, 0, at)) for at in range(9)
    ]
    options = replace(NEAR, isolation_level=READ_COMMITTED, fetch_bytes=1)
    with replicas(MemoryLog(*parts, marker(9, 1, 1))) as (leader, follower):
        aborted = fetch.AbortedTransaction(producer_id=1, first_offset=0)
        altered(follower, lambda _: {"aborted_transactions": (aborted,)})
        result = rows(fetcher_of(leader.bootstrap_servers, pool, stop=9, options=options))
        assert [value for _, value in result] == [b"%d" % at for at in range(9)]
        assert modern.FETCH in follower.requests


@for_each(("throttles", "is_left"), [([1, 0] * COUNT, False), ([1] * COUNT, True)])
def test_a_follower_whose_quota_is_used_up_is_waited_for_as_the_leader_would_be(
    log: MemoryLog, pool: Pool, throttles: list[int], is_left: bool
) -> None:
    with replicas(log) as (leader, follower):
        throttling(follower, iter(throttles))
        assert rows(fetcher_of(leader.bootstrap_servers, pool, options=NEAR)) == ALL
        assert (leader.requests.count(modern.FETCH) > 1) == is_left


def test_a_follower_that_failed_is_not_kept_for_the_next_task(log: MemoryLog, pool: Pool) -> None:
    with replicas(log) as (leader, follower):
        asked = leader.broker.alter(fetch.FetchRequest, lambda honest, _: honest)
        answers(records=b"")(follower)
        for _ in range(2):
            assert rows(fetcher_of(leader.bootstrap_servers, pool, options=NEAR)) == ALL
        assert [item.rack_id for item in asked if item.rack_id] == ["near"] * 2


def test_a_follower_that_is_not_reached_is_left_by_all_tasks(
    log: MemoryLog, pool: Pool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with replicas(log) as (leader, follower):
        follower.close()
        for _ in range(2):
            assert rows(fetcher_of(leader.bootstrap_servers, pool, options=NEAR)) == ALL
    assert caplog.text.count("reading from the leader") == 1


def test_a_replica_that_is_not_there_is_not_looked_for_again(log: MemoryLog, pool: Pool) -> None:
    with replicas(log) as (leader, follower):
        for absent in (99, 0):  # broker 0 is the leader itself
            names(leader, absent)
            assert rows(fetcher_of(leader.bootstrap_servers, pool, options=NEAR)) == ALL
        asked = leader.broker.alter(fetch.FetchRequest, lambda honest, _: honest)
        assert rows(fetcher_of(leader.bootstrap_servers, pool, options=NEAR)) == ALL
        assert [item.rack_id for item in asked[:2]] == ["near", ""]
        assert follower.requests == []


def test_the_leader_is_asked_again_after_some_time(
    log: MemoryLog, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(near_replica, "FOLLOWED_S", 0.2)
    with replicas(log) as (leader, _):
        fetcher = fetcher_of(leader.bootstrap_servers, pool, options=NEAR)
        columns = fetcher.columns()
        result = [next(columns).offset.tolist()]
        asked = leader.broker.alter(fetch.FetchRequest, lambda honest, _: honest)
        near = fetcher._connection.near
        assert near is not None
        poll(lambda: near.is_over, "the end of that time")
        result += [item.offset.tolist() for item in columns]
        assert [offset for item in result for offset in item] == list(range(COUNT))
        assert {item.rack_id for item in asked} == {"near"}


def test_a_leader_that_knows_no_racks_serves_and_is_reported_of_once(
    log: MemoryLog, pool: Pool, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        replicas(log, versions=VersionRange(0, 10)) as (leader, follower),
        caplog.at_level(logging.WARNING, "spark_kafkawire"),
    ):
        for _ in range(2):
            assert rows(fetcher_of(leader.bootstrap_servers, pool, options=NEAR)) == ALL
        assert follower.requests == []
    assert caplog.text.count("is older than Kafka 2.4 and names no followers") == 1


def test_a_rack_that_is_not_found_leaves_the_leader(
    log: MemoryLog, pool: Pool, caplog: pytest.LogCaptureFixture
) -> None:
    options = FetchOptions(rack=ClientRack("env", "NO_SUCH_VARIABLE"))
    with replicas(log) as (leader, follower), caplog.at_level(logging.WARNING, "spark_kafkawire"):
        for _ in range(2):
            assert rows(fetcher_of(leader.bootstrap_servers, pool, options=options)) == ALL
        assert follower.requests == []
    assert caplog.text.count("clientRack=env:NO_SUCH_VARIABLE: the rack is not known") == 1
