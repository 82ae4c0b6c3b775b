"""The frame that names the schema with which a message was written.

    00 | id, int32 big-endian | payload           in front of the message; 00 | id also in a header
    01 | GUID, 16 bytes                           in the header __value_schema_id or __key_schema_id
    03 | 00 or 05 | UUID, 16 bytes | payload      AWS Glue; 05: the payload is compressed by zlib

Behind the id or the GUID, Protobuf has the place of the message's type in the schema: a count and that many
indexes, zigzag varints; a single 00 means [0].

Source: Confluent's wire format; AWS Glue's AWSSchemaRegistryConstants.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from enum import Enum
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ..records.arrays import Int64s, Uint8s, byte_array
from ..records.columns import header_pairs
from .payloads import Fault, Payloads, encode_integer, payloads_of

_Flags = npt.NDArray[np.bool_]

#: First bytes of frames, and the sizes of frames.
_ID, _GUID, _GLUE = 0, 1, 3
_ID_SIZE: Final = 5
_GUID_SIZE: Final = 17
_GLUE_SIZE: Final = 18
_UUID_SIZE: Final = 16
#: Second bytes of Glue's frame.
_PLAIN, _ZLIB = 0, 5
#: Headers that name the schema of a value and of a key.
VALUE_HEADER: Final = "__value_schema_id"
KEY_HEADER: Final = "__key_schema_id"
#: The same by the column of the messages.
SCHEMA_HEADERS: Final = {"key": KEY_HEADER, "value": VALUE_HEADER}
#: Bytes to which all compressed messages of one column may decompress together.
DECOMPRESSED_MAX: Final = 256 << 20
#: Bytes of a compressed message that are taken at once, and bytes that come out at once. A message with more
#: is measured before memory is taken for it.
_TAKEN_BYTES: Final = 16 << 10
_PIECE_BYTES: Final = 1 << 20
#: Indexes of one message type: how deep Protobuf's types may be nested.
INDEXES_MAX: Final = 32
#: Bytes of a varint of 32 bits.
_VARINT_SIZE: Final = 5
_INT32_MAX: Final = (1 << 31) - 1


class SchemaIdSource(Enum):
    """The place of a message's schema id. ``AUTO`` is the header, or the prefix where there is no header."""

    AUTO = "auto"
    PREFIX = "prefix"
    HEADER = "header"
    NONE = "none"


def unframe(
    column: pa.BinaryArray,
    source: SchemaIdSource,
    headers: pa.Array | None = None,
    *,
    header: str = VALUE_HEADER,
    with_indexes: bool = False,
) -> Framed:
    """Take the frames off the messages of a column. Only compressed messages are copied.

    ``headers`` are those of the records, of the type ``records.columns.HEADERS``. ``with_indexes`` is for
    Protobuf. Without an id, a message has the fault ``NO_FRAME``, unless ``source`` is ``NONE``; a null has
    neither an id nor a fault.
    """
    framed = Framed(payloads_of(column), with_indexes)
    if source in (SchemaIdSource.AUTO, SchemaIdSource.HEADER) and headers is not None:
        framed.read_headers(headers, header)
    if source in (SchemaIdSource.AUTO, SchemaIdSource.PREFIX):
        framed.read_prefixes()
    elif source is SchemaIdSource.HEADER:
        framed.faults[framed.is_open] = Fault.NO_FRAME
    framed.finish()
    return framed


class Framed:
    """The messages of a column; when all frames are read, without their frames.

    ``ids`` are schema ids, -1 where a message has none. ``guids`` are the GUIDs of the column, each once, and
    ``guid_of`` the index of each message's, -1 for none; ``indexes`` and ``indexes_of`` are places of types
    of Protobuf in the same way. ``faults`` has a ``Fault`` for each message; one with a fault is null here.
    """

    def __init__(self, payloads: Payloads, with_indexes: bool) -> None:
        count = len(payloads)
        self.payloads, self._data = payloads, payloads.data
        self._starts, self._stops = payloads.starts.copy(), payloads.stops.copy()
        self._with_indexes = with_indexes
        self.ids = np.full(count, -1, np.int64)
        self._guids: dict[bytes, int] = {}
        self.guid_of = np.full(count, -1, np.int64)
        self._indexes: dict[tuple[int, ...], int] = {}
        self.indexes_of = np.full(count, -1, np.int64)
        self.faults = np.zeros(count, np.uint8)
        #: Messages whose frame is not found yet.
        self.is_open: _Flags = ~payloads.is_null

    def read_headers(self, headers: pa.Array, name: str) -> None:
        """Read the ids of headers of that name, the last one of each record."""
        pairs, bounds = header_pairs(headers)
        is_named = pc.equal(pairs.field("key"), name).to_numpy(zero_copy_only=False)
        result = np.flatnonzero(is_named).astype(np.int64)
        rows = np.searchsorted(bounds, result, "right") - 1
        is_last = np.append(rows[1:] != rows[:-1], True)[: len(rows)]
        chosen = is_last & self.is_open[rows]
        result, rows = result[chosen], rows[chosen]
        self._read_header_values(rows, payloads_of(pairs.field("value")).taken(result))
        self.is_open[rows] = False

    def _read_header_values(self, rows: Int64s, values: Payloads) -> None:
        sizes = values.stops - values.starts
        first = _bytes_at(values.data, values.starts, sizes > 0)
        by_id = (first == _ID) & (sizes >= _ID_SIZE)
        by_guid = (first == _GUID) & (sizes >= _GUID_SIZE)
        self._take_ids(rows[by_id], values.data, values.starts[by_id] + 1)
        self._take_guids(rows[by_guid], values.data, values.starts[by_guid] + 1)
        ends = values.starts + np.where(by_guid, _GUID_SIZE, _ID_SIZE)
        is_good = by_id | by_guid
        if self._with_indexes:
            good = rows[is_good], values.data, ends[is_good], values.stops[is_good]
            ends[is_good] = self._take_indexes(*good)
        is_bad = ~is_good | ((ends != values.stops) & (self.faults[rows] == Fault.NONE))
        self.faults[rows[is_bad]] = Fault.NO_FRAME

    def read_prefixes(self) -> None:
        """Read what is in front of the other messages."""
        rows = np.flatnonzero(self.is_open).astype(np.int64)
        starts, sizes = self._starts[rows], (self._stops - self._starts)[rows]
        first = _bytes_at(self._data, starts, sizes > 0)
        by_id = (first == _ID) & (sizes >= _ID_SIZE)
        by_glue = (first == _GLUE) & (sizes >= _GLUE_SIZE)
        self.faults[rows[~(by_id | by_glue)]] = Fault.NO_FRAME
        framed = rows[by_id]
        self._take_ids(framed, self._data, starts[by_id] + 1)
        self._starts[framed] += _ID_SIZE
        if self._with_indexes:
            self._starts[framed] = self._take_indexes(
                framed, self._data, self._starts[framed], self._stops[framed]
            )
        self._read_glue(rows[by_glue])

    def _read_glue(self, rows: Int64s) -> None:
        if not len(rows):
            return
        starts = self._starts[rows]
        self._take_guids(rows, self._data, starts + 2)
        compression = self._data[starts + 1]
        self._starts[rows] += _GLUE_SIZE
        self.faults[rows[(compression != _PLAIN) & (compression != _ZLIB)]] = Fault.BAD_COMPRESSION
        if self._with_indexes:  # Glue has a form of its own for them
            self.faults[rows] = Fault.BAD_MESSAGE_INDEX
        elif len(compressed := rows[compression == _ZLIB]):
            self._decompress(compressed)

    def _decompress(self, rows: Int64s) -> None:
        """Append the decompressed messages to the buffer, as far as the limit allows."""
        content, left = bytearray(self._data), DECOMPRESSED_MAX
        for row in rows.tolist():
            payload = self._data[self._starts[row] : self._stops[row]].data
            try:
                size, last = _measure(payload, left)
            except zlib.error:
                self.faults[row] = Fault.BAD_COMPRESSION
                continue
            if size > left:
                self.faults[row] = Fault.TOO_LARGE
                continue
            self._starts[row], self._stops[row] = len(content), len(content) + size
            for piece in (last,) if len(last) == size else _pieces(payload):
                content += piece
            left -= size
        self._data = byte_array(content)

    def _take_ids(self, rows: Int64s, data: Uint8s, places: Int64s) -> None:
        if not len(rows):
            return
        # All numbers that four bytes in a row are: one look-up a message.
        numbers = np.ndarray(len(data) - 3, ">u4", data.data, strides=(1,))
        ids = numbers[places].astype(np.int64)
        self.ids[rows] = ids
        self.faults[rows[ids > _INT32_MAX]] = Fault.UNKNOWN_SCHEMA_ID

    def _take_guids(self, rows: Int64s, data: Uint8s, places: Int64s) -> None:
        if not len(rows):
            return
        whole = data[places[:, None] + np.arange(_UUID_SIZE)]
        distinct, which = np.unique(np.ascontiguousarray(whole).view("V16").ravel(), return_inverse=True)
        numbers = [self._guids.setdefault(item.tobytes(), len(self._guids)) for item in distinct]
        self.guid_of[rows] = np.array(numbers, np.int64)[which.ravel()]

    def _take_indexes(self, rows: Int64s, data: Uint8s, places: Int64s, stops: Int64s) -> Int64s:
        """Read the places of types, column by column. Returns where each ends."""
        counts, ends, is_good = _varints(data, places, stops)
        is_good &= (counts >= 0) & (counts <= INDEXES_MAX)
        table = np.full((len(rows), INDEXES_MAX + 1), -1, np.int64)
        table[:, 0] = np.where(counts == 0, 1, counts)
        table[counts == 0, 1] = 0
        for index in range(int(counts[is_good].max(initial=0))):
            chosen = np.flatnonzero(is_good & (counts > index))
            numbers, after, is_number = _varints(data, ends[chosen], stops[chosen])
            table[chosen, 1 + index], ends[chosen] = numbers, after
            is_good[chosen] &= is_number & (numbers >= 0)
        self.faults[rows[~is_good]] = Fault.BAD_MESSAGE_INDEX
        if is_good.any():
            distinct, which = np.unique(table[is_good], axis=0, return_inverse=True)
            known = [tuple(row[1 : 1 + row[0]].tolist()) for row in distinct]
            numbers = np.array(
                [self._indexes.setdefault(item, len(self._indexes)) for item in known], np.int64
            )
            self.indexes_of[rows[is_good]] = numbers[which.ravel()]
        return ends

    def finish(self) -> None:
        """Take the frames off."""
        is_bad = self.faults != Fault.NONE
        self._starts[is_bad] = self._stops[is_bad] = -1
        self.payloads = Payloads(self._data, self._starts, self._stops)
        self.guids, self.indexes = tuple(self._guids), tuple(self._indexes)


def _measure(payload: memoryview, size_max: int) -> tuple[int, bytes]:
    """The size of a decompressed message and its last piece, or a size above the limit. Raises
    ``zlib.error``."""
    size, last = 0, b""
    for last in _pieces(payload):
        size += len(last)
        if size > size_max:
            break
    return size, last


def _pieces(payload: memoryview) -> Iterator[bytes]:
    """The decompressed pieces of a message. Raises ``zlib.error`` for one that is damaged or cut, or that
    other bytes follow."""
    reader, taken, rest = zlib.decompressobj(), 0, b""
    while not reader.eof:
        fed = rest or payload[taken : taken + _TAKEN_BYTES]
        taken += 0 if rest else len(fed)
        piece = reader.decompress(fed, _PIECE_BYTES)
        rest = reader.unconsumed_tail
        if not fed and not piece and not reader.eof:
            raise zlib.error("it ends early")
        yield piece
    if reader.unused_data or taken < len(payload):
        raise zlib.error("bytes follow")


def _bytes_at(data: Uint8s, places: Int64s, is_there: _Flags) -> Int64s:
    """The bytes at these places, -1 where nothing is there."""
    result = np.full(len(places), -1, np.int64)
    result[is_there] = data[places[is_there]]
    return result


def _varints(data: Uint8s, places: Int64s, stops: Int64s) -> tuple[Int64s, Int64s, _Flags]:
    """A zigzag varint at each place: its number, where it ends, and if it is a whole one of 32 bits."""
    raw, ends = np.zeros(len(places), np.int64), places.copy()
    is_open = np.ones(len(places), bool)
    for index in range(_VARINT_SIZE):
        result = _bytes_at(data, ends, is_open & (ends < stops))
        raw |= np.where(result >= 0, result & 0x7F, 0) << 7 * index
        ends += result >= 0
        is_open &= (result >= 0x80) | (result < 0)
    return raw >> 1 ^ -(raw & 1), ends, ~is_open


def id_prefix(schema_id: int) -> bytes:
    """The frame in front of a message of this schema."""
    return bytes([_ID]) + schema_id.to_bytes(4, "big")


def message_indexes(indexes: tuple[int, ...]) -> bytes:
    """The place of a Protobuf type, as it is written behind an id or a GUID."""
    return b"\0" if indexes == (0,) else b"".join(map(encode_integer, (len(indexes), *indexes)))
