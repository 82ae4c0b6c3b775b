"""gzip as Java reads and writes it. The recorded cases: test_recorded_sets."""

from __future__ import annotations

import gzip
import random
import struct
import zlib

import pyarrow as pa
import pytest

from spark_kafkawire.errors import CorruptDataError
from spark_kafkawire.records.compression.gzip import GZIP

from .data import WORDS, decompressed


@pytest.mark.parametrize("level", [None, 1, 2, 3, 4, 6, 9])
def test_gzip_of_every_level_is_read_by_others_and_has_the_jvms_header(level: int | None) -> None:
    payload = bytes(GZIP.compress(WORDS, level))
    assert gzip.decompress(payload) == WORDS
    assert payload[:10].hex() == "1f8b08000000000000ff"


def test_a_gzip_header_may_have_every_optional_field() -> None:
    header = b"\x1f\x8b\x08\x1e" + bytes(6) + struct.pack("<H", 3) + b"xyzname\0comment\0"
    header += struct.pack("<H", zlib.crc32(header) & 0xFFFF)
    assert decompressed(GZIP, header + gzip.compress(b"value", mtime=0)[10:]) == b"value"


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


def test_gzip_members_are_read_up_to_what_is_no_member() -> None:
    member = gzip.compress(b"value", mtime=0)
    assert decompressed(GZIP, member * 300) == b"value" * 300
    assert decompressed(GZIP, member + b"\x1f\x8b\x07" + bytes(50)) == b"value"
    # Shorter than any member: the JVM does not look at it.
    assert decompressed(GZIP, member + member[:17]) == b"value"
    with pytest.raises(CorruptDataError, match="end too early"):
        decompressed(GZIP, member + member[:-1])


def test_damage_in_any_byte_of_a_payload_is_an_error_or_seen_by_a_checksum() -> None:
    payload = bytes(GZIP.compress(WORDS[:200], None))
    for pos in range(10, len(payload)):
        damaged = bytearray(payload)
        damaged[pos] ^= 1 << random.Random(pos).randrange(8)
        with pytest.raises(CorruptDataError, match="gzip"):
            decompressed(GZIP, bytes(damaged))
