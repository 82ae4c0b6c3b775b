"""Checking many checksums at once."""

from __future__ import annotations

import random
import zlib

import numpy as np
import numpy.typing as npt
import pytest

from spark_kafkawire.records import kernels
from spark_kafkawire.records.checksum import combining_tables, crc32, crc32_each, first_mismatch
from spark_kafkawire.records.entries import byte_array

pytestmark = pytest.mark.usefixtures("kernels")


def claimed(values: list[bytes]) -> npt.NDArray[np.uint32]:
    return np.array([zlib.crc32(value) for value in values], np.uint32)


def mismatch(values: list[bytes], crcs: npt.NDArray[np.uint32]) -> int | None:
    """``first_mismatch`` as decoding calls it: after the values were gathered."""
    buf, ends = byte_array(b"".join(values)), np.cumsum([0, *map(len, values)])
    data, offsets = np.empty(len(buf), np.uint8), np.empty(len(values) + 1, np.int32)
    tables = combining_tables()
    combined = kernels.gather(buf, ends[:-1].copy(), np.diff(ends), crcs, tables, data, offsets)
    return first_mismatch(data.data, offsets, crcs, combined if len(tables) else None)


def test_crc32_is_that_of_zlib() -> None:
    assert crc32(b"123456789") == 0xCBF43926


def test_right_checksums_have_no_mismatch() -> None:
    chance = random.Random(1)
    values = [chance.randbytes(chance.randrange(300)) for _ in range(500)]
    for each in (values, [], [b"", b""]):
        assert mismatch(each, claimed(each)) is None


def test_the_first_of_the_wrong_checksums_is_named() -> None:
    chance = random.Random(2)
    values = [chance.randbytes(chance.randrange(300)) for _ in range(200)]
    for _ in range(300):
        crcs = claimed(values)
        wrong = sorted(chance.sample(range(len(values)), chance.randrange(1, 6)))
        for row in wrong:
            crcs[row] ^= 1 << chance.randrange(32)
        assert mismatch(values, crcs) == wrong[0]


def test_swapped_checksums_are_seen() -> None:
    values = [b"one", b"two", b"three"]
    assert mismatch(values, claimed(values)[[1, 0, 2]]) == 0


def test_rows_are_looked_at_one_by_one_only_where_the_combination_is_wrong() -> None:
    data, offsets, crcs = memoryview(b"value"), np.array([0, 5], np.int32), claimed([b"wrong"])
    assert first_mismatch(data, offsets, crcs, zlib.crc32(b"value")) is None
    assert first_mismatch(data, offsets, crcs, 0) == 0
    assert first_mismatch(data, offsets, crcs, None) == 0


@pytest.mark.parametrize("size", [10, 2000])
def test_each_value_gets_its_checksum_whatever_its_size(size: int) -> None:
    values = [random.Random(i).randbytes(size) for i in range(20)]
    offsets = np.arange(0, 20 * size + 1, size)
    # Values need not begin at the start of their buffer, nor end at its end.
    crcs = crc32_each(byte_array(b"##" + b"".join(values) + b"##"), offsets + 2)
    assert crcs.tolist() == [zlib.crc32(value) for value in values]
