"""Any bytes in a Fetch response give rows or one of our errors, in bounded memory, both ways the same."""

from __future__ import annotations

import random
import resource
from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import Any

from spark_kafkawire.errors import CorruptDataError, KafkaWireError, LimitError
from spark_kafkawire.records.limits import DecodeLimits
from spark_kafkawire.records.log_index import MarkersDisagree, index_batches
from spark_kafkawire.records.record_log import decode_batches
from tests.records.batches import (
    APPEND_TIME,
    TRANSACTIONAL,
    Aborted,
    batch,
    marker,
    message,
    record,
    repaired,
)
from tests.records.judges import Record, column_records
from tests.support.codecs import CODEC_NUMBERS, FORMS, compressed
from tests.support.short_and_long import one_of

MUTATIONS = 20_000
LIMITS = DecodeLimits(decompressed_bytes_max=2**16, batch_bytes_max=300)
COMPRESSIONS = ("none", *FORMS)
#: The error's class and message, and the rows before it; None without an error.
Outcome = tuple[type[KafkaWireError] | None, str, list[Record]]
BothWays = Callable[[Callable[[], Any]], tuple[Any, Any]]


RECORDS = (
    record(0, b"value", b"key"),
    record(1, None, b"k", ((b"h", b"v"), (b"\xc3\xa4", None)), timestamp_delta=-7),
    record(2, b"long value " * 8),
    record(4, b"", None, ((b"h", b""),) * 3, timestamp_delta=2**33),
)


@cache
def packed(compression: str, content: bytes) -> bytes:
    return compressed(compression, content)


def damaged_log(seed: int) -> bytes:
    """A few batches and messages with damage somewhere: outside, in what is compressed, or nowhere."""
    chance = random.Random(seed)
    parts = [_entry(chance, 5 * i) for i in range(chance.choice((1, 1, 2, 3)))]
    data = _damaged(chance, b"".join(parts), 0.5)
    return repaired(data) if chance.random() < 0.8 else data


def _entry(chance: random.Random, offset: int) -> bytes:
    compression = chance.choice(COMPRESSIONS)
    kind = chance.randrange(8)
    if kind == 0:
        return marker(offset, 1, chance.randrange(3))
    if kind < 3:
        return _messages(chance, offset, compression)
    content = _damaged(chance, b"".join(RECORDS[: chance.randrange(1, 5)]), 0.4)
    attributes = chance.choice((0, 0, APPEND_TIME, TRANSACTIONAL))
    return batch(
        [],
        offset,
        compression=compression,
        attributes=attributes,
        count=chance.choice((1, 2, 3, 4)),
        last_delta=chance.choice((4, 4, 4, 1)),
        producer=(1, 0, 0) if attributes & TRANSACTIONAL else (-1, -1, -1),
        payload=packed(compression, content),
    )


def _messages(chance: random.Random, offset: int, compression: str) -> bytes:
    magic = chance.randrange(2)
    inner = [message(offset + i, b"value" * i, b"k", magic=magic) for i in range(chance.randrange(1, 4))]
    if compression == "none":
        return b"".join(inner)
    content = _damaged(chance, b"".join(inner), 0.4)
    content = repaired(content) if chance.random() < 0.8 else content
    number = CODEC_NUMBERS[compression.split()[0]]
    attributes = number | chance.choice((0, APPEND_TIME))
    return message(offset + 2, packed(compression, content), magic=magic, attributes=attributes)


def _damaged(chance: random.Random, data: bytes, probability: float) -> bytes:
    if chance.random() >= probability or not data:
        return data
    buf = bytearray(data)
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        pos = chance.randrange(len(buf) + 1)
        match chance.randrange(6):
            case 0 | 1 if pos < len(buf):
                buf[pos] ^= 1 << chance.randrange(8)
            case 2 | 3 if pos < len(buf):
                buf[pos] = chance.choice((0, 1, 2, 3, 0x7F, 0x80, 0xFF))
            case 4:
                del buf[pos : pos + chance.randrange(1, 20)]
            case _:
                buf[pos:pos] = chance.choice((chance.randbytes(3), b"\xff" * 9, buf[:7]))
    return bytes(buf)


def outcome(data: bytes, limits: DecodeLimits = LIMITS) -> Outcome:
    """All rows of the data, or the error in their place."""
    found = list[Record]()
    try:
        for columns in decode_batches(index_batches(data), 1, aborted=[Aborted(1, 5)], limits=limits):
            for array in (columns.keys, columns.values, columns.headers):
                if array is not None:
                    array.validate(full=True)
                    assert len(array) == columns.count
            found += column_records(columns)
    except KafkaWireError as error:
        return type(error), f"{error} ({getattr(error, 'offset', None)})", found
    return None, "", found


def both_outcomes(both_ways: BothWays, logs: list[bytes]) -> list[Outcome]:
    """The outcome of each, after comparing compiled and interpreted kernels."""
    compiled: list[Outcome]
    compiled, interpreted = both_ways(lambda: [outcome(data) for data in logs])
    for i, data in enumerate(logs):
        assert compiled[i] == interpreted[i], data.hex()
    return compiled


def peak_rss_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@one_of(16)
def test_mutations_give_the_same_compiled_and_interpreted(part: int, both_ways: BothWays) -> None:
    logs = [damaged_log(seed) for seed in range(part, MUTATIONS, 16)]
    both_outcomes(both_ways, logs[:200])  # what compiling the kernels takes is not meant
    before = peak_rss_bytes()
    outcomes = both_outcomes(both_ways, logs)
    assert peak_rss_bytes() - before < 64 * 2**20
    assert all("\n" not in what for _, what, _ in outcomes)
    # Both ends are reached: logs that are still whole, and damage of every kind.
    reached = Counter(kind for kind, _, _ in outcomes)
    assert set(reached) <= {None, CorruptDataError, MarkersDisagree, LimitError}
    assert reached[CorruptDataError] > 250
    assert reached[None] > 200


def test_random_bytes_neither_crash_nor_hang(both_ways: BothWays) -> None:
    chance = random.Random(0)
    logs = [chance.randbytes(8) + b"\0\0" + chance.randbytes(size) for size in range(500)]
    both_outcomes(both_ways, logs + [repaired(data) for data in logs])
