"""Message sets written by hand from the description of the format, not by the codec under test."""

from __future__ import annotations

import gzip
import struct
import zlib


def message(value: bytes, attributes: int = 0) -> bytes:
    """One message of magic 1: ``length | magic | attributes | crc | value``."""
    return struct.pack(">iBBI", 6 + len(value), 1, attributes, zlib.crc32(value)) + value


def gzipped(*values: bytes) -> bytes:
    """One gzip message that holds a message for each value."""
    return message(gzip.compress(b"".join(map(message, values)), mtime=0), attributes=1)
