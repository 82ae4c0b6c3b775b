"""gzip and snappy as the JVM reads and writes them. The recorded cases: test_recorded_sets."""

from __future__ import annotations

import gzip
import random
import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_kafkawire.errors import CorruptDataError, OptionError
from spark_kafkawire.records.compression.gzip import CODECS, GZIP, SNAPPY, Codec, TooLarge, codec_named
from tests.records.message_set.trees import COMPRESSORS, XERIAL_HEADER, snappy_raw, xerial

FORMS = pytest.mark.parametrize(
    ("number", "style"), [(number, i) for number, styles in COMPRESSORS.items() for i in range(len(styles))]
)
TEXT = b"some words, some words again, " * 3000


def decompressed(codec: Codec, payload: bytes, size_max: int = 10**6) -> bytes:
    return b"".join(codec.decompress(memoryview(payload), size_max))


@pytest.mark.parametrize("codec", CODECS.values(), ids=lambda codec: codec.name)
@given(st.binary(max_size=200) | st.sampled_from([TEXT, bytes(32_768), bytes(32_769)]))
def test_what_is_compressed_decompresses_to_the_same(codec: Codec, data: bytes) -> None:
    assert decompressed(codec, bytes(codec.compress(data, None))) == data


@FORMS
def test_every_form_that_the_jvm_reads_is_read(number: int, style: int) -> None:
    assert decompressed(CODECS[number], COMPRESSORS[number][style](TEXT)) == TEXT


@pytest.mark.parametrize("codec", CODECS.values(), ids=lambda codec: codec.name)
def test_every_cut_of_a_payload_is_damage_or_a_part_of_the_content(codec: Codec) -> None:
    payload = bytes(codec.compress(TEXT[:200], None))
    for size in range(len(payload)):
        try:
            assert decompressed(codec, payload[:size]) == b""
        except CorruptDataError:
            continue
        # Only the bare header of a framed stream is a whole, empty stream.
        assert codec is SNAPPY
        assert size in range(16, 20)


@pytest.mark.parametrize("size_max", [0, 1, 999])
@FORMS
def test_content_above_the_limit_is_refused(number: int, style: int, size_max: int) -> None:
    payload = COMPRESSORS[number][style](bytes(1000))
    with pytest.raises(TooLarge) as error:
        decompressed(CODECS[number], payload, size_max)
    assert size_max < error.value.size <= 1000
    assert decompressed(CODECS[number], payload, 1000) == bytes(1000)


@pytest.mark.parametrize("level", [None, 1, 2, 3, 4, 6, 9])
def test_gzip_of_every_level_is_read_by_others_and_has_the_jvms_header(level: int | None) -> None:
    payload = bytes(GZIP.compress(TEXT, level))
    assert gzip.decompress(payload) == TEXT
    assert payload[:10].hex() == "1f8b08000000000000ff"


def test_levels_that_do_not_exist_are_refused() -> None:
    for level in (0, 10, -1):
        with pytest.raises(OptionError, match="levels 1 to 9"):
            GZIP.compress(b"", level)
    with pytest.raises(OptionError, match="no compression levels"):
        SNAPPY.compress(b"", 1)


def test_a_codec_is_found_by_name() -> None:
    assert codec_named("none") is None
    assert codec_named("gzip") is GZIP
    assert codec_named("snappy") is SNAPPY
    with pytest.raises(OptionError, match="compression is one of none, gzip, snappy, not 'lz4'"):
        codec_named("lz4")


def test_a_gzip_header_may_have_every_optional_field() -> None:
    header = b"\x1f\x8b\x08\x1e" + bytes(6) + struct.pack("<H", 3) + b"xyzname\0comment\0"
    header += struct.pack("<H", zlib.crc32(header) & 0xFFFF)
    assert decompressed(GZIP, header + gzip.compress(b"value", mtime=0)[10:]) == b"value"


def test_gzip_members_are_read_up_to_what_is_no_member() -> None:
    member = gzip.compress(b"value", mtime=0)
    assert decompressed(GZIP, member * 300) == b"value" * 300
    assert decompressed(GZIP, member + b"\x1f\x8b\x07" + bytes(50)) == b"value"
    # Shorter than any member: the JVM does not look at it.
    assert decompressed(GZIP, member + member[:17]) == b"value"
    with pytest.raises(CorruptDataError, match="end too early"):
        decompressed(GZIP, member + member[:-1])


def test_damage_in_any_byte_of_a_payload_is_an_error_or_seen_by_a_checksum() -> None:
    payload = bytes(GZIP.compress(TEXT[:200], None))
    for pos in range(10, len(payload)):
        damaged = bytearray(payload)
        damaged[pos] ^= 1 << random.Random(pos).randrange(8)
        with pytest.raises(CorruptDataError, match="gzip"):
            decompressed(GZIP, bytes(damaged))


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        XERIAL_HEADER[:15],
        XERIAL_HEADER[:8] + struct.pack(">ii", 0, 1) + b"",
        XERIAL_HEADER + struct.pack(">i", -1) + bytes(9),
        XERIAL_HEADER + struct.pack(">i", 0),
        XERIAL_HEADER + struct.pack(">i", 10) + bytes(9),
        xerial(TEXT, 1000)[:-1],
        xerial(TEXT, 1000) + xerial(TEXT, 1000),
        snappy_raw(TEXT)[:-1],
        b"\xff\xff\xff\xff\xff\x01",
        b"\xff\x06\x00\x00sNaPpY" + snappy_raw(TEXT),
    ],
)
def test_damaged_snappy_is_refused(payload: bytes) -> None:
    with pytest.raises(CorruptDataError, match="snappy"):
        decompressed(SNAPPY, payload)
