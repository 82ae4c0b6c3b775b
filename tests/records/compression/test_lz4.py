"""lz4 frames as Kafka needs them, against Arrow's library."""

from __future__ import annotations

import struct

import cramjam
import pytest

from spark_kafkawire.errors import CorruptDataError, OptionError
from spark_kafkawire.records.compression.codec import Codec, TooLarge
from spark_kafkawire.records.compression.lz4 import LZ4, LZ4_MAGIC_0, header_checksum
from tests.support.cases import for_each
from tests.support.codecs import arrow_decode, arrow_encode

from .data import DATA, TEXT

#: Flags of a frame: version 1, and blocks that do not refer to each other.
INDEPENDENT, VERSION = 0x20, 0x40


def unpacked(codec: Codec, frame: bytes, size_max: int = 1 << 20) -> bytes:
    return b"".join(codec.decompress(memoryview(frame), size_max))


@for_each("level", [None, 1, 9, 17])
@for_each("data", DATA, ids=len)
def test_frames_are_read_by_arrow_and_have_independent_blocks(data: bytes, level: int | None) -> None:
    frame = bytes(LZ4.compress(data, level))
    assert frame[4] & INDEPENDENT
    assert arrow_decode("lz4", frame) == unpacked(LZ4, frame) == data


@pytest.mark.parametrize("data", DATA, ids=len)
def test_frames_of_arrow_and_with_linked_blocks_are_read(data: bytes) -> None:
    linked = bytes(cramjam.lz4.compress(data))
    assert not linked[4] & INDEPENDENT
    assert unpacked(LZ4, arrow_encode("lz4", data)) == unpacked(LZ4, linked) == data


def test_higher_levels_make_smaller_frames() -> None:
    sizes = [len(LZ4.compress(TEXT, level)) for level in (None, 3, 9)]
    assert sizes == sorted(sizes, reverse=True)
    assert len(set(sizes)) == 3


@pytest.mark.parametrize("level", [0, -1, 18])
def test_other_levels_are_refused(level: int) -> None:
    with pytest.raises(OptionError, match=f"lz4 has the compression levels 1 to 17, not {level}"):
        LZ4.compress(b"x", level)


def test_what_follows_a_frame_is_ignored() -> None:
    for frame in (bytes(LZ4.compress(TEXT, None)), bytes(cramjam.lz4.compress(TEXT))):
        assert unpacked(LZ4, frame + b"junk") == TEXT


def test_magic_0_has_the_checksum_of_brokers_before_0_10() -> None:
    """The header of KafkaLZ4BlockOutputStream with useBrokenHC: blocks of 64 KiB, no checksums."""
    frame = bytes(LZ4_MAGIC_0.compress(TEXT, None))
    right = bytes(LZ4.compress(TEXT, None))
    assert right[:7].hex() == "04224d18604082"
    assert frame[:7].hex() == "04224d1860401a"
    assert frame[7:] == right[7:]
    assert unpacked(LZ4_MAGIC_0, frame) == unpacked(LZ4_MAGIC_0, right) == TEXT


@pytest.mark.parametrize(
    ("data", "byte"), [(b"", 0x5D), (b"a", 0x74), (b"abc", 0x53), (b"Hello, world!", 0x40)]
)
def test_header_checksums_are_of_xxh32(data: bytes, byte: int) -> None:
    """XXH32 of these is 02CC5D05, 550D7456, 32D153FF and 31B7405D."""
    assert header_checksum(data) == bytes((byte,))


def test_magic_0_is_read_whatever_its_header_checksum() -> None:
    for frame in (bytes(cramjam.lz4.compress(TEXT)), arrow_encode("lz4", TEXT), bytes(LZ4.compress(TEXT, 9))):
        size = 15 if frame[4] & 8 else 7
        for checksum in (0, frame[size - 1] ^ 1):
            assert unpacked(LZ4_MAGIC_0, frame[: size - 1] + bytes((checksum,)) + frame[size:]) == TEXT


def test_a_block_that_looks_as_if_a_size_were_before_it_is_read_as_it_is() -> None:
    """A zero, four times the same, then five literals; or, after 65552 as int32, five literals."""
    block = b"\x10\x00\x01\x00\x50abcde"
    frame = bytes.fromhex("04224d18604082") + struct.pack("<I", len(block)) + block + bytes(4)
    for limit in (1 << 20, 10):
        assert unpacked(LZ4, frame, limit) == bytes(5) + b"abcde"


@pytest.mark.parametrize("linked", [False, True])
def test_sizes_are_bounded_exactly(linked: bool) -> None:
    frame = bytes(cramjam.lz4.compress(TEXT) if linked else LZ4.compress(TEXT, None))
    assert unpacked(LZ4, frame, len(TEXT)) == TEXT
    for size_max in (len(TEXT) - 1, 70_000, 1):
        with pytest.raises(TooLarge):
            unpacked(LZ4, frame, size_max)


@for_each(
    "frame",
    [
        b"",
        b"\x04\x22\x4d\x18",
        b"\x05\x22\x4d\x18" + bytes(20),
        bytes(LZ4.compress(TEXT, None))[:-1],
        bytes(LZ4.compress(TEXT, None))[:-5],
        bytes(LZ4.compress(TEXT, None))[:100],
        b"\x04\x22\x4d\x18\x61\x40\x00" + bytes(8),
        b"\x04\x22\x4d\x18\x60\x30\x00" + bytes(8),
        b"\x04\x22\x4d\x18\x60\x40\x82" + struct.pack("<I", 5) + b"\xf0" + bytes(8),
        b"\x04\x22\x4d\x18\x60\x40\x82" + struct.pack("<I", 1 << 31 | 70_000) + bytes(70_004),
        b"\x04\x22\x4d\x18\x60\x40\x82" + struct.pack("<I", 0x7FFFFFFF) + bytes(9),
    ],
)
def test_damage_is_told_as_such(frame: bytes) -> None:
    with pytest.raises(CorruptDataError, match="lz4"):
        unpacked(LZ4, frame)


def framed(flags: int, code: int = 0x40, *, block_checksum: bytes = b"", after: bytes = b"") -> bytes:
    """A frame of one plain block ``abc``, with the right checksum of its header."""
    header = bytes((flags, code))
    block = struct.pack("<I", 1 << 31 | 3) + b"abc" + block_checksum
    return b"\x04\x22\x4d\x18" + header + header_checksum(header) + block + bytes(4) + after


#: XXH32 of ``abc``, which is that of its block and of the content.
CHECKSUM = bytes.fromhex("ff53d132")
CONTENT_CHECKSUM, BLOCK_CHECKSUM = 4, 16
FLAGS = VERSION | INDEPENDENT


@pytest.mark.parametrize(
    "frame",
    [
        framed(FLAGS),
        framed(FLAGS | CONTENT_CHECKSUM, after=CHECKSUM),
        framed(FLAGS | BLOCK_CHECKSUM, block_checksum=CHECKSUM),
        framed(FLAGS | BLOCK_CHECKSUM | CONTENT_CHECKSUM, block_checksum=CHECKSUM, after=CHECKSUM),
    ],
)
def test_frames_with_checksums_are_read_by_all(frame: bytes) -> None:
    for codec in (LZ4, LZ4_MAGIC_0):
        assert unpacked(codec, frame) == unpacked(codec, frame + b"junk") == b"abc"
    assert bytes(cramjam.lz4.decompress(frame)) == b"abc"


@for_each(
    ("frame", "reported"),
    [
        *((framed(FLAGS | CONTENT_CHECKSUM, after=CHECKSUM[:size]), "ends too early") for size in range(4)),
        (framed(FLAGS | BLOCK_CHECKSUM, block_checksum=bytes(4)), "damaged .*[Bb]lockChecksum"),
        (framed(FLAGS | 2), "damaged header"),
        (framed(INDEPENDENT), "damaged header"),
        (framed(0x80 | INDEPENDENT), "damaged header"),
        (framed(FLAGS, 0x41), "damaged header"),
        (framed(FLAGS, 0xC0), "damaged header"),
    ],
)
def test_what_java_and_lz4_refuse_is_damage(frame: bytes, reported: str) -> None:
    """Lz4BlockInputStream of kafka-clients 3.9.1 refuses each of them, as lz4 does: it throws a
    BufferUnderflowException where the content's checksum is cut."""
    with pytest.raises(cramjam.DecompressionError):
        cramjam.lz4.decompress(frame)
    for codec in (LZ4, LZ4_MAGIC_0):
        with pytest.raises(CorruptDataError, match=f"lz4 .*{reported}"):
            unpacked(codec, frame)


def test_a_wrong_checksum_of_the_header_is_damage_but_with_magic_0() -> None:
    frame = framed(FLAGS)
    wrong = frame[:6] + bytes((frame[6] ^ 1,)) + frame[7:]
    with pytest.raises(CorruptDataError, match="damaged header: the checksum is 83, computed is 82"):
        unpacked(LZ4, wrong)
    assert unpacked(LZ4_MAGIC_0, wrong) == b"abc"


def test_an_empty_plain_block_ends_a_frame_as_for_java() -> None:
    """Lz4BlockInputStream takes any block of no bytes for the end mark."""
    block = struct.pack("<I", 1 << 31 | 1)
    frame = (
        b"\x04\x22\x4d\x18\x60\x40\x82" + block + b"a" + struct.pack("<I", 1 << 31) + block + b"b" + bytes(4)
    )
    assert unpacked(LZ4, frame) == b"a"


@pytest.mark.parametrize("block", [b"\1\0\0\0\0", b"\1\0\0\x80a"])
def test_more_blocks_than_the_limit_has_room_for_are_refused(block: bytes) -> None:
    """Tables of 15 million blocks took 1.5 GB, and their decoding 104 s."""
    frame = b"\x04\x22\x4d\x18\x60\x40\x82" + block * 20_000 + bytes(4)
    assert len(unpacked(LZ4, frame, 20_000 * 64)) in (0, 20_000)
    with pytest.raises(TooLarge, match="it has 15626 blocks or more, and each counts as 64 bytes"):
        unpacked(LZ4, frame, 1_000_000)


def test_content_does_not_keep_the_room_for_blocks() -> None:
    """Ten thousand messages of a few bytes kept 64 KiB each, or 4 MiB."""
    packed = bytes(cramjam.lz4.compress_block(b"ab" * 20, store_size=False))
    frame = b"\x04\x22\x4d\x18\x60\x70\x73" + struct.pack("<I", len(packed)) + packed + bytes(4)
    [part] = LZ4.decompress(memoryview(frame), 1 << 20)
    assert memoryview(part).obj == b"ab" * 20
