"""Codecs: the properties of every one in the table, and what only one has, as Java reads and writes it."""

from __future__ import annotations

import gzip
import random
import re
import struct
import zlib

import cramjam
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_kafkawire.errors import CorruptDataError, OptionError
from spark_kafkawire.records.compression import (
    CODECS,
    GZIP,
    LZ4,
    LZ4_MAGIC_0,
    SNAPPY,
    ZSTD,
    Codec,
    Format,
    TooLarge,
    codec_named,
    codec_names,
    decompress,
    header_checksum,
)
from tests.support.cases import for_each
from tests.support.codecs import (
    BY_NAME,
    CODEC_NUMBERS,
    XERIAL_HEADER,
    arrow_decode,
    arrow_encode,
    of_magic,
    snappy_raw,
    xerial,
)
from tests.support.codecs import CODECS as ROWS
from tests.support.codecs import FORMS as COMPRESSORS

CHANCE = random.Random(0)
TEXT = b" ".join(CHANCE.choices([b"offset", b"partition", b"leader", b"epoch"], k=60_000))
DATA = [b"", b"x", TEXT[:1000], TEXT[:65536], TEXT, CHANCE.randbytes(150_000)]
#: Text that repeats itself.
WORDS = b"some words, some words again, " * 3000


def decompressed(codec: Codec, payload: bytes, size_max: int = 10**6) -> bytes:
    """The content, in one piece."""
    return b"".join(codec.decompress(memoryview(payload), size_max))


FORMS = pytest.mark.parametrize("form", COMPRESSORS)
EVERY_CODEC = pytest.mark.parametrize("codec", [*CODECS.values(), LZ4_MAGIC_0], ids=lambda codec: codec.name)


def by_number(form: str, payload: bytes, size_max: int = 10**6) -> bytes:
    number = CODEC_NUMBERS[form.split()[0]]
    return b"".join(decompress(number, Format.MAGIC_2, memoryview(payload), size_max))


@EVERY_CODEC
@given(st.binary(max_size=200) | st.sampled_from([WORDS, bytes(32_768), bytes(32_769)]))
def test_what_is_compressed_decompresses_to_the_same(codec: Codec, data: bytes) -> None:
    assert decompressed(codec, bytes(codec.compress(data))) == data


@FORMS
def test_every_form_is_read(form: str) -> None:
    assert by_number(form, COMPRESSORS[form](WORDS)) == WORDS


@EVERY_CODEC
def test_every_cut_of_a_payload_is_damage_or_a_part_of_the_content(codec: Codec) -> None:
    payload = bytes(codec.compress(WORDS[:200]))
    for size in range(len(payload)):
        try:
            assert decompressed(codec, payload[:size]) == b""
        except CorruptDataError:
            continue
        assert size in BY_NAME[codec.name].header_sizes


@pytest.mark.parametrize("size_max", [0, 1, 999])
@FORMS
def test_content_above_the_limit_is_refused(form: str, size_max: int) -> None:
    payload = COMPRESSORS[form](bytes(1000))
    with pytest.raises(TooLarge) as error:
        by_number(form, payload, size_max)
    assert size_max < error.value.size <= 1000
    assert by_number(form, payload, 1000) == bytes(1000)


@EVERY_CODEC
def test_levels_that_do_not_exist_are_refused(codec: Codec) -> None:
    if codec.levels is None:
        with pytest.raises(OptionError, match=f"{codec.name} has no compression levels: remove the option"):
            codec.compress(b"", 1)
        return
    low, high = codec.levels
    for level in (low - 1, high + 1):
        with pytest.raises(
            OptionError, match=f"{codec.name} has the compression levels {low} to {high}, not"
        ):
            codec.compress(b"", level)
    for level in (low, high):
        assert decompressed(codec, bytes(codec.compress(WORDS, level))) == WORDS


def test_each_format_has_the_codecs_that_kafka_gave_it() -> None:
    """Source: KIP-110 for zstd; Apache Kafka's CompressionType.java; 0.7's CompressionCodec.scala."""
    result = [(codec.name, codec.number, codec.levels, codec.produce_version) for codec in CODECS.values()]
    assert result == [(row.name, row.number, row.levels, row.produce_version) for row in ROWS]
    assert codec_names(Format.MESSAGE_SET) == ("none", "gzip", "snappy")
    for format in (Format.MAGIC_0, Format.MAGIC_1, Format.MAGIC_2):
        assert codec_names(format) == of_magic(format.value)


def test_a_codec_is_found_by_name() -> None:
    for format in Format:
        assert codec_named("none", format) is None
        for name in codec_names(format)[1:]:
            is_lz4_magic_0 = (name, format) == ("lz4", Format.MAGIC_0)
            assert codec_named(name, format) is (LZ4_MAGIC_0 if is_lz4_magic_0 else CODECS[name])
    assert CODECS["lz4"] is LZ4


@pytest.mark.parametrize(
    ("name", "format", "said"),
    [
        ("lz4", Format.MESSAGE_SET, "compression lz4 needs Kafka 0.8.2 or later"),
        ("zstd", Format.MAGIC_1, "compression zstd needs Kafka 2.1 or later"),
        ("brotli", Format.MESSAGE_SET, "compression 'brotli' is unknown; choose one of none, gzip, snappy"),
        ("GZIP", Format.MAGIC_0, "compression 'GZIP' is unknown; choose one of none, gzip, snappy, lz4"),
    ],
)
def test_a_codec_that_the_format_has_not_is_refused(name: str, format: Format, said: str) -> None:
    with pytest.raises(OptionError, match=f"^{re.escape(said)}"):
        codec_named(name, format)


@for_each("format", Format)
@for_each("number", range(1, 8))
def test_a_number_that_the_format_has_not_is_damage(format: Format, number: int) -> None:
    known = {CODECS[name].number for name in codec_names(format)[1:]}
    if number not in known:
        with pytest.raises(CorruptDataError, match=f"its compression codec {number} is unknown"):
            decompress(number, format, memoryview(b""), 1)


@pytest.mark.parametrize("level", [None, 1, 2, 3, 4, 6, 9])
def test_gzip_of_every_level_is_read_by_others_and_has_the_jvms_header(level: int | None) -> None:
    payload = bytes(GZIP.compress(WORDS, level))
    assert gzip.decompress(payload) == WORDS
    assert payload[:10].hex() == "1f8b08000000000000ff"


@pytest.mark.parametrize("flag", [0x20, 0x40, 0x80])
def test_reserved_flags_are_damage_in_each_member_as_for_zlib_and_arrow(flag: int) -> None:
    member = gzip.compress(b"value", mtime=0)
    reserved = bytearray(member)
    reserved[3] |= flag
    with pytest.raises(zlib.error, match="unknown header flags"):
        zlib.decompress(bytes(reserved), wbits=31)
    with pytest.raises(OSError, match="unknown header flags"):
        pa.decompress(bytes(reserved), decompressed_size=5, codec="gzip")
    for payload in (bytes(reserved), member + bytes(reserved)):
        with pytest.raises(CorruptDataError, match=f"reserved flags \\(0x{flag:x}, allowed are 0x1f"):
            decompressed(GZIP, payload)


def test_read_gzip_members_with_all_fields_up_to_other_bytes() -> None:
    member = gzip.compress(b"value", mtime=0)
    assert decompressed(GZIP, member * 300) == b"value" * 300
    assert decompressed(GZIP, member + b"\x1f\x8b\x07" + bytes(50)) == b"value"
    # Shorter than any member: the JVM does not look at it.
    assert decompressed(GZIP, member + member[:17]) == b"value"
    with pytest.raises(CorruptDataError, match="end too early"):
        decompressed(GZIP, member + member[:-1])
    header = b"\x1f\x8b\x08\x1e" + bytes(6) + struct.pack("<H", 3) + b"xyzname\0comment\0"
    header += struct.pack("<H", zlib.crc32(header) & 0xFFFF)
    assert decompressed(GZIP, header + gzip.compress(b"value", mtime=0)[10:]) == b"value"


def test_damage_in_any_byte_of_a_payload_is_an_error_or_seen_by_a_checksum() -> None:
    payload = bytes(GZIP.compress(WORDS[:200], None))
    for pos in range(10, len(payload)):
        damaged = bytearray(payload)
        damaged[pos] ^= 1 << random.Random(pos).randrange(8)
        with pytest.raises(CorruptDataError, match="gzip"):
            decompressed(GZIP, bytes(damaged))


#: How a frame of lz4 begins.
LZ4_HEAD = bytes.fromhex("04224d18604082")


@for_each(
    ("codec", "payload"),
    [
        *((SNAPPY, payload) for payload in (
            b"", XERIAL_HEADER[:15], XERIAL_HEADER[:8] + struct.pack(">ii", 0, 1) + b"",
            XERIAL_HEADER + struct.pack(">i", -1) + bytes(9), XERIAL_HEADER + struct.pack(">i", 0),
            XERIAL_HEADER + struct.pack(">i", 10) + bytes(9), xerial(WORDS, 1000)[:-1],
            xerial(WORDS, 1000) + xerial(WORDS, 1000), snappy_raw(WORDS)[:-1], b"\xff\xff\xff\xff\xff\x01",
            b"\xff\x06\x00\x00sNaPpY" + snappy_raw(WORDS),
        )),
        *((LZ4, payload) for payload in (
            b"", LZ4_HEAD[:4], b"\x05\x22\x4d\x18" + bytes(20), bytes(LZ4.compress(TEXT, None))[:-1],
            bytes(LZ4.compress(TEXT, None))[:-5], bytes(LZ4.compress(TEXT, None))[:100],
            LZ4_HEAD[:4] + b"\x61\x40\x00" + bytes(8), LZ4_HEAD[:4] + b"\x60\x30\x00" + bytes(8),
            LZ4_HEAD + struct.pack("<I", 5) + b"\xf0" + bytes(8),
            LZ4_HEAD + struct.pack("<I", 1 << 31 | 70_000) + bytes(70_004),
            LZ4_HEAD + struct.pack("<I", 0x7FFFFFFF) + bytes(9),
        )),
    ],
)  # fmt: skip
def test_report_damage_as_such(codec: Codec, payload: bytes) -> None:
    with pytest.raises(CorruptDataError, match=codec.name):
        decompressed(codec, payload)


def test_more_snappy_blocks_than_the_limit_has_room_for_are_refused() -> None:
    assert decompressed(SNAPPY, xerial(bytes(4096), 1), 10_000) == bytes(4096)
    with pytest.raises(TooLarge, match="it has 4097 compressed blocks or more"):
        decompressed(SNAPPY, xerial(bytes(4097), 1), 10_000)


#: Flags of a frame: version 1, and blocks that do not refer to each other.
INDEPENDENT, VERSION = 0x20, 0x40


@for_each(
    ("codec", "level"),
    [*((LZ4, level) for level in (None, 1, 9, 17)), *((ZSTD, level) for level in (None, -5, 1, 19))],
)
@for_each("data", DATA, ids=len)
def test_frames_are_read_by_arrow_and_have_independent_blocks(
    data: bytes, codec: Codec, level: int | None
) -> None:
    frame = bytes(codec.compress(data, level))
    assert codec is ZSTD or frame[4] & INDEPENDENT
    assert arrow_decode(codec.name, frame) == decompressed(codec, frame) == data


@pytest.mark.parametrize("data", DATA, ids=len)
def test_frames_of_arrow_and_with_linked_blocks_are_read(data: bytes) -> None:
    linked = bytes(cramjam.lz4.compress(data))
    assert not linked[4] & INDEPENDENT
    assert decompressed(LZ4, arrow_encode("lz4", data)) == decompressed(LZ4, linked) == data


def test_magic_0_has_the_checksum_of_brokers_before_0_10() -> None:
    """The header of KafkaLZ4BlockOutputStream with useBrokenHC: blocks of 64 KiB, no checksums."""
    frame = bytes(LZ4_MAGIC_0.compress(TEXT, None))
    right = bytes(LZ4.compress(TEXT, None))
    assert right[:7].hex() == "04224d18604082"
    assert frame[:7].hex() == "04224d1860401a"
    assert frame[7:] == right[7:]
    assert decompressed(LZ4_MAGIC_0, frame) == decompressed(LZ4_MAGIC_0, right) == TEXT
    for frame in (bytes(cramjam.lz4.compress(TEXT)), arrow_encode("lz4", TEXT), bytes(LZ4.compress(TEXT, 9))):
        size = 15 if frame[4] & 8 else 7
        for checksum in (0, frame[size - 1] ^ 1):
            assert decompressed(LZ4_MAGIC_0, frame[: size - 1] + bytes((checksum,)) + frame[size:]) == TEXT


@pytest.mark.parametrize(
    ("data", "byte"), [(b"", 0x5D), (b"a", 0x74), (b"abc", 0x53), (b"Hello, world!", 0x40)]
)
def test_header_checksums_are_of_xxh32(data: bytes, byte: int) -> None:
    """XXH32 of these is 02CC5D05, 550D7456, 32D153FF and 31B7405D."""
    assert header_checksum(data) == bytes((byte,))


def test_a_block_that_looks_as_if_a_size_were_before_it_is_read_as_it_is() -> None:
    """A zero, four times the same, then five literals; or, after 65552 as int32, five literals."""
    block = b"\x10\x00\x01\x00\x50abcde"
    frame = LZ4_HEAD + struct.pack("<I", len(block)) + block + bytes(4)
    for limit in (1 << 20, 10):
        assert decompressed(LZ4, frame, limit) == bytes(5) + b"abcde"


@pytest.mark.parametrize("linked", [False, True])
def test_sizes_are_bounded_exactly(linked: bool) -> None:
    frame = bytes(cramjam.lz4.compress(TEXT) if linked else LZ4.compress(TEXT, None))
    assert decompressed(LZ4, frame, len(TEXT)) == TEXT
    for size_max in (len(TEXT) - 1, 70_000, 1):
        with pytest.raises(TooLarge):
            decompressed(LZ4, frame, size_max)


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
        assert decompressed(codec, frame) == decompressed(codec, frame + b"junk") == b"abc"
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
            decompressed(codec, frame)


def test_a_wrong_checksum_of_the_header_is_damage_but_with_magic_0() -> None:
    frame = framed(FLAGS)
    wrong = frame[:6] + bytes((frame[6] ^ 1,)) + frame[7:]
    with pytest.raises(CorruptDataError, match="damaged header: the checksum is 83, computed is 82"):
        decompressed(LZ4, wrong)
    assert decompressed(LZ4_MAGIC_0, wrong) == b"abc"


def test_an_empty_plain_block_ends_a_frame_as_for_java() -> None:
    """Lz4BlockInputStream takes any block of no bytes for the end mark."""
    block = struct.pack("<I", 1 << 31 | 1)
    frame = LZ4_HEAD + block + b"a" + struct.pack("<I", 1 << 31) + block + b"b" + bytes(4)
    assert decompressed(LZ4, frame) == b"a"


@pytest.mark.parametrize("block", [b"\1\0\0\0\0", b"\1\0\0\x80a"])
def test_more_blocks_than_the_limit_has_room_for_are_refused(block: bytes) -> None:
    """Tables of 15 million blocks took 1.5 GB, and their decoding 104 s."""
    frame = LZ4_HEAD + block * 20_000 + bytes(4)
    assert len(decompressed(LZ4, frame, 20_000 * 64)) in (0, 20_000)
    with pytest.raises(TooLarge, match="it has 15626 compressed blocks or more, and each counts as 64 bytes"):
        decompressed(LZ4, frame, 1_000_000)


def test_content_does_not_keep_the_room_for_blocks() -> None:
    """Ten thousand messages of a few bytes kept 64 KiB each, or 4 MiB."""
    packed = bytes(cramjam.lz4.compress_block(b"ab" * 20, store_size=False))
    frame = b"\x04\x22\x4d\x18\x60\x70\x73" + struct.pack("<I", len(packed)) + packed + bytes(4)
    [part] = LZ4.decompress(memoryview(frame), 1 << 20)
    assert memoryview(part).obj == b"ab" * 20


CONTENT_SIZE_BITS = 0xE0


def with_size(data: bytes) -> bytes:
    return bytes(pa.compress(data, codec="zstd", asbytes=True))


@pytest.mark.parametrize("data", DATA, ids=len)
def test_frames_with_and_without_a_size_are_read(data: bytes) -> None:
    assert with_size(TEXT)[4] & CONTENT_SIZE_BITS
    assert not arrow_encode("zstd", TEXT)[4] & CONTENT_SIZE_BITS
    assert decompressed(ZSTD, with_size(data)) == decompressed(ZSTD, arrow_encode("zstd", data)) == data


def test_several_frames_are_one_after_the_other() -> None:
    skipped = struct.pack("<II", 0x184D2A53, 5) + b"\x28\xb5\x2f\xfd!"
    assert (
        decompressed(ZSTD, with_size(TEXT) + skipped + arrow_encode("zstd", b"end") + skipped)
        == TEXT + b"end"
    )


@pytest.mark.parametrize("frame", [with_size(TEXT), arrow_encode("zstd", TEXT), with_size(b"x")], ids=len)
def test_every_cut_and_every_lie_about_the_size_is_damage(frame: bytes) -> None:
    for size in {*range(1, min(40, len(frame))), len(frame) // 2, len(frame) - 1}:
        with pytest.raises(CorruptDataError, match="zstd"):
            decompressed(ZSTD, frame[:size])
    with pytest.raises(CorruptDataError, match="zstd"):
        decompressed(ZSTD, frame[:6] + bytes((frame[6] ^ 0xFF,)) + frame[7:])


def test_a_window_above_the_limit_is_refused_and_one_of_8_mib_never() -> None:
    for exponent, expected in ((13, True), (14, False), (17, False)):
        frame = struct.pack("<IBB", 0xFD2FB528, 0, exponent << 3) + b"\1\0\0"
        if expected:
            assert decompressed(ZSTD, frame, 1000) == b""
            continue
        assert decompressed(ZSTD, frame, 1 << 27) == b""
        with pytest.raises(TooLarge, match=f"its zstd window has {1 << 10 + exponent} bytes"):
            decompressed(ZSTD, frame, (1 << 10 + exponent) - 1)


def test_more_than_the_limit_has_room_for_is_refused_in_zstd() -> None:
    block = struct.pack("<I", 131_072 << 3 | 2)[:3] + b"\0"
    frame = struct.pack("<IBB", 0xFD2FB528, 0, 0x58) + block * 1000
    with pytest.raises(TooLarge, match="it decompresses to 10092544 bytes or more"):
        decompressed(ZSTD, frame, 10_000_000)
    frame = struct.pack("<IBB", 0xFD2FB528, 0x20, 0) + b"\1\0\0"
    assert decompressed(ZSTD, frame * 4096, 1) == b""
    with pytest.raises(TooLarge, match="it has 4097 compressed blocks or more"):
        decompressed(ZSTD, frame * 4097, 1)
