"""Kafka 0.7 brokers: their log files, made by hand and read as the format is described, and writes to them.

Nothing here is the package's own codec: messages are cut by ``struct``, and kafka-python decompresses.
"""

from __future__ import annotations

import gzip
import random
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from tests.support import replay
from tests.support.kafka_python import snappy_decode, snappy_encode
from tests.support.message_sets import gzipped, message

from .operation import SECRET
from .proxy import HOST
from .reading import QUICK, Options, persistence
from .truth import Found, Log, Promise, Row, Truth
from .writing import Drawn, batches_of

PARTITION_COUNT: Final = 3
BROKER_COUNT: Final = 2
_SUCCESS: Final = {"0": Promise.AT_MOST_ONCE, "1": Promise.ONCE, "verify": Promise.ONCE}
#: Messages in front of which a segment of this topic ends, and its size in bytes.
SEGMENTED: Final = "segmented"
SEGMENT_BYTES: Final = 3000
_GZIP, _SNAPPY = 1, 2
_CODEC_MASK: Final = 3
_LENGTH: Final = struct.Struct(">i")
_SIZES: Final = (0, 1, 9, 60, 300, 1013, 1014, 1015, 2500)


def messages(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """The outermost messages: where each begins and ends, and its bytes after the length."""
    pos = 0
    while pos < len(data):
        (size,) = _LENGTH.unpack_from(data, pos)
        end = pos + _LENGTH.size + size
        assert 5 <= size <= len(data) - pos - _LENGTH.size, f"no message of {size} bytes at {pos}"
        yield pos, end, data[pos + _LENGTH.size : end]
        pos = end


def whole_size(data: bytes) -> int:
    """Up to where messages are whole."""
    pos = 0
    while pos + _LENGTH.size <= len(data):
        end = pos + _LENGTH.size + _LENGTH.unpack_from(data, pos)[0]
        if end > len(data):
            break
        pos = end
    return pos


def values(body: bytes) -> Iterator[bytes]:
    """The values of a message, those of a compressed one at any depth."""
    has_attributes = body[0] == 1
    codec = body[1] & _CODEC_MASK if has_attributes else 0
    start = 2 if has_attributes else 1
    crc, content = body[start : start + 4], body[start + 4 :]
    assert zlib.crc32(content).to_bytes(4, "big") == crc, "a CRC is wrong"
    if not codec:
        yield content
        return
    unpacked = gzip.decompress(content) if codec == _GZIP else snappy_decode(content)
    for _, _, inner in messages(unpacked):
        yield from values(inner)


def prepare(brokers: dict[int, int], folders: dict[int, Path], seed: str) -> Truth:
    """Write topics of all shapes to brokers, by port; what their files hold, which are in ``folders``."""
    chance = random.Random(f"{seed} topics of 0.7")
    shapes: dict[str, tuple[Callable[[random.Random], bytes], ...]] = {
        "plain": (_plain,),
        "gzip": (_gzip,),
        "snappy": (_snappy,),
        "nested": (_nested,),
    }
    shapes |= {"mixed": (_plain, _gzip, _snappy, _nested), SEGMENTED: (_plain, _gzip)}
    for topic, makers in shapes.items():
        for port in brokers.values():
            for partition in (0, 1, 2):
                for _ in range(chance.choice((0, 3, 12)) if partition else 8):
                    replay.produce(port, (topic, partition), chance.choice(makers)(chance))
    return {
        topic: tuple(
            _log(folders[broker] / f"{topic}-{partition}", topic, broker, partition)
            for broker in brokers
            for partition in (0, 1, 2)
        )
        for topic in shapes
    }


def _value(chance: random.Random) -> bytes:
    return chance.randbytes(chance.choice(_SIZES) // 3) * 3


def _values(chance: random.Random) -> list[bytes]:
    return [_value(chance) for _ in range(chance.randrange(1, 8))]


def _plain(chance: random.Random) -> bytes:
    return b"".join(map(message, _values(chance)))


def _gzip(chance: random.Random) -> bytes:
    return gzipped(*_values(chance))


def _snappy(chance: random.Random) -> bytes:
    return message(snappy_encode(_plain(chance)), attributes=_SNAPPY)


def _nested(chance: random.Random) -> bytes:
    inner = b"".join(chance.choice((_plain, _gzip, _snappy))(chance) for _ in range(3))
    return message(gzip.compress(inner, mtime=0), attributes=_GZIP)


def _log(folder: Path, topic: str, broker: int, partition: int) -> Log:
    files = sorted(folder.glob("*.kafka"))
    rows, bounds = [], [0]
    for file in files:
        base = int(file.stem)
        for start, end, body in messages(file.read_bytes()):
            bounds.append(base + end)
            for index, value in enumerate(values(body)):
                rows.append(
                    Row(topic, broker, partition, base + start, index, None, value, (), None, -1, base + end)
                )
    assert all(first < last for first, last in pairwise(bounds)), folder
    return Log(topic, partition, 0, bounds[-1], tuple(rows), tuple(bounds), broker)


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

    def found(self) -> Iterator[Found]:
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
