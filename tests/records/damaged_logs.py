"""Logs of all formats with flipped bytes, drawn from a seed, and a check of what a walk over them finds.

The check knows which bytes were flipped, and which fields the checksums of a format do not cover. So it knows
which batches may be lost, and whether a row may come that the log never held.
"""

from __future__ import annotations

import random
import struct
import zlib
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from spark_kafkawire.errors import CorruptDataError, LimitError
from spark_kafkawire.records.damage import CHAIN_MIN, Walk, Whole
from spark_kafkawire.records.damaged_batches import index_of, walk_batches
from spark_kafkawire.records.message_set.decoding import decode
from spark_kafkawire.records.message_set.index import walk_messages
from spark_kafkawire.records.record_log import decode_batches
from tests.records.batches import batch, message, record
from tests.support.codecs import CODECS, compressed

#: The format of Kafka 0.7; the others are magics of later ones.
V07: Final = 7
FORMATS: Final = (0, 1, 2, V07)
_NUMBERS: Final = {"none": 0, **{item.name: item.number for item in CODECS}}
#: Bytes of an entry that no checksum covers and that change rows: a base offset, or magic and attributes.
_FREE: Final = {0: range(8), 1: range(8), 2: range(8), V07: range(4, 6)}
#: Bytes that no checksum covers and that change nothing: the leader epoch.
_UNUSED: Final = {0: range(0), 1: range(0), 2: range(12, 16), V07: range(0)}
_SIZES: Final = {0: range(8, 12), 1: range(8, 12), 2: range(8, 12), V07: range(4)}
#: Length and magic of 0.7, by which a place looks like the begin of a message.
_HEADER_07: Final = range(5)
#: A row: offset (in 0.7 also its place in the outermost message), and value.
Row = tuple[int, int, bytes]


@dataclass(frozen=True, slots=True)
class Entry:
    """A batch or an outermost message: its bytes, and its rows."""

    data: bytes
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class DamagedLog:
    """A log, and the same with flipped bytes. ``hits`` are those of each entry, as positions in it."""

    form: int
    entries: tuple[Entry, ...]
    start_offset: int
    data: bytes
    hits: tuple[frozenset[int], ...]

    @property
    def positions(self) -> list[int]:
        """Position of each entry, and the log's end."""
        result = [0]
        for entry in self.entries:
            result.append(result[-1] + len(entry.data))
        return result

    @property
    def stop_offset(self) -> int:
        """The offset after the last row."""
        if self.form == V07:
            return self.start_offset + len(self.data)
        return self.entries[-1].rows[-1][0] + 1

    def has_hit(self, index: int, fields: range) -> bool:
        """True if one of these bytes of an entry was flipped."""
        return any(pos in fields for pos in self.hits[index])

    def is_damaged(self, index: int) -> bool:
        """True if an entry has another meaning than before."""
        return any(pos not in _UNUSED[self.form] for pos in self.hits[index])


def codecs_of(form: int) -> list[str]:
    """The codecs of a format."""
    known = [item.name for item in CODECS if (item.is_in_v07 if form == V07 else form in item.magics)]
    return ["none", *known]


#: All formats with their codecs, and whether plain entries are among those with a codec.
KINDS: Final = [
    (form, codec, is_mixed)
    for form in FORMATS
    for codec in codecs_of(form)
    for is_mixed in ((False, True) if codec != "none" else (False,))
]


def damaged_log(seed: int, form: int, codec: str, *, is_mixed: bool = False) -> DamagedLog:
    """A log drawn from a seed. A mixed one has entries without compression among those with ``codec``."""
    chance = random.Random(f"{seed} {form} {codec}")
    start = chance.choice((0, 7, 1 << 20, (1 << 40) + 5))
    entries, offset = [], start
    for _ in range(chance.randrange(4, 24)):
        name = "none" if is_mixed and chance.random() < 0.5 else codec
        entry = _entry(chance, form, name, offset)
        entries.append(entry)
        offset += len(entry.data) if form == V07 else len(entry.rows)
    data = bytearray(b"".join(item.data for item in entries))
    flipped = [
        _position(chance, [len(item.data) for item in entries]) for _ in range(chance.choice((1, 1, 2, 3, 8)))
    ]
    for pos in flipped:
        data[pos] ^= chance.randrange(1, 256)
    whole, hits, pos = b"".join(item.data for item in entries), [], 0
    for entry in entries:
        places = range(len(entry.data))
        hits.append(frozenset(i for i in places if data[pos + i] != whole[pos + i]))
        pos += len(entry.data)
    return DamagedLog(form, tuple(entries), start, bytes(data), tuple(hits))


def _position(chance: random.Random, sizes: list[int]) -> int:
    """A position of the log, often in a header, where damage does most."""
    index = chance.randrange(len(sizes))
    bound = min(61, sizes[index]) if chance.random() < 0.5 else sizes[index]
    return sum(sizes[:index]) + chance.randrange(bound)


def _value(chance: random.Random) -> bytes:
    kind = chance.randrange(6)
    if kind == 0:
        return bytes(chance.randrange(200))
    if kind == 1:
        return b"\0\0\0\x09\0" * chance.randrange(40)
    return chance.randbytes(chance.choice((0, 1, 5, 30, 100, 300)))


def _entry(chance: random.Random, form: int, codec: str, offset: int) -> Entry:
    values = [_value(chance) for _ in range(chance.randrange(1, 6))]
    if form == V07:
        return _entry_07(values, codec, offset)
    rows = tuple((offset + i, 0, value) for i, value in enumerate(values))
    if form == 2:
        records = [record(i, value, b"k") for i, value in enumerate(values)]
        return Entry(batch(records, offset, compression=codec), rows)
    if codec == "none":
        return Entry(message(offset, values[0], b"k", magic=form), rows[:1])
    first = 0 if form else offset
    inner = b"".join(message(first + i, value, b"k", magic=form) for i, value in enumerate(values))
    outer = message(rows[-1][0], compressed(codec, inner), magic=form, attributes=_NUMBERS[codec])
    return Entry(outer, rows)


def _entry_07(values: list[bytes], codec: str, offset: int) -> Entry:
    plain = [_message_07(value, 0) for value in values]
    if codec == "none":
        return Entry(plain[0], ((offset, 0, values[0]),))
    rows = tuple((offset, i, value) for i, value in enumerate(values))
    return Entry(_message_07(compressed(codec, b"".join(plain)), _NUMBERS[codec]), rows)


def _message_07(payload: bytes, attributes: int) -> bytes:
    return struct.pack(">iBBI", 6 + len(payload), 1, attributes, zlib.crc32(payload)) + payload


def walked(log: DamagedLog) -> tuple[Walk, list[Row]]:
    """The walk over a damaged log, and the rows of its sound parts, as a reader takes them."""
    undecodable: dict[tuple[int, int], str] = {}
    while True:
        walk = _walk(log, undecodable)
        rows: list[Row] = []
        try:
            for part in walk.parts:
                if isinstance(part, Whole):
                    rows += _rows_of(log, part, undecodable)
        except CorruptDataError:
            continue
        return walk, rows


def _walk(log: DamagedLog, undecodable: dict[tuple[int, int], str]) -> Walk:
    if log.form == V07:
        return walk_messages(log.data, log.start_offset, is_end=True, undecodable=undecodable)
    return walk_batches(log.data, log.start_offset, log.stop_offset, is_end=True, undecodable=undecodable)


def _rows_of(log: DamagedLog, part: Whole, undecodable: dict[tuple[int, int], str]) -> list[Row]:
    rows: list[Row] = []
    if log.form == V07:
        pos = part.pos
        while pos < part.stop:
            try:
                decoded = decode(log.data[pos : part.stop], log.start_offset + pos)
            except CorruptDataError as error:
                offset = error.offset or 0
                size = 4 + int.from_bytes(log.data[offset - log.start_offset :][:4], "big")
                undecodable[(offset, size)] = error.reason
                raise
            columns = decoded.columns
            assert columns.index is not None
            assert columns.values is not None
            rows += zip(
                columns.offset.tolist(), columns.index.tolist(), columns.values.to_pylist(), strict=True
            )
            pos += decoded.size
        return rows
    index = index_of(log.data, part)
    try:
        for columns in decode_batches(index, log.start_offset):
            assert columns.values is not None
            rows += [
                (row, 0, value)
                for row, value in zip(columns.offset.tolist(), columns.values.to_pylist(), strict=True)
            ]
    except CorruptDataError as error:
        row = index.column(2).tolist().index(error.offset)
        undecodable[(int(index.table[row, 2]), int(index.table[row, 10]))] = error.reason
        raise
    return rows


def check(log: DamagedLog) -> None:
    """Check what a walk over the log finds. Raises ``AssertionError``."""
    try:
        walk, rows = walked(log)
    except LimitError:
        # A flipped codec of 0.7 can name one by which a payload announces gigabytes.
        assert log.form == V07
        assert any(log.has_hit(i, _FREE[V07]) for i in range(len(log.entries)))
        return
    assert walk.rest is None
    assert walk.size == len(log.data)
    _check_order(log, walk, rows)
    held = {row for entry in log.entries for row in entry.rows}
    is_free = any(log.has_hit(i, _FREE[log.form]) for i in range(len(log.entries)))
    if not is_free and not may_show_content(log):
        assert held.issuperset(rows), "a row came that the log never held"
    came = set(rows)
    for index, entry in enumerate(log.entries):
        if not log.is_damaged(index) and not came.issuperset(entry.rows):
            assert may_be_lost(log, index), f"entry {index} was lost, and no byte of it was flipped"
    damaged = [i for i in range(len(log.entries)) if log.is_damaged(i)]
    if damaged and not is_free:
        assert walk.first is not None
        assert walk.first.pos == log.positions[damaged[0]], "the first place is another one"


def _check_order(log: DamagedLog, walk: Walk, rows: list[Row]) -> None:
    """Parts and offsets rise, and the damage has the offsets of all rows that did not come."""
    assert all(left.stop == right.pos for left, right in pairwise(walk.parts))
    assert all(left < right for left, right in pairwise((offset, index) for offset, index, _ in rows))
    offsets = {offset for offset, _, _ in rows}
    for damage in walk.damages:
        assert damage.start_offset <= damage.stop_offset
        assert not any(damage.start_offset <= offset < damage.stop_offset for offset in offsets)
    lost = {offset for entry in log.entries for offset, _, _ in entry.rows} - offsets
    if not any(log.has_hit(i, _FREE[log.form]) for i in range(len(log.entries))):
        for offset in lost:
            assert any(item.start_offset <= offset < item.stop_offset for item in walk.damages)


def is_free(log: DamagedLog) -> bool:
    """True if bytes were flipped that no checksum covers and that change rows."""
    return any(log.has_hit(i, _FREE[log.form]) for i in range(len(log.entries)))


def may_show_content(log: DamagedLog) -> bool:
    """True if a changed length of 0.7, beside another change, may lead to a plain message inside of a
    compressed one."""
    has_length_hit = any(log.has_hit(i, _HEADER_07) for i in range(len(log.entries)))
    is_compressed = any(entry.data[5] for entry in log.entries)
    return log.form == V07 and is_compressed and has_length_hit and sum(map(len, log.hits)) > 1


def may_be_lost(log: DamagedLog, index: int) -> bool:
    """True if nothing in the format proves an intact entry.

    Offsets prove each other: where one is changed beside other damage, it may be any of both. In 0.7, which
    has none, a message has no known end whose length or magic is damaged and its content or the next message,
    too. The next three messages have no proof, nor have fewer than three between two such places, nor have
    plain ones after such a compressed one, where offsets do not tell them from those inside of it.
    """
    hit = [i for i in range(len(log.entries)) if log.is_damaged(i)]
    is_relative = log.form == 1 and log.start_offset < 1 << 21
    has_size_hit = any(i < index and log.has_hit(i, _SIZES[1]) for i in hit)
    if is_relative and _is_mixed(log, 17) and has_size_hit and sum(map(len, log.hits)) > 1:
        return True
    if log.form != V07:
        return len(hit) > 1 and any(log.has_hit(i, _FREE[log.form]) for i in hit)
    headers = {i for i in hit if log.has_hit(i, _HEADER_07)}
    before = [i for i in headers if i < index and (len(log.hits[i]) > 1 or i + 1 in hit)]
    if not before:
        return False
    if _is_mixed(log, 5):
        return True  # a compressed message might hold the plain ones after it
    stop = min((i for i in headers if i > index), default=len(log.entries))
    valid = [i for i in range(max(before) + 1, stop) if i not in hit]
    return len(valid) < CHAIN_MIN or valid.index(index) < CHAIN_MIN


def _is_mixed(log: DamagedLog, attributes_pos: int) -> bool:
    """True if the attributes of messages name several codecs, before or after the damage."""
    is_hit = any(attributes_pos in hits for hits in log.hits)
    return is_hit or len({entry.data[attributes_pos] for entry in log.entries}) > 1
