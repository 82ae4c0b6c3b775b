"""Our reads and writes against Apache Kafka's own brokers, with other programs' clients as judges."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from spark_kafkawire.errors import DataLossError
from tests.support import kafka_python, librdkafka, ours
from tests.support.certificates import Certificates
from tests.support.foreign import CODECS, Record, values
from tests.support.reading import Read, read_values

from .apache_kafka import ApacheKafka
from .compaction import COMPACTED, compacted_topic
from .versions import also_between

pytestmark = also_between
STAMP_MS: Final = int(time.time() * 1000) - 60_000
RECORDS: Final = [
    Record(b"value", b"key", (("a", b"1"), ("a", None), ("\N{SNOWMAN}", b"")), STAMP_MS),
    Record(None, b"tombstone", (), STAMP_MS + 1),
    Record(b"", b"", (), STAMP_MS + 2),
    *(Record(b"%d" % number * 50, None, (), STAMP_MS + 3 + number) for number in range(500)),
]


def in_log(records: list[Record]) -> list[Record]:
    """The records as a reader has them."""
    return [replace(record, offset=offset) for offset, record in enumerate(records)]


@pytest.mark.parametrize("compression", CODECS)
def test_others_read_what_we_write(kafka: ApacheKafka, compression: str) -> None:
    servers = kafka.bootstrap_servers()
    topic = librdkafka.create_topic(servers)
    ours.produce(servers, topic, RECORDS, compression)
    assert librdkafka.consume(servers, topic) == in_log(RECORDS)
    if compression in kafka_python.CODECS:
        assert kafka_python.consume(servers, topic) == in_log(RECORDS)


@pytest.mark.parametrize("compression", CODECS)
def test_we_read_what_others_write(kafka: ApacheKafka, compression: str) -> None:
    servers = kafka.bootstrap_servers()
    topic = librdkafka.create_topic(servers)
    librdkafka.produce(servers, topic, RECORDS, compression, batch_size=4000)
    assert ours.consume(servers, topic) == in_log(RECORDS)


def test_transactions_count_once_they_are_committed(kafka: ApacheKafka) -> None:
    servers = kafka.bootstrap_servers()
    topic = librdkafka.create_topic(servers)
    librdkafka.commit(servers, topic, [Record(b"committed")])
    librdkafka.abort(servers, topic, [Record(b"aborted")])
    ours.produce(servers, topic, [Record(b"plain")])
    with librdkafka.transaction(servers, topic, [Record(b"open")], outcome="open"):
        ours.produce(servers, topic, [Record(b"later")])
        everything = [b"committed", b"aborted", b"plain", b"open", b"later"]
        assert values(ours.consume(servers, topic)) == everything
        assert values(ours.consume(servers, topic, isolation_level="read_committed")) == [
            b"committed",
            b"plain",
        ]
    found = ours.consume(servers, topic, isolation_level="read_committed")
    assert values(found) == [b"committed", b"plain", b"later"]
    assert found == librdkafka.consume(servers, topic, isolation_level="read_committed")


def test_a_compacted_log_is_read_over_its_gaps(kafka: ApacheKafka) -> None:
    servers = kafka.bootstrap_servers()
    topic = compacted_topic(servers)
    # The cleaner goes on with what comes after these.
    assert [(each.offset, each.value) for each in ours.consume(servers, topic)][:3] == COMPACTED
    in_a_gap = ours.consume(servers, topic, startingOffsets=f'{{"{topic}":{{"0":1}}}}')
    assert [(each.offset, each.value) for each in in_a_gap][:2] == COMPACTED[1:]


def test_deleted_records_are_a_loss(kafka: ApacheKafka) -> None:
    servers = kafka.bootstrap_servers()
    topic = librdkafka.create_topic(servers)
    librdkafka.produce(servers, topic, [Record(b"%d" % number) for number in range(10)])
    librdkafka.delete_records(servers, topic, 0, 4)
    assert read_values(servers, subscribe=topic) == [b"4", b"5", b"6", b"7", b"8", b"9"]
    from_the_first = {"subscribe": topic, "startingOffsets": f'{{"{topic}":{{"0":0}}}}'}
    with pytest.raises(DataLossError, match=topic):
        read_values(servers, **from_the_first)
    assert len(read_values(servers, **from_the_first, failOnDataLoss="false")) == 6


def test_a_read_begins_at_a_time(kafka: ApacheKafka) -> None:
    servers = kafka.bootstrap_servers()
    topic = librdkafka.create_topic(servers)
    ours.produce(servers, topic, RECORDS)
    found = ours.consume(servers, topic, startingTimestamp=str(STAMP_MS + 100))
    assert found == in_log(RECORDS)[100:]


def test_a_topic_may_stamp_records_itself(kafka: ApacheKafka) -> None:
    servers = kafka.bootstrap_servers()
    config = {"message.timestamp.type": "LogAppendTime"}
    topic = librdkafka.create_topic(servers, topic_config=config)
    ours.produce(servers, topic, RECORDS[:3])
    found = ours.consume(servers, topic)
    assert found == librdkafka.consume(servers, topic)
    assert all(each.timestamp_type == 1 and (each.timestamp_ms or 0) > STAMP_MS + 2 for each in found)


def test_a_read_goes_on_where_a_group_is(kafka: ApacheKafka) -> None:
    servers = kafka.bootstrap_servers()
    topic = librdkafka.create_topic(servers)
    ours.produce(servers, topic, RECORDS[:10])
    librdkafka.commit_offsets(servers, f"group of {topic}", topic, {0: 7})
    found = ours.consume(servers, topic, startingOffsets="committed", kafka__group__id=f"group of {topic}")
    assert [each.offset for each in found] == [7, 8, 9]


def test_a_planned_read_survives_a_restart_that_ends_the_leader_epoch(
    kafka: ApacheKafka, certificates: Certificates, tmp_path: Path
) -> None:
    with ApacheKafka(kafka.version, tmp_path, certificates) as broker:
        servers = broker.bootstrap_servers()
        topic = librdkafka.create_topic(servers)
        ours.produce(servers, topic, RECORDS)
        planned = Read(servers, subscribe=topic)
        [before] = [task.leader.epoch for task in planned.tasks]
        broker.stop()
        broker.start()
        [after] = [task.leader.epoch for task in Read(servers, subscribe=topic).tasks]
        assert 0 <= before < after
        assert planned.column("value") == values(RECORDS)
