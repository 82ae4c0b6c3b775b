"""One declaration gives every version of a message: ranges, nulls, compact lengths, tagged fields."""

from __future__ import annotations

import tracemalloc
import uuid
from dataclasses import dataclass, replace
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_kafkawire.errors import ProtocolError, UnsupportedVersionError
from spark_kafkawire.protocol.primitives import (
    BOOL,
    BYTES,
    INT8,
    INT16,
    UUID,
    AnyType,
    Array,
    Buffer,
    String,
    join,
)
from spark_kafkawire.protocol.schema import Struct, codec, wire
from spark_kafkawire.protocol.varint import COMPACT_LENGTH, UNSIGNED_VARINT
from tests.support.cases import for_each

FLEXIBLE_SINCE: Final = 3
ID: Final = uuid.UUID("00112233-4455-6677-8899-aabbccddeeff")


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    index: int = wire(INT8)
    epoch: int = wire(INT8, since=1, default=-1, ignorable=True)
    leader: int = wire(INT8, since=3, tag=1, default=-1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    old: int = wire(INT8, until=0, default=9)
    name: str | None = wire(String(), nullable_since=2)
    header: str = wire(String(), compact=False)
    parts: tuple[Part, ...] | None = wire(Array(Struct(Part)), nullable_since=1, null_before=())
    middle: bool = wire(BOOL, since=1, until=2, default=False)
    id: uuid.UUID = wire(UUID, since=3, default=ID)
    data: Buffer | None = wire(BYTES, since=3, nullable_since=3, default=None, shown=False)
    sixth: Part = wire(Struct(Part), since=3, tag=6, default=Part(index=0))
    first: int = wire(INT16, since=3, tag=0, default=0)
    local: str = "not on the wire"


VALUE: Final = Message(name="ab", header="h", parts=(Part(index=7),))


def written(message: Message, version: int) -> bytes:
    out: list[Buffer] = []
    codec(Message, version, version >= FLEXIBLE_SINCE).write(message, out)
    return join(out)


def read(data: bytes, version: int) -> Message:
    message, end = codec(Message, version, version >= FLEXIBLE_SINCE).read(memoryview(data), 0)
    assert end == len(data)
    return message


@pytest.mark.parametrize(
    ("version", "data"),
    [
        (0, "09 0002 6162 0001 68 00000001 07"),
        (1, "0002 6162 0001 68 00000001 07 ff 00"),
        (2, "0002 6162 0001 68 00000001 07 ff 00"),
        (3, "03 6162 0001 68 02 07 ff 00 00112233445566778899aabbccddeeff 00 00"),
    ],
)
def test_a_field_travels_in_its_versions_only(version: int, data: str) -> None:
    assert written(VALUE, version) == bytes.fromhex(data)
    assert read(bytes.fromhex(data), version) == VALUE


def test_a_null_is_the_length_minus_one_and_zero_where_lengths_are_compact() -> None:
    message = replace(VALUE, name=None, parts=None)
    assert written(message, 2) == bytes.fromhex("ffff 0001 68 ffffffff 00")
    assert written(message, 3).startswith(bytes.fromhex("00 0001 68 00"))
    assert read(written(message, 2), 2) == read(written(message, 3), 3) == message


def test_a_null_that_a_version_lacks_is_replaced_or_refused() -> None:
    assert read(written(replace(VALUE, parts=None), 0), 0).parts == ()
    with pytest.raises(
        UnsupportedVersionError, match=r"Message version 1 cannot carry this name: .* too old"
    ):
        written(replace(VALUE, name=None), 1)
    with pytest.raises(ProtocolError, match="string of -1 bytes"):
        read(bytes.fromhex("ffff 0001 68 00000000 00"), 1)


def test_a_value_that_a_version_lacks_is_refused_unless_it_may_be_ignored() -> None:
    with pytest.raises(UnsupportedVersionError, match="Message version 1 cannot carry this data"):
        written(replace(VALUE, data=b"x"), 1)
    with pytest.raises(UnsupportedVersionError, match="Message version 2 cannot carry this first"):
        written(replace(VALUE, first=1), 2)
    ignored = replace(VALUE, parts=(Part(index=7, epoch=5),))
    assert read(written(ignored, 0), 0) == VALUE


def test_tagged_fields_are_sent_in_order_of_their_tags_where_they_are_not_their_defaults() -> None:
    message = replace(VALUE, first=258, sixth=Part(index=1, leader=2))
    tagged = "02  00 02 0102  06 06 01 ff 01 01 01 02".replace(" ", "")
    assert written(message, 3).endswith(bytes.fromhex(tagged))
    assert read(written(message, 3), 3) == message


def test_tags_that_are_not_declared_are_skipped_in_the_message_and_in_its_structs() -> None:
    inner = "02 07 ff  02 05 03 aaaaaa 01 01 04"
    outer = "03  00 02 0102  05 00  ffffffff0f 02 bbbb"
    data = bytes.fromhex(f"03 6162 0001 68 {inner} 00112233445566778899aabbccddeeff 00 {outer}")
    assert read(data, 3) == replace(VALUE, first=258, parts=(Part(index=7, leader=4),))


@for_each(
    ("tagged", "message"),
    [
        ("01 00 03 010200", "tagged field 0 of 3 bytes at 30 ends after 2"),
        ("01 00 01 01", "int16 of 2 bytes at 0 does not fit"),
        ("01 05 05 aa", "tagged field of 5 bytes at 30 does not fit"),
        ("01 05 ffffffff0f aa", "tagged field of 4294967295 bytes"),
        ("05 05 00", "varint at 30 has no end"),
        ("e907" + "05 00" * 1001, "1001 tagged fields at 29: at most 1000 are read"),
        ("ffffffffff 00", "varint at 27 has no end within 5 bytes"),
        ("ffffffff1f 00", "varint at 27 has more than 32 bits"),
    ],
)
def test_tagged_fields_that_lie_are_refused(tagged: str, message: str) -> None:
    body = written(VALUE, 3)[:-1]
    with pytest.raises(ProtocolError) as caught:
        read(body + bytes.fromhex(tagged), 3)
    assert message in str(caught.value)


def test_as_many_tagged_fields_as_are_read_are_skipped() -> None:
    assert read(written(VALUE, 3)[:-1] + bytes.fromhex("e807" + "05 00" * 1000), 3) == VALUE


@pytest.mark.parametrize("count", ["ffffffff0f", "ffffff7f", "10"])
def test_a_count_above_the_bytes_that_are_left_takes_no_memory(count: str) -> None:
    data = memoryview(bytes.fromhex(count))
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError, match="does not fit in a frame"):
            Array(INT8, count=COMPACT_LENGTH).read(data, 0)
        # As many bytes would be 256 MiB; threads of tests before this one may allocate some beside it.
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_a_reader_and_writer_is_derived_once() -> None:
    assert codec(Message, 2, False) is codec(Message, 2, False)
    assert codec(Message, 2, False) is not codec(Message, 1, False)


def test_secrets_and_payloads_are_not_shown() -> None:
    assert "data" not in repr(replace(VALUE, data=b"secret"))


VARINTS: Final[dict[int, str]] = {0: "00", 127: "7f", 128: "8001", 300: "ac02", 2**32 - 1: "ffffffff0f"}


@pytest.mark.parametrize("value", VARINTS)
def test_an_unsigned_varint_is_kafkas(value: int) -> None:
    out: list[Buffer] = []
    UNSIGNED_VARINT.write(value, out)
    assert join(out) == bytes.fromhex(VARINTS[value])


@given(value=st.integers(0, 2**32 - 1), before=st.binary(max_size=3), after=st.binary(max_size=3))
def test_an_unsigned_varint_is_read_back_where_it_stands(value: int, before: bytes, after: bytes) -> None:
    out: list[Buffer] = [before]
    UNSIGNED_VARINT.write(value, out)
    data = join(out)
    assert UNSIGNED_VARINT.read(memoryview(data + after), len(before)) == (value, len(data))


TYPES: Final[dict[str, AnyType]] = {
    "varint": UNSIGNED_VARINT,
    "compact length": COMPACT_LENGTH,
    "bool": BOOL,
    "uuid": UUID,
    "compact string": String(length=COMPACT_LENGTH, nullable=True),
    "compact array": Array(String(length=COMPACT_LENGTH), count=COMPACT_LENGTH, nullable=True),
    "flexible struct": codec(Message, 3, True),
}


@pytest.mark.parametrize("name", TYPES)
@given(frame=st.binary(max_size=40))
def test_any_bytes_are_a_value_or_a_protocol_error(name: str, frame: bytes) -> None:
    value: Any
    try:
        value, end = TYPES[name].read(memoryview(frame), 0)
    except ProtocolError:
        return
    assert value is not ...
    assert 0 <= end <= len(frame)
