"""Reads of and writes to Kafka 0.7 brokers through proxies, and whether logs and rows agree.

The logs are read from the brokers' own files.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyspark.sql.types import BinaryType, IntegerType, StructField, StructType

from .ledger import Found, Ledger, Promise
from .operation import SECRET
from .reading import Drawn as DrawnRead
from .reading import Options, Range, by_topic, persistence
from .truth import READ_COMMITTED, Truth
from .v07_logs import messages, values, whole_size

PARTITION_COUNT: Final = 3
BROKER_COUNT: Final = 2
QUICK: Final = {"requestTimeout": "1s", "retryBackoff": "5ms"}
SCHEMA: Final = StructType(
    [
        StructField("value", BinaryType()),
        StructField("key", BinaryType()),
        StructField("broker", IntegerType()),
        StructField("partition", IntegerType()),
    ]
)
_KINDS: Final = (pa.binary(), pa.binary(), pa.int32(), pa.int32())
_SUCCESS: Final = {"0": Promise.AT_MOST_ONCE, "1": Promise.ONCE, "verify": Promise.ONCE}


@dataclass(frozen=True, slots=True)
class Addresses:
    """Ports of the proxies of ZooKeeper and of the brokers by id."""

    zookeeper: int
    brokers: Mapping[int, int]

    def drawn(self, chance: random.Random) -> Options:
        """Options by which the brokers are found."""
        if chance.random() < 0.3:
            brokers = ",".join(f"{broker}:127.0.0.1:{port}" for broker, port in self.brokers.items())
            return {"broker.list": brokers}
        options = {"zookeeper.connect": f"127.0.0.1:{self.zookeeper}", "expectedBrokers": str(BROKER_COUNT)}
        return options | ({"zookeeper.auth": f"digest:alice:{SECRET}"} if chance.random() < 0.3 else {})


def draw_read(chance: random.Random, truth: Truth, addresses: Addresses) -> DrawnRead:
    """A read of some topics."""
    topics = chance.sample(sorted(truth), chance.choice((1, 1, 2)))
    logs = [log for topic in topics for log in truth[topic]]
    options = {**QUICK, **addresses.drawn(chance)}
    if chance.random() < 0.5:
        options["subscribe"] = ",".join(topics)
    else:
        logs = chance.sample(logs, chance.randrange(1, len(logs) + 1))
        options["assign"] = json.dumps(by_topic({log: log.name for log in logs}, list))
    options |= {
        "fetchBytes": chance.choice(("1KiB", "1500", "4KiB", "4MiB")),
        "fetchesInFlight": str(chance.choice((1, 2, 4, 8))),
        **persistence(chance),
    }
    if chance.random() < 0.3:
        options["packSmallPartitions"] = "true"
    elif chance.random() < 0.3:
        options["minPartitions"] = str(chance.randrange(2, 12))
    if chance.random() < 0.3:
        options["maxBytesPerPartition"] = chance.choice(("2KiB", "10KiB"))
    ranges = [Range(log, *sorted(chance.choices(log.bounds, k=2))) for log in logs]
    if chance.random() < 0.5:
        starts = {part.log: chance.choice((part.start, -2)) for part in ranges}
        options["startingOffsets"] = json.dumps(by_topic(starts, dict))
        ranges = [Range(part.log, max(starts[part.log], 0), part.stop) for part in ranges]
    else:
        ranges = [Range(part.log, 0, part.stop) for part in ranges]
    if chance.random() < 0.5:
        options["endingOffsets"] = json.dumps(by_topic({part.log: part.stop for part in ranges}, dict))
    else:
        ranges = [Range(part.log, part.start, part.log.stop) for part in ranges]
    expected = [row for part in ranges for row in part.log.between(part.start, part.stop, READ_COMMITTED)]
    return DrawnRead(options, expected)


@dataclass(frozen=True, slots=True)
class DrawnWrite:
    """The options of a write, its rows in batches, and what it promises where it succeeds and fails."""

    options: Options
    batches: list[pa.RecordBatch]
    rows: list[bytes]
    logs: list[str | None]
    success: Promise
    error: Promise = Promise.AT_MOST_ONCE


def draw_write(chance: random.Random, topic: str, operation: int, addresses: Addresses) -> DrawnWrite:
    """A write to one topic."""
    acks = chance.choice(("0", "1", "1", "1", "verify", "verify"))
    options = {
        **QUICK,
        **addresses.drawn(chance),
        "topic": topic,
        "acks": acks,
        "compression": chance.choice(("none", "gzip", "snappy")),
        "partitioner": chance.choice(("murmur2", "roundrobin", "sticky")),
        "batchBytes": chance.choice(("100", "1000", "5000", "1MiB")),
        **persistence(chance),
    }
    rows = [
        b"%d %d %s" % (operation, number, b"x" * chance.choice((0, 5, 50, 400)))
        for number in range(chance.choice((1, 5, 60, 200)))
    ]
    named = chance.random() < 0.4
    places = [
        (chance.randrange(BROKER_COUNT), chance.randrange(PARTITION_COUNT)) if named else (None, None)
        for _ in rows
    ]
    keys = [None if chance.random() < 0.5 else b"%d" % chance.randrange(10) for _ in rows]
    table = list(zip(rows, keys, *zip(*places, strict=True), strict=True))
    size = chance.choice((7, 50, 1000))
    batches = [_batch(table[start : start + size]) for start in range(0, len(table), size)]
    logs = [None if broker is None else f"{broker}-{partition}" for broker, partition in places]
    return DrawnWrite(options, batches, rows, logs, _SUCCESS[acks])


def _batch(rows: Sequence[Sequence[object]]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    arrays = [pa.array(column, kind) for column, kind in zip(columns, _KINDS, strict=True)]
    return pa.record_batch(arrays, names=SCHEMA.fieldNames())


class Judge:
    """Reads on in the files of a topic's logs where they ended the last time."""

    def __init__(self, folders: Mapping[int, Path], topic: str) -> None:
        self.ledger: Ledger[bytes] = Ledger()
        self._files = {
            f"{broker}-{partition}": folder / f"{topic}-{partition}" / f"{0:020}.kafka"
            for broker, folder in folders.items()
            for partition in range(PARTITION_COUNT)
        }
        self._next = {log: _size(file) for log, file in self._files.items()}

    def found(self) -> Iterator[Found[bytes]]:
        """Rows that have arrived since the last call."""
        for log, file in self._files.items():
            start, end = self._next[log], _size(file)
            if start < end:
                with file.open("rb") as opened:
                    opened.seek(start)
                    data = opened.read(end - start)
                # A broker that is still appending may have written a part of a message.
                whole = data[: whole_size(data)]
                self._next[log] = start + len(whole)
                for _, _, body in messages(whole):
                    for value in values(body):
                        operation, number, _ = value.split(b" ", 2)
                        yield Found(log, int(operation), int(number), value)


def _size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0
