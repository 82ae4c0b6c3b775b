"""Tests of the helper: other clients accept the server as a broker, in old and new versions."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import KafkaException

from spark_kafkawire.protocol import modern
from spark_kafkawire.protocol.api import VersionRange
from tests.support import kafka_python, librdkafka
from tests.support.foreign import Record, values
from tests.support.log_broker import OFFERED
from tests.support.log_server import LogServer, Sent
from tests.support.memory_log import MemoryLog

RECORDS = [Record(b"%d" % number * 100, partition=number % 2) for number in range(200)]
#: What a Kafka 1.0 broker offers, in short.
OLD = {**OFFERED, modern.FETCH.key: VersionRange(0, 6), modern.METADATA.key: VersionRange(0, 5)}


@pytest.mark.parametrize("offered", [OFFERED, OLD], ids=["new", "old"])
@pytest.mark.parametrize(
    ("produce", "consume"),
    [(librdkafka.produce, librdkafka.consume), (kafka_python.produce, kafka_python.consume)],
    ids=["librdkafka", "kafka-python"],
)
def test_clients_write_and_read_back(
    produce: Callable[..., None], consume: Callable[..., list[Record]], offered: dict[int, VersionRange]
) -> None:
    with LogServer({"t": [MemoryLog(), MemoryLog()]}, offered=offered) as server:
        produce(server.bootstrap_servers, "t", RECORDS)
        for partition in (0, 1):
            found = consume(server.bootstrap_servers, "t", partition)
            assert values(found) == values(RECORDS[partition::2])
            assert [each.offset for each in found] == list(range(100))


def test_a_lie_is_sent_instead_of_the_response() -> None:
    def close_on_produce(api: object, frame: bytes) -> Sent:
        return Sent(frame[:9], "close") if api is modern.PRODUCE else Sent(frame)

    with LogServer({"t": [MemoryLog()]}, lie=close_on_produce) as server:
        with pytest.raises(KafkaException, match="MSG_TIMED_OUT"):
            librdkafka.produce(server.bootstrap_servers, "t", RECORDS[:1], message_timeout_ms=300)
        assert modern.PRODUCE in server.requests


def test_a_silent_server_answers_nothing_more() -> None:
    with LogServer({"t": [MemoryLog()]}, lie=lambda _api, _frame: Sent(b"", "be silent")) as server:
        with pytest.raises(KafkaException, match="MSG_TIMED_OUT"):
            librdkafka.produce(server.bootstrap_servers, "t", RECORDS[:1], message_timeout_ms=300)
        assert set(server.requests) == {modern.API_VERSIONS}
