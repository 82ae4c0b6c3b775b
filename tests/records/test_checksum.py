"""Checking many checksums at once."""

from __future__ import annotations

import random
import zlib

import numpy as np
import pytest

from spark_kafkawire.records.checksum import crc32, crc32_each, first_mismatch
from spark_kafkawire.records.entries import byte_array

pytestmark = pytest.mark.usefixtures("kernels")


def spans(values: list[bytes]) -> tuple[memoryview, np.ndarray, np.ndarray]:
    offsets = np.cumsum([0, *map(len, values)]).astype(np.int32)
    crcs = np.array([zlib.crc32(value) for value in values], np.uint32)
    return memoryview(b"".join(values)), offsets, crcs


def test_crc32_is_that_of_zlib() -> None:
    assert crc32(b"123456789") == 0xCBF43926


def test_right_checksums_have_no_mismatch() -> None:
    chance = random.Random(1)
    values = [chance.randbytes(chance.randrange(300)) for _ in range(500)]
    assert first_mismatch(*spans(values)) is None
    assert first_mismatch(*spans([])) is None
    assert first_mismatch(*spans([b"", b""])) is None


def test_the_first_of_the_wrong_checksums_is_named() -> None:
    chance = random.Random(2)
    values = [chance.randbytes(chance.randrange(300)) for _ in range(200)]
    for _ in range(300):
        data, offsets, crcs = spans(values)
        wrong = sorted(chance.sample(range(len(values)), chance.randrange(1, 6)))
        for row in wrong:
            crcs[row] ^= 1 << chance.randrange(32)
        assert first_mismatch(data, offsets, crcs) == wrong[0]


def test_swapped_checksums_are_seen() -> None:
    data, offsets, crcs = spans([b"one", b"two", b"three"])
    assert first_mismatch(data, offsets, crcs[[1, 0, 2]]) == 0


@pytest.mark.parametrize("size", [10, 2000])
def test_each_value_gets_its_checksum_whatever_its_size(size: int) -> None:
    values = [random.Random(i).randbytes(size) for i in range(20)]
    offsets = np.arange(0, 20 * size + 1, size)
    # Values need not begin at the start of their buffer, nor end at its end.
    crcs = crc32_each(byte_array(b"##" + b"".join(values) + b"##"), offsets + 2)
    assert crcs.tolist() == [zlib.crc32(value) for value in values]
