"""Message sets built from a description, with the rows that they must decode to.

Written from the format alone with zlib, gzip and raw snappy blocks, so that it shares no code
with what it tests.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from tests.support.codecs import CODECS

#: (offset, index, nextOffset, value)
Row = tuple[int, int, int, bytes]


@dataclass(frozen=True, slots=True)
class Plain:
    """A message that holds a value. ``attributes`` have no codec bits."""

    value: bytes
    magic: int = 1
    attributes: int = 0

    def encoded(self) -> bytes:
        return message(self.value, self.attributes, self.magic)

    def values(self) -> list[bytes]:
        return [self.value]


@dataclass(frozen=True, slots=True)
class Compressed:
    """A message that holds messages. ``cut`` bytes of one more are at the end of its set."""

    children: tuple[Plain | Compressed, ...]
    codec: int
    style: int = 0
    attributes: int = 0
    cut: bytes = b""

    def encoded(self) -> bytes:
        inner = b"".join(child.encoded() for child in self.children) + self.cut
        payload = COMPRESSORS[self.codec][self.style % len(COMPRESSORS[self.codec])](inner)
        return message(payload, self.attributes | self.codec)

    def values(self) -> list[bytes]:
        return [value for child in self.children for value in child.values()]


Message = Plain | Compressed


def message(payload: bytes, attributes: int = 0, magic: int = 1, crc: int | None = None) -> bytes:
    """One message as it lies in a log."""
    head = struct.pack(">BB", magic, attributes) if magic else b"\x00"
    body = head + struct.pack(">I", zlib.crc32(payload) if crc is None else crc) + payload
    return struct.pack(">I", len(body)) + body


def message_set(messages: Iterable[Message]) -> bytes:
    return b"".join(message.encoded() for message in messages)


def rows(messages: Sequence[Message], base_offset: int = 0) -> list[Row]:
    """Rows of the messages when they lie at ``base_offset``."""
    result, offset = [], base_offset
    for item in messages:
        next_offset = offset + len(item.encoded())
        result += [(offset, i, next_offset, value) for i, value in enumerate(item.values())]
        offset = next_offset
    return result


def batch_rows(batch: pa.RecordBatch) -> list[Row]:
    """The rows of a batch that ``decode_message_set`` made."""
    columns = (batch[name].to_pylist() for name in ("offset", "index", "nextOffset", "value"))
    return list(zip(*columns, strict=True))


def column_rows(columns: Any) -> list[Row]:
    """The rows of ``Columns``."""
    lists = (columns.offset.tolist(), columns.index.tolist(), columns.next_offset.tolist())
    return list(zip(*lists, columns.values.to_pylist(), strict=True))


#: Every way in which the JVM reads a codec's payload, by codec number.
COMPRESSORS = {codec.number: tuple(codec.forms.values()) for codec in CODECS if codec.is_in_v07}

_VALUES = st.one_of(st.binary(max_size=40), st.binary(min_size=250, max_size=300))
_PLAIN = st.builds(Plain, _VALUES, st.just(1), st.sampled_from([0, 0, 0xF8])) | st.builds(
    Plain, _VALUES, st.just(0)
)


def _compressed(children: st.SearchStrategy[Message]) -> st.SearchStrategy[Message]:
    return st.builds(
        Compressed,
        st.lists(children, min_size=1, max_size=4).map(tuple),
        st.sampled_from([1, 2]),
        st.integers(0, 3),
        st.sampled_from([0, 0, 0xF8]),
        st.sampled_from([b"", b"\0\0", b"\0\0\0\x0b\x01"]),
    )


#: Messages of all kinds, nested a few levels.
MESSAGES: st.SearchStrategy[list[Message]] = st.lists(
    st.recursive(_PLAIN, _compressed, max_leaves=6), max_size=8
)
