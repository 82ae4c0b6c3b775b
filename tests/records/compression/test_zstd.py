"""zstd frames with and without sizes, one or several, against Arrow's library."""

from __future__ import annotations

import struct

import pyarrow as pa
import pytest

from spark_kafkawire.errors import CorruptDataError, OptionError
from spark_kafkawire.records.compression.codec import TooLarge
from spark_kafkawire.records.compression.zstd import ZSTD
from tests.support.cases import for_each
from tests.support.codecs import arrow_decode, arrow_encode

from .data import DATA, TEXT

CONTENT_SIZE_BITS = 0xE0


def with_size(data: bytes) -> bytes:
    return bytes(pa.compress(data, codec="zstd", asbytes=True))


def without_size(data: bytes) -> bytes:
    return arrow_encode("zstd", data)


def unpacked(frames: bytes, size_max: int = 1 << 20) -> bytes:
    return b"".join(ZSTD.decompress(memoryview(frames), size_max))


@for_each("level", [None, -5, 1, 19])
@for_each("data", DATA, ids=len)
def test_frames_are_read_by_arrow(data: bytes, level: int | None) -> None:
    frame = bytes(ZSTD.compress(data, level))
    assert arrow_decode("zstd", frame) == unpacked(frame) == data


@pytest.mark.parametrize("data", DATA, ids=len)
def test_frames_with_and_without_a_size_are_read(data: bytes) -> None:
    assert with_size(TEXT)[4] & CONTENT_SIZE_BITS
    assert not without_size(TEXT)[4] & CONTENT_SIZE_BITS
    assert unpacked(with_size(data)) == unpacked(without_size(data)) == data


def test_several_frames_are_one_after_the_other() -> None:
    skipped = struct.pack("<II", 0x184D2A53, 5) + b"\x28\xb5\x2f\xfd!"
    assert unpacked(with_size(TEXT) + skipped + without_size(b"end") + skipped) == TEXT + b"end"


def test_higher_levels_make_smaller_frames() -> None:
    sizes = [len(ZSTD.compress(TEXT, level)) for level in (-5, 1, 19)]
    assert sizes == sorted(sizes, reverse=True)
    assert ZSTD.compress(TEXT, None) == ZSTD.compress(TEXT, 3)


@pytest.mark.parametrize("level", [23, -131_073])
def test_other_levels_are_refused(level: int) -> None:
    with pytest.raises(OptionError, match=f"zstd has the compression levels -131072 to 22, not {level}"):
        ZSTD.compress(b"x", level)


@pytest.mark.parametrize("encode", [with_size, without_size])
def test_sizes_are_bounded_exactly(encode: object) -> None:
    assert callable(encode)
    frame = encode(TEXT)
    assert unpacked(frame, len(TEXT)) == TEXT
    for size_max in (len(TEXT) - 1, 1):
        with pytest.raises(TooLarge):
            unpacked(frame, size_max)


@pytest.mark.parametrize("frame", [with_size(TEXT), without_size(TEXT), with_size(b"x")], ids=len)
def test_every_cut_and_every_lie_about_the_size_is_damage(frame: bytes) -> None:
    for size in {*range(1, min(40, len(frame))), len(frame) // 2, len(frame) - 1}:
        with pytest.raises(CorruptDataError, match="zstd"):
            unpacked(frame[:size])
    with pytest.raises(CorruptDataError, match="zstd"):
        unpacked(frame[:6] + bytes((frame[6] ^ 0xFF,)) + frame[7:])


def test_a_window_above_the_limit_is_refused_and_one_of_8_mib_never() -> None:
    for exponent, expected in ((13, True), (14, False), (17, False)):
        frame = struct.pack("<IBB", 0xFD2FB528, 0, exponent << 3) + b"\1\0\0"
        if expected:
            assert unpacked(frame, 1000) == b""
            continue
        assert unpacked(frame, 1 << 27) == b""
        with pytest.raises(TooLarge, match=f"its zstd window has {1 << 10 + exponent} bytes"):
            unpacked(frame, (1 << 10 + exponent) - 1)


def test_blocks_of_a_known_size_are_refused_before_memory_is_taken() -> None:
    block = struct.pack("<I", 131_072 << 3 | 2)[:3] + b"\0"
    frame = struct.pack("<IBB", 0xFD2FB528, 0, 0x58) + block * 1000
    with pytest.raises(TooLarge, match="it decompresses to 10092544 bytes or more"):
        unpacked(frame, 10_000_000)


def test_more_frames_than_the_limit_has_room_for_are_refused() -> None:
    frame = struct.pack("<IBB", 0xFD2FB528, 0x20, 0) + b"\1\0\0"
    assert unpacked(frame * 4096, 1) == b""
    with pytest.raises(TooLarge, match="it has 4097 blocks or more"):
        unpacked(frame * 4097, 1)
