"""Topics of all shapes that a modern broker keeps, written and read again by librdkafka."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType

from tests.interop.compaction import compacted_topic
from tests.support import librdkafka
from tests.support.foreign import CLIENT_TIMEOUT_S, CODECS, Record

from .truth import READ_COMMITTED, READ_UNCOMMITTED, Log, Row, Truth

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
    _transactional(servers, topic, written, chance, first_ms, reuses_ids=is_apache)
    return learned(servers, written, [_compacted(servers)] if is_apache else ())


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
) -> None:
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


class _Reader:
    """librdkafka's consumers of both isolation levels, which all logs share: to make one takes long."""

    def __init__(self, servers: str) -> None:
        self._consumers = {
            isolation: Consumer(
                {
                    "bootstrap.servers": servers,
                    "group.id": "chaos-truth",
                    "enable.auto.commit": False,
                    "enable.partition.eof": True,
                    "auto.offset.reset": "error",
                    "isolation.level": isolation,
                    "fetch.wait.max.ms": 10,
                    "log_level": 0,
                }
            )
            for isolation in (READ_UNCOMMITTED, READ_COMMITTED)
        }

    def partitions(self, topic: str) -> range:
        found = self._consumers[READ_COMMITTED].list_topics(topic, CLIENT_TIMEOUT_S).topics[topic]
        return range(len(found.partitions))

    def log(self, topic: str, partition: int) -> Log:
        """All of a log."""
        log, found = TopicPartition(topic, partition), {}
        start, stop = self._consumers[READ_COMMITTED].get_watermark_offsets(log, CLIENT_TIMEOUT_S)
        for isolation, consumer in self._consumers.items():
            consumer.assign([TopicPartition(topic, partition, start)])
            found[isolation] = list(librdkafka.until_end(consumer))
        committed = {each.offset for each in found[READ_COMMITTED]}
        return Log(
            topic,
            partition,
            start,
            stop,
            tuple(_row(topic, each) for each in found[READ_UNCOMMITTED]),
            bounds=tuple(range(start, stop + 1)),
            aborted=frozenset(each.offset for each in found[READ_UNCOMMITTED]) - committed,
        )

    def at_times(self, log: Log, times: Iterable[int]) -> dict[int, int]:
        """The first offset that is as young as each of the times; the log's end where none is."""
        found = {}
        for stamp in times:
            asked = TopicPartition(log.topic, log.partition, stamp)
            [told] = self._consumers[READ_COMMITTED].offsets_for_times([asked], CLIENT_TIMEOUT_S)
            found[stamp] = log.stop if told.offset < 0 else told.offset
        return found

    def close(self) -> None:
        for consumer in self._consumers.values():
            consumer.close()


def learned(servers: str, written: Mapping[str, Sequence[Record]], others: Sequence[str] = ()) -> Truth:
    """What librdkafka reads of the topics, compared with what was written where that is known."""
    reader = _Reader(servers)
    try:
        found = {
            name: [reader.log(name, partition) for partition in reader.partitions(name)]
            for name in (*written, *others)
        }
        times = _times([log for logs in found.values() for log in logs])
        truth = {
            name: tuple(replace(log, at_times=reader.at_times(log, times)) for log in logs)
            for name, logs in found.items()
        }
    finally:
        reader.close()
    for name, records in written.items():
        for log in truth[name]:
            _compare(log, [each for each in records if each.partition == log.partition])
    return truth


def _compare(log: Log, records: Sequence[Record]) -> None:
    written = [(each.key, each.value, each.headers) for each in records]
    read = [(row.key, row.value, row.headers) for row in log.rows]
    # The beginning of a log may have been deleted.
    pairs = zip(read, written[len(written) - len(read) :], strict=True)
    changed = [pair for pair in pairs if pair[0] != pair[1]]
    assert not changed, f"librdkafka does not read what it wrote to {log.topic}: {changed[:2]}"


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


def _times(logs: Sequence[Log]) -> list[int]:
    """Some times of records, one before all and one after all."""
    stamps = sorted({row.timestamp_ms or 0 for log in logs for row in log.rows})
    return [stamps[0] - 1, *stamps[:: max(1, len(stamps) // _TIMES_COUNT)], stamps[-1] + _DAY_MS]
