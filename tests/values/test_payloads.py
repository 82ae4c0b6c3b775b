"""Messages of a binary column as places in its buffer, and texts for all faults."""

from __future__ import annotations

import random
import tracemalloc
import uuid
import zlib
from typing import Final

import numpy as np
import pyarrow as pa
import pytest

from spark_kafkawire.records.columns import HEADERS
from spark_kafkawire.values import registry_frame
from spark_kafkawire.values.payloads import Decoded, Fault, Payloads, payloads_of
from spark_kafkawire.values.registry_frame import (
    KEY_HEADER,
    VALUE_HEADER,
    Framed,
    SchemaIdSource,
    id_prefix,
    message_indexes,
    unframe,
)
from tests.support.cases import for_each
from tests.support.fake_registry import guid_header
from tests.values.faults import field_of


def messages(payloads: Payloads) -> list[bytes | None]:
    pairs = zip(payloads.starts.tolist(), payloads.stops.tolist(), strict=True)
    return [None if start < 0 else payloads.data[start:stop].tobytes() for start, stop in pairs]


@pytest.mark.parametrize("arrow_type", [pa.binary(), pa.large_binary()], ids=str)
def test_messages_are_places_in_the_columns_own_buffer(arrow_type: pa.DataType) -> None:
    values = [b"a", None, b"", b"bcd", None, b"ef"]
    column = pa.array(values, arrow_type)
    for start in range(len(values) + 1):
        for stop in range(start, len(values) + 1):
            payloads = payloads_of(column.slice(start, stop - start))
            assert messages(payloads) == values[start:stop]
            assert payloads.is_null.tolist() == [value is None for value in values[start:stop]]
    assert payloads_of(column).data.ctypes.data == column.buffers()[2].address
    assert messages(payloads_of(pa.array([], arrow_type))) == []
    assert messages(payloads_of(pa.nulls(2, arrow_type))) == [None, None]


def test_rows_are_taken_in_the_order_asked_for() -> None:
    payloads = payloads_of(pa.array([b"a", None, b"bc"]))
    assert messages(payloads.taken(np.array([2, 1, 2]))) == [b"bc", None, b"bc"]


def test_a_fault_has_a_reason_and_names_its_field() -> None:
    assert [fault for fault in Fault if not fault.reason] == [Fault.NONE]
    faults = np.array([0, Fault.BAD_UTF8, Fault.NO_FRAME], np.uint8)
    decoded = Decoded(pa.nulls(3), faults, np.array([-1, 0, -1], np.int32), ("customer.name",))
    assert [field_of(decoded, row) for row in range(3)] == [None, "customer.name", None]


# --- Frames of schema ids: each form, each truncation, and which rows they spoil ---

GUID: Final = uuid.UUID("4f0b9f1e-0d3a-4c4e-8a55-6d3a1c2b7e90").bytes
OTHER: Final = uuid.UUID(int=7).bytes


def bodies(framed: Framed) -> list[bytes | None]:
    data = framed.payloads.data.tobytes()
    places = zip(framed.payloads.starts.tolist(), framed.payloads.stops.tolist(), strict=True)
    return [None if start < 0 else data[start:stop] for start, stop in places]


def column(*messages: bytes | None) -> pa.BinaryArray:
    """A slice, so that the first offset is not 0."""
    return pa.array([b"before", *messages], pa.binary())[1:]


def headers_of(*rows: list[tuple[str, bytes | None]] | None) -> pa.Array:
    return pa.array([[("first", b"x")], *rows], HEADERS)[1:]


def test_a_prefix_has_the_id_where_it_is_the_source() -> None:
    framed = unframe(
        column(id_prefix(7) + b"abc", None, id_prefix(2**31 - 1), id_prefix(0) + b"\0"), SchemaIdSource.PREFIX
    )
    assert framed.ids.tolist() == [7, -1, 2**31 - 1, 0]
    assert bodies(framed) == [b"abc", None, b"", b"\0"]
    assert not framed.faults.any()
    assert (framed.guid_of == -1).all()
    assert unframe(column(b"\0\xff\xff\xff\xff"), SchemaIdSource.PREFIX).faults[0] == Fault.UNKNOWN_SCHEMA_ID
    framed = unframe(column(b"", b"\0\0\0\0\1a", None), SchemaIdSource.NONE)
    assert bodies(framed) == [b"", b"\0\0\0\0\1a", None]
    assert not framed.faults.any()


@pytest.mark.parametrize(
    "message", [b"", b"\0", b"\0\0\0\0", b"\1" + bytes(16), b"{}", b"\3", b"\3\0" + bytes(15)]
)
def test_a_message_without_a_frame_is_a_bad_one_and_spoils_no_other(message: bytes) -> None:
    framed = unframe(column(id_prefix(1) + b"a", message, id_prefix(2) + b"b"), SchemaIdSource.AUTO)
    assert framed.faults.tolist() == [Fault.NONE, Fault.NO_FRAME, Fault.NONE]
    assert bodies(framed) == [b"a", None, b"b"]
    assert framed.ids.tolist() == [1, -1, 2]


def test_a_header_has_the_guid_and_the_last_one_counts() -> None:
    framed = unframe(
        column(b"a", id_prefix(3) + b"b", b"c", b"d", None),
        SchemaIdSource.AUTO,
        headers_of(
            [(VALUE_HEADER, b"bad"), (KEY_HEADER, b"bad"), (VALUE_HEADER, guid_header(GUID))],
            None,
            [("x", None), (VALUE_HEADER, id_prefix(9))],
            [(VALUE_HEADER, guid_header(OTHER))],
            [(VALUE_HEADER, guid_header(OTHER))],
        ),
    )
    assert bodies(framed) == [b"a", b"b", b"c", b"d", None]
    assert framed.ids.tolist() == [-1, 3, 9, -1, -1]
    assert [framed.guids[index] if index >= 0 else None for index in framed.guid_of] == [
        *(GUID, None, None, OTHER, None)
    ]
    assert not framed.faults.any()


def test_a_header_of_keys_is_one_of_its_own() -> None:
    headers = headers_of([(VALUE_HEADER, guid_header(GUID)), (KEY_HEADER, guid_header(OTHER))])
    framed = unframe(column(b"a"), SchemaIdSource.HEADER, headers, header=KEY_HEADER)
    assert framed.guids == (OTHER,)


@pytest.mark.parametrize(
    "value", [None, b"", b"\1", guid_header(GUID)[:-1], guid_header(GUID) + b"x", b"\2" * 17]
)
def test_a_bad_header_is_a_bad_frame(value: bytes | None) -> None:
    headers = headers_of([(VALUE_HEADER, value)], [(VALUE_HEADER, guid_header(GUID))])
    framed = unframe(column(id_prefix(1), b"b"), SchemaIdSource.AUTO, headers)
    assert framed.faults.tolist() == [Fault.NO_FRAME, Fault.NONE]


def test_a_message_without_the_header_is_a_bad_one_if_headers_are_the_source() -> None:
    for headers in (None, headers_of(None, None)):
        framed = unframe(column(id_prefix(1), None), SchemaIdSource.HEADER, headers)
        assert framed.faults.tolist() == [Fault.NO_FRAME, Fault.NONE]


def test_glue_has_a_uuid_and_may_compress() -> None:
    body = b"abc" * 50
    framed = unframe(
        column(
            b"\3\0" + GUID + b"plain",
            b"\3\5" + GUID + zlib.compress(body),
            b"\3\5" + OTHER + zlib.compress(b""),
        ),
        SchemaIdSource.AUTO,
    )
    assert bodies(framed) == [b"plain", body, b""]
    assert [framed.guids[index] for index in framed.guid_of] == [GUID, GUID, OTHER]
    assert not framed.faults.any()


def test_bad_compression_and_bombs_are_bad_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry_frame, "DECOMPRESSED_MAX", 1000)
    bomb = zlib.compress(bytes(1001))
    framed = unframe(
        column(
            *(b"\3\5" + GUID + item for item in (bomb, b"no zlib", zlib.compress(b"abc")[:-1], b"")),
            b"\3\5" + GUID + zlib.compress(b"abc") + b"x",
            b"\3\7" + GUID,
            b"\3\5" + GUID + zlib.compress(bytes(1000)),
            b"\3\5" + GUID + zlib.compress(b"a"),
        ),
        SchemaIdSource.PREFIX,
    )
    assert framed.faults.tolist() == [
        Fault.TOO_LARGE,
        *(Fault.BAD_COMPRESSION,) * 5,
        Fault.NONE,
        Fault.TOO_LARGE,
    ]
    assert bodies(framed)[6] == bytes(1000)


def packed(size: int, piece: bytes = bytes(1 << 20)) -> bytes:
    """A compressed message of that many bytes, a multiple of those of the piece."""
    deflater = zlib.compressobj(9)
    parts = [deflater.compress(piece) for _ in range(size // len(piece))]
    return b"\3\5" + GUID + b"".join([*parts, deflater.flush()])


def test_bombs_take_no_memory_and_spoil_no_other_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry_frame, "DECOMPRESSED_MAX", 32 << 20)
    large = random.Random(43).randbytes(1000) * 5000
    messages = column(*[packed(48 << 20)] * 2, packed(5_000_000, large), b"\3\5" + GUID + zlib.compress(b"a"))
    size = sum(map(len, messages.to_pylist()))
    tracemalloc.start()
    try:
        framed = unframe(messages, SchemaIdSource.PREFIX)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert framed.faults.tolist() == [Fault.TOO_LARGE, Fault.TOO_LARGE, Fault.NONE, Fault.NONE]
    assert bodies(framed)[2:] == [large, b"a"]
    # What is kept, pieces of a bomb, and zlib's own blocks.
    assert peak < 1.25 * (size + len(large)) + (8 << 20)


@pytest.mark.parametrize("size", [0, 1, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 3 << 20])
@pytest.mark.parametrize("level", [0, 1, 9])
def test_messages_of_any_size_are_decompressed_as_they_were(size: int, level: int) -> None:
    draw = random.Random(size)
    for body in (bytes(size), draw.randbytes(size)):
        compressed = zlib.compress(body, level)
        good = b"\3\5" + GUID + compressed
        framed = unframe(column(good, good[:-1], good + b"x", good[:-1] + b"\0", good), SchemaIdSource.AUTO)
        bad = Fault.NONE if compressed.endswith(b"\0") else Fault.BAD_COMPRESSION
        assert framed.faults.tolist() == [Fault.NONE, *(Fault.BAD_COMPRESSION,) * 2, bad, Fault.NONE]
        assert bodies(framed)[0] == bodies(framed)[4] == body


@pytest.mark.parametrize("indexes", [(0,), (1,), (0, 0), (1, 0, 63), (64, 8192), (5,) * 32])
def test_places_of_protobufs_types_are_behind_the_id_and_the_guid(indexes: tuple[int, ...]) -> None:
    location = message_indexes(indexes)
    framed = unframe(
        column(id_prefix(7) + location + b"body", id_prefix(7) + b"\0", b"body"),
        SchemaIdSource.AUTO,
        headers_of(None, None, [(VALUE_HEADER, guid_header(GUID) + location)]),
        with_indexes=True,
    )
    assert not framed.faults.any()
    assert bodies(framed) == [b"body", b"", b"body"]
    assert [framed.indexes[index] for index in framed.indexes_of] == [indexes, (0,), indexes]


@for_each("place", [b"", b"\x02", b"\x04\0", b"\x01", b"\x80", b"\xff" * 6, b"\x42" + bytes(33), b"\x02\x01"])
def test_a_bad_place_of_a_type_is_a_bad_message(place: bytes) -> None:
    framed = unframe(
        column(id_prefix(7) + b"\0a", id_prefix(7) + place), SchemaIdSource.PREFIX, with_indexes=True
    )
    assert framed.faults.tolist() == [Fault.NONE, Fault.BAD_MESSAGE_INDEX]
    assert bodies(framed) == [b"a", None]


def test_random_messages_never_leave_their_bounds() -> None:
    draw = random.Random(34)
    for _ in range(300):
        messages = [
            draw.choice([b"\0", b"\1", b"\3", b"\3\5", b""]) + draw.randbytes(draw.randrange(30))
            for _ in range(20)
        ]
        array = column(*messages)
        framed = unframe(array, SchemaIdSource.AUTO, with_indexes=draw.random() < 0.5)
        good = framed.faults == Fault.NONE
        assert (framed.payloads.starts[good] >= 0).all()
        assert (framed.payloads.stops >= framed.payloads.starts).all()
        for message, body in zip(messages, bodies(framed), strict=True):
            assert body is None or message.endswith(body) or message[:2] == b"\3\5"


def test_no_rows_are_no_messages() -> None:
    framed = unframe(pa.array([], pa.binary()), SchemaIdSource.AUTO, pa.array([], HEADERS), with_indexes=True)
    assert len(framed.payloads) == 0
    assert framed.ids.dtype == np.int64
