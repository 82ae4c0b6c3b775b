"""Tests of the helper: librdkafka and kafka-python read the same records from noida-db."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from confluent_kafka import KafkaException

from spark_kafkawire.errors import ConnectFailed
from tests.support import kafka_python, librdkafka
from tests.support import noida as noida_support
from tests.support.foreign import CODECS, Record, values
from tests.support.noida import KEPT_FOR_A_WEEK, NoidaBroker
from tests.support.polling import poll

Consume = Callable[..., list[Record]]

STAMP_MS = int(time.time() * 1000) - 60_000
RECORDS = [
    Record(b"value", b"key", (("a", b"1"), ("a", None), ("\N{SNOWMAN}", b"")), STAMP_MS),
    Record(None, b"tombstone", (), STAMP_MS + 1),
    Record(b"", None, (), STAMP_MS + 2),
    *(Record(b"%d" % number * 50, None, (), STAMP_MS + 3) for number in range(50)),
]
READ_BACK = [
    Record(sent.value, sent.key, sent.headers, sent.timestamp_ms, 0, offset, 0)
    for offset, sent in enumerate(RECORDS)
]


@pytest.mark.parametrize("compression", CODECS)
def test_what_librdkafka_wrote_is_read_back(noida: NoidaBroker, compression: str) -> None:
    topic = noida.create_topic()
    librdkafka.produce(noida.bootstrap_servers, topic, RECORDS, compression)
    assert librdkafka.consume(noida.bootstrap_servers, topic) == READ_BACK
    if compression in kafka_python.CODECS:
        assert kafka_python.consume(noida.bootstrap_servers, topic) == READ_BACK


@pytest.mark.parametrize("compression", kafka_python.CODECS)
def test_what_kafka_python_wrote_is_read_back(noida: NoidaBroker, compression: str) -> None:
    topic = noida.create_topic()
    # It writes no null header values.
    written = [replace(record, headers=record.headers[:1]) for record in RECORDS]
    read_back = [replace(record, headers=record.headers[:1]) for record in READ_BACK]
    kafka_python.produce(noida.bootstrap_servers, topic, written, compression)
    assert librdkafka.consume(noida.bootstrap_servers, topic) == read_back
    assert kafka_python.consume(noida.bootstrap_servers, topic) == read_back


@pytest.mark.parametrize("consume", [librdkafka.consume, kafka_python.consume])
def test_a_committed_reader_sees_what_was_committed(noida: NoidaBroker, consume: Consume) -> None:
    topic, servers = noida.create_topic(), noida.bootstrap_servers
    librdkafka.commit(servers, topic, [Record(b"committed")])
    librdkafka.abort(servers, topic, [Record(b"aborted")])
    librdkafka.commit(servers, topic, [Record(b"committed too")])
    assert values(consume(servers, topic)) == [b"committed", b"aborted", b"committed too"]
    committed = consume(servers, topic, isolation_level="read_committed")
    assert [(each.offset, each.value) for each in committed] == [(0, b"committed"), (4, b"committed too")]


def test_an_open_transaction_ends_what_a_committed_reader_sees(noida: NoidaBroker) -> None:
    topic, servers = noida.create_topic(), noida.bootstrap_servers
    librdkafka.produce(servers, topic, [Record(b"before")])
    with librdkafka.transaction(servers, topic, [Record(b"open")], outcome="open"):
        librdkafka.produce(servers, topic, [Record(b"after")])
        assert values(librdkafka.consume(servers, topic)) == [b"before", b"open", b"after"]
        seen = librdkafka.consume(servers, topic, isolation_level="read_committed")
        assert values(seen) == [b"before"]
    seen = librdkafka.consume(servers, topic, isolation_level="read_committed")
    assert values(seen) == [b"before", b"after"]


def test_deleted_records_are_gone_and_their_offsets_out_of_range(noida: NoidaBroker) -> None:
    topic, servers = noida.create_topic(partitions=2), noida.bootstrap_servers
    librdkafka.produce(servers, topic, [Record(b"%d" % number, partition=1) for number in range(9)])
    noida.delete_records(topic, 1, 4)
    assert librdkafka.offsets(servers, topic, 1) == (4, 9)
    assert [each.offset for each in librdkafka.consume(servers, topic, 1)] == [4, 5, 6, 7, 8]
    with pytest.raises(KafkaException, match="Offset out of range"):
        librdkafka.consume(servers, topic, 1, start_offset=3)


def test_retention_removes_records_that_are_old_by_their_own_time(noida: NoidaBroker) -> None:
    kept, topic = noida.create_topic(), noida.create_topic(config=KEPT_FOR_A_WEEK)
    old_ms = 1_700_000_000_000
    records = [Record(b"%d" % number, timestamp_ms=old_ms) for number in range(5)]
    for each in (kept, topic):
        librdkafka.produce(noida.bootstrap_servers, each, records)
    start_offset = poll(lambda: librdkafka.offsets(noida.bootstrap_servers, topic)[0], "a later start")
    assert start_offset == 5
    assert librdkafka.offsets(noida.bootstrap_servers, kept) == (0, 5)


def test_a_topic_grows_and_goes(noida: NoidaBroker) -> None:
    topic, servers = noida.create_topic(partitions=1), noida.bootstrap_servers
    noida.add_partitions(topic, 3)
    librdkafka.produce(servers, topic, [Record(b"new", partition=2)])
    assert values(librdkafka.consume(servers, topic, 2)) == [b"new"]
    librdkafka.delete_topic(servers, topic)
    with pytest.raises(KafkaException, match="UNKNOWN_PARTITION"):
        librdkafka.offsets(servers, topic)


def test_a_group_leaves_its_offsets_with_the_broker(noida: NoidaBroker) -> None:
    topic, servers = noida.create_topic(), noida.bootstrap_servers
    librdkafka.produce(servers, topic, [Record(b"%d" % number) for number in range(5)])
    librdkafka.commit_offsets(servers, "group", topic, {0: 3})
    assert librdkafka.committed_offset(servers, "group", topic) == 3
    assert librdkafka.committed_offset(servers, "another group", topic) < 0


def test_a_restarted_broker_has_its_port_and_its_data() -> None:
    with NoidaBroker() as broker:
        topic = broker.create_topic()
        librdkafka.produce(broker.bootstrap_servers, topic, RECORDS)
        address = broker.bootstrap_servers
        broker.stop()
        assert not noida_support.answers(noida_support.HOST, broker.port)
        broker.start()
        assert broker.bootstrap_servers == address
        assert librdkafka.consume(broker.bootstrap_servers, topic) == READ_BACK


def test_nothing_of_it_is_left_when_it_is_closed() -> None:
    with NoidaBroker() as broker:
        assert broker.pid is not None
        process = psutil.Process(broker.pid)
        assert broker._folder is not None
        folder = broker._folder.name
    poll(lambda: not process.is_running(), "noida-db's end")
    assert not Path(folder).exists()


def test_a_broker_that_cannot_start_is_an_error_with_its_reason(noida: NoidaBroker) -> None:
    with NoidaBroker() as second:
        second.stop()
        second.port = noida.port
        with pytest.raises(ConnectFailed, match="already in use"):
            second.start()
