"""Leaders that refuse, move, die, or are slow."""

from __future__ import annotations

import itertools
import threading
from dataclasses import replace

import pytest

from spark_kafkawire.errors import BrokerError, KafkaWireError, RequestTimedOut
from spark_kafkawire.net.pool import Pool
from tests.support.fetching import COUNT, ERRORS, SMALL, VALUES, fetcher_of, rows, throttling, values
from tests.support.log_server import LogServer
from tests.support.mock_cluster import DISCONNECT, FETCH, MockCluster
from tests.support.settings import net_modern


def test_a_quota_makes_a_read_wait_on_its_connection(served: LogServer, pool: Pool) -> None:
    came = throttling(served, itertools.cycle([300, 0]))
    assert values(fetcher_of(served.bootstrap_servers, pool, stop=7)) == VALUES[:7]
    assert came[1] - came[0] >= 0.3
    assert served.connection_count == 2  # the bootstrap server's and the leader's


def test_a_quota_that_stays_used_up_ends_a_read_with_its_name(served: LogServer, pool: Pool) -> None:
    throttling(served, itertools.repeat(1))
    with pytest.raises(
        BrokerError, match=r"^gave up after 4 .* throttles this client for another 0.001 s: a quota"
    ):
        values(fetcher_of(served.bootstrap_servers, pool))


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
    options = replace(SMALL, retry_timeout_s=20.0)
    assert values(fetcher_of(written.bootstrap_servers, pool, options=options)) == VALUES
    written.push_request_errors(FETCH, *[DISCONNECT, 6] * 5)
    with pytest.raises(KafkaWireError, match=r"^gave up after 4 attempts"):
        values(fetcher_of(written.bootstrap_servers, pool))


def test_a_leader_that_is_away_for_longer_than_the_retries_is_waited_for(
    written: MockCluster, pool: Pool
) -> None:
    columns = fetcher_of(
        written.bootstrap_servers, pool, options=replace(SMALL, retry_timeout_s=20.0)
    ).columns()
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
