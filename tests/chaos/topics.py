"""Topics of all shapes that a modern broker keeps, written and read again by librdkafka."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Final

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType

from tests.interop.compaction import compacted_topic
from tests.support import librdkafka
from tests.support.foreign import CLIENT_TIMEOUT_S, CODECS, Record

from .truth import READ_COMMITTED, Log, Row, Truth

_DAY_MS: Final = 24 * 3600 * 1000
_CONFIG: Final = {"retention.ms": "-1"}
#: Sizes of values around the smallest ``fetchBytes`` there is, and common ones.
_SIZES: Final = (0, 1, 7, 50, 200, 1000, 1023, 1024, 1025, 3000)
_TIMES_COUNT: Final = 9
_APPEND_TIME: Final = "append-time"
#: A log that the cleaner may still change is looked at again after this time.
_STILL_S: Final = 1.5


def prepare(servers: str, seed: str, *, is_apache: bool) -> Truth:
    """Write the topics; what they hold."""
    chance = random.Random(f"{seed} topics")
    written: dict[str, list[Record]] = {}
    first_ms = int(time.time() * 1000) - _DAY_MS

    def topic(name: str, partitions: int, **config: str) -> str:
        written[name] = []
        config = {key.replace("__", "."): value for key, value in config.items()}
        return librdkafka.create_topic(servers, partitions, name, {**_CONFIG, **config})

    def write(name: str, count: int, partition: int, codec: str = "none") -> list[Record]:
        batch = [_record(chance, name, first_ms, partition) for _ in range(count)]
        librdkafka.produce(servers, name, batch, codec, linger_ms=20)
        written[name] += batch
        return batch

    _plain(topic, write, chance)
    _trimmed(servers, topic, write)
    topics = [*written, _transactional(servers, topic, written, chance, first_ms, reuses_ids=is_apache)]
    if is_apache:
        topics.append(_compacted(servers))
    return _learned(servers, topics, written)


def _plain(topic: Callable[..., str], write: Callable[..., list[Record]], chance: random.Random) -> None:
    for codec in CODECS:
        topic(f"{codec}-coded", 2)
        for partition in (0, 1):
            for count in (40, 1, 25):
                write(f"{codec}-coded", count, partition, codec)
    topic("mixed", 3)
    for _ in range(14):
        write("mixed", chance.randrange(1, 30), chance.randrange(2), chance.choice(CODECS))
    topic(_APPEND_TIME, 1, message__timestamp__type="LogAppendTime")
    for codec in CODECS:
        write(_APPEND_TIME, 12, 0, codec)
    topic("empty", 2)


def _trimmed(servers: str, topic: Callable[..., str], write: Callable[..., list[Record]]) -> None:
    topic("trimmed", 1)
    for codec in ("none", "gzip", "zstd"):
        write("trimmed", 20, 0, codec)
    librdkafka.delete_records(servers, "trimmed", 0, 27)


def _transactional(
    servers: str,
    topic: Callable[..., str],
    written: dict[str, list[Record]],
    chance: random.Random,
    first_ms: int,
    *,
    reuses_ids: bool,
) -> str:
    """Transactions that were committed and aborted, one after the other and between plain records.

    noida-db (0.2.3) names aborted transactions that ended before the offset that is asked for, so that
    what their producers committed later seems aborted: there each transaction has a producer of its own.
    """
    name = topic("transactions", 2)
    for number in range(12):
        batch = [_record(chance, name, first_ms, partition) for partition in (0, 1) for _ in range(6)]
        codec, how = chance.choice(CODECS), chance.choice(("commit", "abort", "plain"))
        if how == "plain":
            librdkafka.produce(servers, name, batch, codec)
        else:
            with librdkafka.transaction(
                servers,
                name,
                batch,
                outcome=how,
                transactional_id=f"chaos-{number % 3 if reuses_ids else number}",
                compression_codec=codec,
            ):
                pass
        written[name] += batch
    return name


def _compacted(servers: str) -> str:
    """A log with holes, which the cleaner then leaves alone."""
    name = compacted_topic(servers)
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    entries = [
        ConfigEntry(key, str(value), incremental_operation=AlterConfigOpType.SET)
        for key, value in (
            ("max.compaction.lag.ms", 2**63 - 1),
            ("min.compaction.lag.ms", 365 * _DAY_MS),
            ("segment.ms", 365 * _DAY_MS),
        )
    ]
    resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=entries)
    for done in admin.incremental_alter_configs([resource]).values():
        done.result(CLIENT_TIMEOUT_S)
    before: list[Record] = []
    while (found := librdkafka.consume(servers, name)) != before:
        before = found
        time.sleep(_STILL_S)
    return name


def _record(chance: random.Random, name: str, first_ms: int, partition: int) -> Record:
    is_tombstone = chance.random() < 0.08
    names, count = ("h", "header", "ä"), chance.choice((0, 0, 0, 1, 3))
    # noida-db (0.2.3) writes records anew where it sets their time, and keeps one header of a name.
    drawn = chance.sample(names, count) if name == _APPEND_TIME else chance.choices(names, k=count)
    headers = [(key, chance.choice((None, b"", b"v", chance.randbytes(30)))) for key in drawn]
    return Record(
        value=None if is_tombstone else chance.randbytes(chance.choice(_SIZES) // 2) * 2,
        key=None if chance.random() < 0.3 else b"%s-%d" % (name.encode(), chance.randrange(50)),
        headers=tuple(headers),
        timestamp_ms=first_ms + chance.randrange(_DAY_MS // 2),
        partition=partition,
    )


def _learned(servers: str, topics: Iterable[str], written: dict[str, list[Record]]) -> Truth:
    """What librdkafka reads, compared with what was written."""
    reader = Consumer({"bootstrap.servers": servers, "group.id": "chaos-truth", "log_level": 0})
    try:
        partitions = {
            name: len(reader.list_topics(name, CLIENT_TIMEOUT_S).topics[name].partitions) for name in topics
        }
        found = {
            name: tuple(_log(servers, name, partition, reader) for partition in range(count))
            for name, count in partitions.items()
        }
    finally:
        reader.close()
    for name, records in written.items():
        for log in found[name]:
            own = [
                (each.key, each.value, each.headers) for each in records if each.partition == log.partition
            ]
            read = [(row.key, row.value, row.headers) for row in log.rows]
            pairs = zip(read, own[len(own) - len(read) :], strict=True)
            changed = [pair for pair in pairs if pair[0] != pair[1]]
            assert not changed, f"librdkafka does not read what it wrote to {name}: {changed[:2]}"
    times = _times(found)
    return {name: tuple(_timed(servers, log, times) for log in logs) for name, logs in found.items()}


def _log(servers: str, topic: str, partition: int, reader: Consumer) -> Log:
    start, stop = reader.get_watermark_offsets(TopicPartition(topic, partition), CLIENT_TIMEOUT_S)
    records = librdkafka.consume(servers, topic, partition)
    committed = {
        each.offset for each in librdkafka.consume(servers, topic, partition, isolation_level=READ_COMMITTED)
    }
    return Log(
        topic,
        partition,
        start,
        stop,
        tuple(_row(topic, each) for each in records),
        bounds=tuple(range(start, stop + 1)),
        aborted=frozenset(each.offset for each in records) - committed,
    )


def _row(topic: str, record: Record) -> Row:
    return Row(
        topic,
        None,
        record.partition,
        record.offset,
        0,
        record.key,
        record.value,
        record.headers,
        record.timestamp_ms,
        record.timestamp_type,
    )


def _times(found: Truth) -> list[int]:
    """Some times of records, one before all and one after all."""
    stamps = sorted({row.timestamp_ms or 0 for logs in found.values() for log in logs for row in log.rows})
    return [stamps[0] - 1, *stamps[:: max(1, len(stamps) // _TIMES_COUNT)], stamps[-1] + _DAY_MS]


def _timed(servers: str, log: Log, times: list[int]) -> Log:
    assert all(first < last for first, last in pairwise(times)), times
    reader = Consumer({"bootstrap.servers": servers, "group.id": "chaos-times", "log_level": 0})
    try:
        at_times = {}
        for stamp in times:
            asked = TopicPartition(log.topic, log.partition, stamp)
            [told] = reader.offsets_for_times([asked], CLIENT_TIMEOUT_S)
            at_times[stamp] = log.stop if told.offset < 0 else told.offset
    finally:
        reader.close()
    return Log(
        log.topic,
        log.partition,
        log.start,
        log.stop,
        log.rows,
        log.bounds,
        aborted=log.aborted,
        at_times=at_times,
    )
