"""Reads of and writes to Kafka 0.7 brokers through proxies, and whether logs and rows agree.

The logs are read from the brokers' own files.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from .ledger import Found, Promise
from .operation import SECRET
from .proxy import HOST
from .reading import QUICK, Options, persistence
from .v07_logs import messages, values, whole_size
from .writing import Drawn, batches_of

PARTITION_COUNT: Final = 3
BROKER_COUNT: Final = 2
_SUCCESS: Final = {"0": Promise.AT_MOST_ONCE, "1": Promise.ONCE, "verify": Promise.ONCE}


def finding(chance: random.Random, zookeeper: int, brokers: Mapping[int, int]) -> Options:
    """Options by which the brokers are found, by their ports and that of ZooKeeper."""
    if chance.random() < 0.3:
        return {"broker.list": ",".join(f"{broker}:{HOST}:{port}" for broker, port in brokers.items())}
    options = {"zookeeper.connect": f"{HOST}:{zookeeper}", "expectedBrokers": str(BROKER_COUNT)}
    return options | ({"zookeeper.auth": f"digest:alice:{SECRET}"} if chance.random() < 0.3 else {})


def draw_write(chance: random.Random, topic: str, operation: int, finding: Options) -> Drawn:
    """A write to one topic of brokers, which are found by the last options."""
    acks = chance.choice(("0", "1", "1", "1", "verify", "verify"))
    options = {
        **QUICK,
        **finding,
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
    brokers, partitions = zip(*places, strict=True)
    columns: dict[str, Sequence[Any]] = {
        "value": rows,
        "key": keys,
        "broker": brokers,
        "partition": partitions,
    }
    logs = [None if broker is None else f"{broker}-{partition}" for broker, partition in places]
    return Drawn(options, batches_of(chance, columns), rows, logs, _SUCCESS[acks])


class FileReader:
    """Reads on in the files of a topic's logs where they ended the last time."""

    def __init__(self, folders: Mapping[int, Path], topic: str) -> None:
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

    def close(self) -> None:
        """Nothing is open between two calls."""


def _size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0
