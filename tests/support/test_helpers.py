"""Tests of helpers whose silence would make other tests pass: what they show, other clients see."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import psutil
import pytest
from confluent_kafka import KafkaError, KafkaException

from spark_kafkawire.errors import ConnectFailed
from spark_kafkawire.protocol import modern
from spark_kafkawire.protocol.api import VersionRange
from tests.support import kafka_python, librdkafka
from tests.support import mock_cluster as mock
from tests.support.cases import for_each
from tests.support.foreign import CODECS, Record, values
from tests.support.log_broker import OFFERED
from tests.support.log_server import LogServer, Sent
from tests.support.memory_log import MemoryLog
from tests.support.mock_cluster import MockCluster, TrackedRequest
from tests.support.noida import NoidaBroker
from tests.support.pages import ROOT
from tests.support.polling import poll
from tests.support.schedule import schedule

FILE = """
import pytest
from hypothesis import given, strategies as st
from spark_kafkawire import secrecy
from tests.support.cases import for_each

@for_each("a", [1, 2], ids=["one", "two"])
@for_each(("b", "c"), [(1, 2), pytest.param(3, 4, id="late")])
@pytest.mark.parametrize("way", "xy")
def test_all_combinations(a, b, c, way, tmp_path):
    assert (a, b, way) != (2, 3, "y")

@for_each("number", [0, 50])
@given(drawn=st.integers(0, 9))
def test_drawn(number, drawn):
    assert number + drawn < 20

@for_each("number", [1])
def test_skip(number):
    pytest.skip("not here")

@for_each("number", [1, 2])
@pytest.mark.timeout(1)
def test_late(number):
    while number:
        pass

@for_each("number", [1, 2])
def test_forgets(number):
    assert secrecy.without_secrets("a word of secrets") == "a word of secrets"
    secrecy.keep_secret("word of secrets")
"""


@pytest.mark.slow
def test_a_failure_names_its_case_and_fails_its_item(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_it.py").write_text(FILE)
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-n1", "-rfs", "test_it.py"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": "300"},
        capture_output=True,
        text=True,
    )
    lines = [line for line in run.stdout.splitlines() if line.startswith(("SUBFAILED", "FAILED"))]
    for name, case, summary in (
        ("test_all_combinations[y]", "late, two", "1 of 4 cases: late, two"),
        ("test_drawn", "number=50", "1 of 2 cases: number=50"),
        ("test_skip", "number=1", "1 of 1 cases: number=1"),
        # The timeout is that of the item: the second case does not begin.
        ("test_late", "number=1", "1 of 2 cases: number=1"),
    ):
        failures = [line for line in lines if f" test_it.py::{name} - " in line]
        begins = [line.partition(" test_it.py")[0] for line in failures]
        assert begins == [f"SUBFAILED[{case}]", "FAILED"], run.stdout
        assert failures[1].endswith(f"Failed: {summary}")
    assert (len(lines), run.returncode) == (8, 1), run.stdout
    assert "parametrize it" in run.stdout
    assert "drawn=0" in run.stdout


def test_cases_are_those_of_their_test() -> None:
    def test(number: int) -> None:
        raise AssertionError(number)

    for names, given, error in (
        ("number", [], "no cases of"),
        ("number", [pytest.param(1, marks=pytest.mark.slow)], "with marks"),
        ("number, other", [(1, 2)], "lacks an argument"),
        ("number, other", [(1,)], "shorter"),
    ):
        with pytest.raises(ValueError, match=error):
            for_each(names, given)(test)


def test_each_part_begins_with_long_ones_and_keeps_the_order_of_the_rest() -> None:
    assert schedule("abCdeFgHij", str.isupper, 3) == [*"Cab", *"Fde", *"Hgij"]
    for processes in (1, 2, 7):
        assert sorted(schedule(range(20), lambda number: number % 3 == 0, processes)) == [*range(20)]


# --- librdkafka's mock cluster ---

RECORDS: Final = [Record(b"%d" % number) for number in range(100)]
QUICK: Final[dict[str, Any]] = {
    "retry_backoff_ms": 1,
    "reconnect_backoff_ms": 1,
    "topic_metadata_refresh_fast_interval_ms": 10,
}


def test_pushed_errors_are_answered_one_request_each(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("t", partitions=2)
    servers = mock_cluster.bootstrap_servers
    mock_cluster.start_request_tracking()
    mock_cluster.push_request_errors(mock.PRODUCE, KafkaError.NOT_LEADER_FOR_PARTITION, 0, mock.DISCONNECT)
    for _ in range(2):
        librdkafka.produce(servers, "t", [Record(b"", partition=0)], **QUICK)
    assert [request.api_key for request in mock_cluster.requests()].count(mock.PRODUCE) == 4
    assert len(librdkafka.consume(servers, "t")) == 2
    for partition in (0, 1):
        mock_cluster.set_leader("t", partition, 1 + partition)
    mock_cluster.push_broker_errors(1, mock.PRODUCE, (KafkaError.TOPIC_AUTHORIZATION_FAILED, 1))
    librdkafka.produce(servers, "t", [Record(b"", partition=1)])
    with pytest.raises(KafkaException, match="TOPIC_AUTHORIZATION_FAILED"):
        librdkafka.produce(servers, "t", [Record(b"", partition=0)])


@pytest.mark.slow
def test_a_moved_leader_is_followed_and_one_that_is_named_may_be_a_lie(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("t")
    for broker_id in (2, 1):
        mock_cluster.set_leader("t", 0, broker_id)
        mock_cluster.start_request_tracking()
        librdkafka.produce(mock_cluster.bootstrap_servers, "t", RECORDS)
        assert TrackedRequest(broker_id, mock.PRODUCE) in mock_cluster.requests()
        mock_cluster.clear_requests()
    # librdkafka asks more than once before it sends anything.
    for _ in range(4):
        mock_cluster.push_leader_response("t", 0, 2, 0)
    librdkafka.produce(mock_cluster.bootstrap_servers, "t", RECORDS, **QUICK)
    assert {TrackedRequest(number, mock.PRODUCE) for number in (1, 2)} <= {*mock_cluster.requests()}


@pytest.mark.slow
def test_a_broker_that_is_down_or_slow_answers_nothing_in_time(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("t")
    mock_cluster.set_leader("t", 0, 2)
    mock_cluster.set_broker_down(2)
    for _ in range(2):
        with pytest.raises(KafkaException, match="TIMED_OUT"):
            librdkafka.produce(mock_cluster.bootstrap_servers, "t", RECORDS, message_timeout_ms=300, **QUICK)
        mock_cluster.set_broker_up(2)
        mock_cluster.set_broker_rtt(mock.ALL_BROKERS, 1000)
    mock_cluster.set_broker_rtt(mock.ALL_BROKERS, 0)
    librdkafka.produce(mock_cluster.bootstrap_servers, "t", RECORDS)
    with pytest.raises(AssertionError, match="broker_set_down"):
        mock_cluster.set_broker_down(77)


def test_deleted_records_of_a_mock_cluster_are_out_of_range(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("t")
    servers = mock_cluster.bootstrap_servers
    # A partition is deleted by whole batches: one each.
    for record in RECORDS[:5]:
        librdkafka.produce(servers, "t", [record])
    mock_cluster.delete_records("t", 0, 2)
    assert librdkafka.offsets(servers, "t") == (2, 5)


# --- noida-db ---

STAMP_MS = int(time.time() * 1000) - 60_000
WRITTEN = [
    Record(b"value", b"key", (("a", b"1"), ("\N{SNOWMAN}", b"")), STAMP_MS),
    Record(None, b"tombstone", (), STAMP_MS + 1),
    Record(b"", None, (), STAMP_MS + 2),
    *(Record(b"%d" % number * 50, None, (), STAMP_MS + 3) for number in range(50)),
]
READ_BACK = [
    Record(sent.value, sent.key, sent.headers, sent.timestamp_ms, 0, offset, 0)
    for offset, sent in enumerate(WRITTEN)
]


@pytest.mark.slow
@for_each("compression", CODECS)
def test_clients_read_what_others_wrote(noida: NoidaBroker, compression: str) -> None:
    servers = noida.bootstrap_servers
    is_known_to_both = compression in kafka_python.CODECS
    for client in (librdkafka, kafka_python) if is_known_to_both else (librdkafka,):
        topic = noida.create_topic()
        client.produce(servers, topic, WRITTEN, compression)
        assert librdkafka.consume(servers, topic) == READ_BACK
        if is_known_to_both:
            assert kafka_python.consume(servers, topic) == READ_BACK


def test_a_committed_reader_sees_what_was_committed(noida: NoidaBroker) -> None:
    topic, servers = noida.create_topic(), noida.bootstrap_servers
    librdkafka.abort(servers, topic, [Record(b"aborted")])
    librdkafka.commit(servers, topic, [Record(b"committed")])
    with librdkafka.transaction(servers, topic, [Record(b"open")], outcome="open"):
        librdkafka.produce(servers, topic, [Record(b"after")])
        assert values(librdkafka.consume(servers, topic)) == [b"aborted", b"committed", b"open", b"after"]
        for consume in (librdkafka.consume, kafka_python.consume):
            assert values(consume(servers, topic, isolation_level="read_committed")) == [b"committed"]


def test_a_restarted_broker_has_its_port_and_its_data_and_a_closed_one_leaves_nothing() -> None:
    with NoidaBroker() as broker:
        topic, servers = broker.create_topic(), broker.bootstrap_servers
        librdkafka.produce(servers, topic, WRITTEN)
        broker.stop()
        broker.start()
        assert broker.bootstrap_servers == servers
        assert librdkafka.consume(servers, topic) == READ_BACK
        assert broker._folder is not None
        process, folder = psutil.Process(broker.pid), broker._folder.name
    poll(lambda: not process.is_running(), "noida-db's end")
    assert not Path(folder).exists()


def test_a_broker_that_cannot_start_is_an_error_with_its_reason(noida: NoidaBroker) -> None:
    with NoidaBroker() as second:
        second.stop()
        second.port = noida.port
        with pytest.raises(ConnectFailed, match="already in use"):
            second.start()


# --- LogServer ---

#: What a Kafka 1.0 broker offers, in short.
OLD = {**OFFERED, modern.FETCH.key: VersionRange(0, 6), modern.METADATA.key: VersionRange(0, 5)}


@pytest.mark.slow
@for_each("offered", [OFFERED, OLD], ids=["new", "old"])
@for_each("client", [librdkafka, kafka_python], ids=["librdkafka", "kafka-python"])
def test_clients_take_a_log_server_for_a_broker(client: Any, offered: dict[int, VersionRange]) -> None:
    with LogServer({"t": [MemoryLog(), MemoryLog()]}, offered=offered) as server:
        records = [Record(b"%d" % number * 100, partition=number % 2) for number in range(200)]
        client.produce(server.bootstrap_servers, "t", records)
        for partition in (0, 1):
            result = client.consume(server.bootstrap_servers, "t", partition)
            assert values(result) == values(records[partition::2])
            assert [item.offset for item in result] == list(range(100))


@for_each(
    ("lie", "last"),
    [
        (
            lambda api, frame: Sent(frame[:9], "close") if api is modern.PRODUCE else Sent(frame),
            modern.PRODUCE,
        ),
        (lambda _api, _frame: Sent(b"", "be silent"), modern.API_VERSIONS),
    ],
)
def test_a_lie_is_sent_instead_of_the_response(lie: Callable[[Any, bytes], Sent], last: Any) -> None:
    with LogServer({"t": [MemoryLog()]}, lie=lie) as server:
        with pytest.raises(KafkaException, match="MSG_TIMED_OUT"):
            librdkafka.produce(server.bootstrap_servers, "t", RECORDS[:1], message_timeout_ms=300)
        assert server.requests[-1] is last or last in server.requests
