"""snappy as Java reads it. The recorded cases: test_recorded_sets."""

from __future__ import annotations

import struct

import pytest

from spark_kafkawire.errors import CorruptDataError
from spark_kafkawire.records.compression.codec import TooLarge
from spark_kafkawire.records.compression.snappy import SNAPPY
from tests.support.cases import for_each
from tests.support.codecs import XERIAL_HEADER, snappy_raw, xerial

from .data import WORDS, decompressed


@for_each(
    "payload",
    [
        b"",
        XERIAL_HEADER[:15],
        XERIAL_HEADER[:8] + struct.pack(">ii", 0, 1) + b"",
        XERIAL_HEADER + struct.pack(">i", -1) + bytes(9),
        XERIAL_HEADER + struct.pack(">i", 0),
        XERIAL_HEADER + struct.pack(">i", 10) + bytes(9),
        xerial(WORDS, 1000)[:-1],
        xerial(WORDS, 1000) + xerial(WORDS, 1000),
        snappy_raw(WORDS)[:-1],
        b"\xff\xff\xff\xff\xff\x01",
        b"\xff\x06\x00\x00sNaPpY" + snappy_raw(WORDS),
    ],
)
def test_damaged_snappy_is_refused(payload: bytes) -> None:
    with pytest.raises(CorruptDataError, match="snappy"):
        decompressed(SNAPPY, payload)


def test_more_blocks_than_the_limit_has_room_for_are_refused() -> None:
    assert decompressed(SNAPPY, xerial(bytes(4096), 1), 10_000) == bytes(4096)
    with pytest.raises(TooLarge, match="it has 4097 blocks or more"):
        decompressed(SNAPPY, xerial(bytes(4097), 1), 10_000)
