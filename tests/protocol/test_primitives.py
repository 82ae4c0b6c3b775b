"""The wire's types: what is written is read back, and what does not fit is refused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_kafkawire.errors import OptionError, ProtocolError
from spark_kafkawire.protocol import v07
from spark_kafkawire.protocol.connection import ROOM_BYTES_MAX, Connection, Response
from spark_kafkawire.protocol.primitives import (
    BYTES,
    INT8,
    INT16,
    INT32,
    INT64,
    KEPT_COUNT_MAX,
    AnyType,
    Array,
    Buffer,
    Buffers,
    String,
    read_int32,
)
from spark_kafkawire.protocol.schema import Struct, wire
from spark_kafkawire.protocol.v07 import REST, FetchRequest, RestArray, Sized
from tests.support.cases import for_each

from .streams import feed


@dataclass(frozen=True, slots=True)
class Pair:
    number: int = wire(INT16)
    text: str = wire(String())


TYPES: Final[dict[str, tuple[AnyType, st.SearchStrategy[Any]]]] = {
    "int8": (INT8, st.integers(-(2**7), 2**7 - 1)),
    "int16": (INT16, st.integers(-(2**15), 2**15 - 1)),
    "int32": (INT32, st.integers(-(2**31), 2**31 - 1)),
    "int64": (INT64, st.integers(-(2**63), 2**63 - 1)),
    "string": (String(), st.text(max_size=20)),
    "bytes": (BYTES, st.binary(max_size=20)),
    "rest": (REST, st.binary(max_size=20)),
    "array": (Array(INT64), st.lists(st.integers(-(2**63), 2**63 - 1), max_size=5).map(tuple)),
    "array with a short count": (Array(BYTES, count=INT16), st.lists(st.binary(), max_size=5).map(tuple)),
    "rest array": (RestArray(INT32), st.lists(st.integers(0, 9), max_size=5).map(tuple)),
    "sized": (Sized(Array(INT8)), st.lists(st.integers(0, 9), max_size=5).map(tuple)),
    "struct": (Struct(Pair), st.builds(Pair, st.integers(0, 9), st.text(max_size=5))),
}


def written(wire_type: AnyType, value: object) -> bytes:
    out: list[Buffer] = []
    wire_type.write(value, out)
    return b"".join(out)


@for_each("name", TYPES)
@given(data=st.data())
def test_what_is_written_is_read_back(name: str, data: st.DataObject) -> None:
    wire_type, values = TYPES[name]
    value = data.draw(values)
    frame = b"\x00\x01" + written(wire_type, value)
    assert wire_type.read(memoryview(frame), 2) == (value, len(frame))


@for_each("name", sorted(TYPES.keys() - {"rest", "rest array"}))
@given(data=st.data())
def test_a_frame_that_ends_early_is_refused(name: str, data: st.DataObject) -> None:
    wire_type, values = TYPES[name]
    frame = written(wire_type, data.draw(values))
    with pytest.raises(ProtocolError, match=r"does not fit in a frame|holds a value"):
        wire_type.read(memoryview(frame)[:-1], 0)


@pytest.mark.parametrize("name", TYPES)
@given(frame=st.binary(max_size=40))
def test_any_bytes_are_a_value_or_a_protocol_error(name: str, frame: bytes) -> None:
    wire_type, _ = TYPES[name]
    try:
        _, end = wire_type.read(memoryview(frame), 0)
    except ProtocolError:
        return
    assert 0 <= end <= len(frame)


@for_each(
    ("wire_type", "data"),
    [
        (String(), "ffff"),
        (BYTES, "ffffffff"),
        (BYTES, "7fffffff"),
        (Array(INT8), "ffffffff"),
        (Array(INT8), "7fffffff"),
        (Array(INT8, count=INT16), "7fff"),
        (Sized(INT8), "ffffffff"),
        (Sized(INT8), "00000002 0000"),
        (RestArray(INT32), "000000"),
    ],
)
def test_lengths_and_counts_that_lie_are_refused(wire_type: AnyType, data: str) -> None:
    with pytest.raises(ProtocolError):
        wire_type.read(memoryview(bytes.fromhex(data)), 0)


def test_an_array_has_at_most_a_million_elements_or_so() -> None:
    whole = (1 << 20).to_bytes(4, "big") + bytes(1 << 20)
    assert Array(INT8).read(memoryview(whole), 0)[1] == len(whole)
    larger = memoryview((1 << 20 | 1).to_bytes(4, "big") + bytes(1 << 21))
    with pytest.raises(ProtocolError, match="array of 1048577 elements at 4: at most 1048576 are read"):
        Array(INT8).read(larger, 0)


def test_text_that_is_not_utf8_is_an_error_or_replaced_as_the_jvm_does() -> None:
    data = memoryview(bytes.fromhex("0003 61fffe"))
    with pytest.raises(ProtocolError, match="string at 2 is not UTF-8"):
        String().read(data, 0)
    assert String(errors="replace").read(data, 0) == ("a\ufffd\ufffd", 5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("t" * 32_768, "a name of 32768 bytes is too long, the maximum is 32767"),
        ("\u20ac" * 10_923, "a name of 32769 bytes"),
        ("t\ud800", r"the name 't\\ud800' contains half of a surrogate pair"),
    ],
)
def test_text_that_has_no_wire_form_is_refused(text: str, message: str) -> None:
    out: list[Buffer] = []
    with pytest.raises(OptionError, match=message):
        String().write(text, out)
    assert not out


def test_the_longest_name_is_sent() -> None:
    out: list[Buffer] = []
    String().write("t" * 32_767, out)
    assert String().read(memoryview(b"".join(out)), 0) == ("t" * 32_767, 2 + 32_767)


@pytest.mark.parametrize("wire_type", [BYTES, REST])
def test_bytes_are_views_of_the_frame(wire_type: AnyType) -> None:
    frame = bytearray(b"\x00\x00\x00\x02ab")
    value, _ = wire_type.read(memoryview(frame), 0)
    frame[-1:] = b"!"
    assert bytes(value)[-1:] == b"!"


def test_read_int32_is_signed_and_big_endian() -> None:
    assert read_int32(b"\x00\xff\xff\xff\xfe", 1) == -2


# --- Buffers are used again, but never while a view of them exists ---

SIZE = 300_000


def address(buffer: memoryview) -> int:
    return int(np.frombuffer(buffer, np.uint8).ctypes.data)


def test_a_buffer_has_the_size_that_was_asked_for() -> None:
    for size in (0, 1, 4, 1000, SIZE):
        buffer = Buffers().take(size)
        assert len(buffer) == size
        buffer[:] = b"x" * size


def test_use_a_free_buffer_again_for_its_size_and_smaller() -> None:
    buffers = Buffers()
    buffer = buffers.take(SIZE)
    first = address(buffer)
    for size in (SIZE, 5, SIZE - 1, SIZE, SIZE + SIZE // 10):
        del buffer
        buffer = buffers.take(size)
        assert address(buffer) == first
        assert len(buffer) == size


def test_a_larger_size_gets_a_larger_buffer() -> None:
    buffers = Buffers()
    buffers.take(5)
    assert len(buffers.take(SIZE)) == SIZE


def test_buffers_that_are_looked_at_are_left_alone() -> None:
    buffers = Buffers()
    kept: list[object] = []
    buffer = buffers.take(SIZE)
    buffer[:] = b"a" * SIZE
    looks = [buffer[:1], np.frombuffer(buffer, np.uint8), pa.py_buffer(buffer)]
    del buffer
    for look in looks:
        del kept[:]
        kept.append(look)
        other = buffers.take(SIZE)
        other[:] = b"b" * len(other)
        del other
    assert bytes(looks[0]) == b"a"
    assert looks[2].to_pybytes() == b"a" * SIZE


def test_a_buffer_is_free_again_after_the_last_look() -> None:
    buffers = Buffers()
    buffer = buffers.take(SIZE)
    first, look = address(buffer), buffer[5:]
    del buffer
    assert address(buffers.take(SIZE)) != first
    del look
    taken = [buffers.take(SIZE) for _ in range(KEPT_COUNT_MAX)]
    assert first in map(address, taken)


def test_a_bounded_number_of_buffers_is_kept() -> None:
    buffers = Buffers()
    held = [buffers.take(SIZE) for _ in range(KEPT_COUNT_MAX + 5)]
    assert len(buffers._kept) == KEPT_COUNT_MAX
    assert len(set(map(address, held))) == len(held)


def response(connection: Connection, payload: bytes) -> Response:
    connection.send(FetchRequest("t", 0, 0, len(payload)))
    size = (2 + len(payload)).to_bytes(4, "big")
    [response] = feed(connection, [size + b"\0\0" + payload])
    return response


def test_responses_come_into_the_same_memory_once_they_are_read() -> None:
    connection = Connection(v07.DIALECT)
    places = set()
    for number in range(5):
        payload = bytes([number]) * SIZE
        answer = response(connection, payload)
        assert len(answer.frame) == ROOM_BYTES_MAX + 2 + SIZE
        assert answer.body.message_set == payload
        places.add(address(answer.frame))
        del answer
    assert len(places) == 1


def test_a_response_that_is_kept_stays_as_it_is() -> None:
    connection = Connection(v07.DIALECT)
    answers = [response(connection, bytes([number]) * SIZE) for number in range(5)]
    for number, answer in enumerate(answers):
        assert answer.body.message_set == bytes([number]) * SIZE
