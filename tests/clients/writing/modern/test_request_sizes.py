"""Requests that brokers close the connection on for their size, and answers of brokers that throttle."""

from __future__ import annotations

import itertools
import logging
import random
import socket
import struct
import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pytest

from spark_kafkawire.errors import DeliveryError
from spark_kafkawire.model import TopicPartition
from spark_kafkawire.protocol import modern
from spark_kafkawire.protocol.modern.error_codes import ErrorCode
from tests.support import librdkafka
from tests.support import mock_cluster as mock
from tests.support.foreign import CODECS, values
from tests.support.log_server import LogServer
from tests.support.memory_log import MemoryLog, split
from tests.support.mock_cluster import MockCluster
from tests.support.noida import NoidaBroker
from tests.support.polling import GRACE_S
from tests.support.producing import FINE, ResponseFaults, options_of, producer, records, write

#: Above so many bytes Azure Event Hubs closes the connection.
EVENT_HUBS_MAX: Final = 1_046_528
#: Bytes that cannot be compressed.
NOISE: Final = random.Random(31).randbytes(6_100_000)
ROW: Final = 1000
LARGE: Final[dict[str, Any]] = {"kafka__max__request__size": "8MiB", "batchBytes": "4MiB"}
QUICK: Final[dict[str, Any]] = {"requestTimeout": "2s", "kafka__delivery__timeout__ms": "2s"}
PATIENT: Final[dict[str, Any]] = {"kafka__delivery__timeout__ms": "30s"}


class EventHubs(LogServer):
    """Closes the connection, without an answer, on a Produce request above its limit."""

    def __init__(self, topic: str = "t", partitions: int = 1, limit: int = EVENT_HUBS_MAX) -> None:
        self.logs = [Kept() for _ in range(partitions)]
        self.sizes: list[int] = []
        self._limit = limit
        super().__init__({topic: self.logs})

    def _answer(self, connection: socket.socket, frame: memoryview) -> bool:
        if modern.DIALECT.read_request_header(frame)[0] == modern.PRODUCE:
            self.sizes.append(len(frame))
            if len(frame) > self._limit:
                return False
        return super()._answer(connection, frame)


class Kept(MemoryLog):
    """A partition that appends each batch of a producer once, as brokers do, and in the order of the
    sequences.

    ``sequences`` are the first sequence of each batch, and its count of records.
    """

    def __init__(self) -> None:
        super().__init__()
        self.sequences: list[tuple[int, int]] = []
        self._starts: list[int] = []

    def append(self, batches: Any) -> int:
        (batch,) = split(batches)
        first, count = struct.unpack(">ii", batch[53:61])
        if first >= 0 and (first, count) in self.sequences[-5:]:
            return self._starts[self.sequences.index((first, count))]
        assert first in (-1, sum(self.sequences[-1]) if self.sequences else 0)
        self.sequences.append((first, count))
        self._starts.append(super().append(batch))
        return self._starts[-1]


def rows(count: int, size: int = ROW) -> list[bytes]:
    """Rows that tell their place."""
    starts = (number * size % (len(NOISE) - size) for number in range(count))
    return [b"%08d" % number + NOISE[start : start + size - 8] for number, start in enumerate(starts)]


def reported(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The warnings."""
    return [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]


def assert_once_and_in_order(server: EventHubs, sent: Sequence[bytes]) -> None:
    assert sum(count for _, count in server.logs[0].sequences) == len(sent)
    assert values(librdkafka.consume(server.bootstrap_servers, "t")) == sent


@pytest.mark.parametrize("codec", CODECS)
def test_requests_of_default_size_are_what_event_hubs_takes(codec: str) -> None:
    sent = rows(6000)
    with EventHubs() as server:
        write(server.bootstrap_servers, "t", sent, compression=codec, **PATIENT)
        assert max(server.sizes) <= EVENT_HUBS_MAX
        # And not much smaller: each request has a cost of its own.
        assert max(server.sizes) > 950_000
        assert_once_and_in_order(server, sent)


def test_all_that_is_in_a_request_counts() -> None:
    """Batches of a thousand partitions, and the longest name of a topic beside each."""
    topic, count = "t" * 249, 1000
    with EventHubs(topic, count) as server:
        options = options_of(server.bootstrap_servers, kafka__client__id="c" * 1000, **PATIENT)
        with producer(options) as sending:
            for partition in range(count):
                sending.add(TopicPartition(topic, partition), records(rows(3)))
            sending.finish()
        assert sum(log.stop_offset for log in server.logs) == 3 * count
        assert 900_000 < max(server.sizes) <= 1_000_000


def test_requests_that_a_broker_closes_on_are_made_smaller_and_it_is_said_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    sent = rows(20_000)
    with EventHubs() as server:
        (receipt,) = write(server.bootstrap_servers, "t", sent, **LARGE)
        assert receipt.message_count == len(sent)
        assert max(server.sizes) > 4_000_000
        assert_once_and_in_order(server, sent)
    (line,) = reported(caplog)
    assert "closed the connection 3 times on Produce requests of up to 41" in line
    assert "kafka.max.request.size (8388608) and batchBytes" in line


def test_batches_of_several_partitions_go_in_more_requests(caplog: pytest.LogCaptureFixture) -> None:
    """No batch is cut: fewer of them are sent together."""
    with EventHubs(partitions=8, limit=200_000) as server:
        options = options_of(server.bootstrap_servers)
        with producer(options) as sending:
            for partition in range(8):
                sending.add(TopicPartition("t", partition), records(rows(60)))
            sending.finish()
        assert [len(log.sequences) for log in server.logs] == [1] * 8
        assert max(server.sizes) > 400_000
    assert len(reported(caplog)) == 1


@pytest.mark.parametrize("option", [{"acks": "1"}, {"kafka__enable__idempotence": "false"}])
def test_batches_without_sequences_are_cut_too(option: dict[str, Any]) -> None:
    sent = rows(5000)
    with EventHubs() as server:
        write(server.bootstrap_servers, "t", sent, **LARGE, **option)
        assert values(librdkafka.consume(server.bootstrap_servers, "t")) == sent


def test_a_record_that_no_smaller_request_can_carry_ends_with_its_size_and_the_options() -> None:
    with EventHubs() as server, pytest.raises(DeliveryError) as raised:
        write(server.bootstrap_servers, "t", rows(1, 1_500_000), **LARGE, **QUICK)
    line = str(raised.value)
    assert line.startswith("not delivered within 2 s (kafka.delivery.timeout.ms): broker 0 (")
    assert "closed the connection on a Produce request of 15001" in line
    assert "set kafka.max.request.size (8388608) and batchBytes below what it takes" in line
    assert "SASL" not in line


def test_a_record_of_the_largest_size_of_kafkas_own_default_is_written() -> None:
    """The broker here accepts records of this size."""
    sent = rows(1, (1 << 20) - 100)
    with LogServer({"t": [MemoryLog()]}) as server:
        write(server.bootstrap_servers, "t", sent)
        assert values(librdkafka.consume(server.bootstrap_servers, "t")) == sent


def test_connections_that_break_on_what_was_answered_before_change_no_size(
    noida: NoidaBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    topic, sent = noida.create_topic(), rows(2000)
    faults = ResponseFaults(monkeypatch)
    faults.plan.extend([FINE, *["lost"] * 5])
    with producer(options_of(noida.bootstrap_servers, batchBytes=400_000)) as sending:
        for start in range(0, len(sent), 399):
            sending.add(TopicPartition(topic, 0), records(sent[start : start + 399]))
        sending.finish()
    assert not faults.plan
    assert not reported(caplog)
    assert values(librdkafka.consume(noida.bootstrap_servers, topic)) == sent


@pytest.mark.parametrize("lost", [3, 4, 6])
def test_a_batch_that_is_cut_although_the_broker_has_it_is_stored_once(
    noida: NoidaBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, lost: int
) -> None:
    """The broker has appended it, and refuses its parts: then it is asked for the whole."""
    topic, sent = noida.create_topic(), rows(1000)
    faults = ResponseFaults(monkeypatch)
    faults.plan.extend(["lost"] * lost)
    (receipt,) = write(noida.bootstrap_servers, topic, sent, batchBytes=300_000)
    assert not faults.plan
    assert len(reported(caplog)) == 1
    assert receipt.message_count == len(sent)
    assert values(librdkafka.consume(noida.bootstrap_servers, topic)) == sent


def throttled(count: int) -> Iterator[int]:
    return itertools.repeat(ErrorCode.POLICY_VIOLATION, count)


def test_a_write_that_is_throttled_is_tried_again_and_it_is_said_once(
    mock_cluster: MockCluster, caplog: pytest.LogCaptureFixture
) -> None:
    mock_cluster.create_topic("t")
    mock_cluster.push_request_errors(mock.PRODUCE, FINE, *throttled(4))
    sent = rows(200)
    with producer(options_of(mock_cluster.bootstrap_servers, batchBytes=50_000)) as sending:
        sending.add(TopicPartition("t", 0), records(sent[:50]))
        sending.add(TopicPartition("t", 0), records(sent[50:]))
        sending.finish()
    assert values(librdkafka.consume(mock_cluster.bootstrap_servers, "t")) == sent
    (line,) = reported(caplog)
    assert "(error 44 POLICY_VIOLATION)" in line
    assert line.endswith("; trying again for up to 120 s (kafka.delivery.timeout.ms)")


def test_a_write_that_stays_throttled_ends_with_its_deadline_and_the_reason(
    mock_cluster: MockCluster,
) -> None:
    mock_cluster.create_topic("t")
    mock_cluster.push_request_errors(mock.PRODUCE, *throttled(1000))
    limits: dict[str, Any] = {"requestTimeout": "700ms", "kafka__delivery__timeout__ms": 700}
    started_s = time.monotonic()
    with pytest.raises(DeliveryError, match=r"^not delivered within 0\.7 s .*POLICY_VIOLATION.*Event Hubs"):
        write(mock_cluster.bootstrap_servers, "t", [b"a"], **limits)
    assert time.monotonic() - started_s < 0.7 + GRACE_S
