"""Checking many checksums at once."""

from __future__ import annotations

import random
import zlib

import numpy as np
import numpy.typing as npt
import pytest

from spark_kafkawire.records.arrays import byte_array
from spark_kafkawire.records.checksum import crc32, crc32_each, first_mismatch

pytestmark = pytest.mark.usefixtures("kernels")


def claimed(values: list[bytes]) -> npt.NDArray[np.uint32]:
    return np.array([zlib.crc32(value) for value in values], np.uint32)


def mismatch(values: list[bytes], crcs: npt.NDArray[np.uint32]) -> int | None:
    ends = np.cumsum([0, *map(len, values)])
    return first_mismatch(byte_array(b"".join(values)), ends[:-1].copy(), np.diff(ends), crcs)


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


def test_wrong_checksums_whose_errors_cancel_out_are_seen() -> None:
    """One CRC-32 over both values is right: the same bit is wrong twice, and the second one is empty."""
    for values in ([b"P", b""], [b"", b"", b"end"], [b"long " * 200, b"", b"long " * 200]):
        crcs = claimed(values)
        crcs[:2] ^= 1 << 9
        assert mismatch(values, crcs) == 0


def test_errors_that_cancel_out_over_a_value_are_seen() -> None:
    """The CRC-32 is linear: an error of the first one and its shift by the second value's size."""
    values = [b"one", bytes(5), b"three"]
    whole = zlib.crc32(b"".join(values))
    for bit in range(32):
        crcs = claimed(values)
        crcs[0] ^= 1 << bit
        # What a flipped bit of the state becomes when five zero bytes follow.
        crcs[1] ^= shifted(1 << bit, 5)
        assert joined(values, crcs) == whole
        assert mismatch(values, crcs) == 0


def shifted(crc: int, size: int) -> int:
    """The CRC-32 register after so many zero bytes."""
    for _ in range(8 * size):
        crc = crc >> 1 ^ (0xEDB88320 if crc & 1 else 0)
    return crc


def joined(values: list[bytes], crcs: npt.NDArray[np.uint32]) -> int:
    """The CRC-32 that all values in a row have if each has its one."""
    whole = 0
    for value, crc in zip(values, crcs.tolist(), strict=True):
        whole = shifted(whole, len(value)) ^ crc
    return whole


@pytest.mark.parametrize("size", [10, 2000])
def test_each_value_gets_its_checksum_whatever_its_size(size: int) -> None:
    values = [random.Random(i).randbytes(size) for i in range(20)]
    offsets = np.arange(0, 20 * size + 1, size)
    # Values need not begin at the start of their buffer, nor end at its end.
    crcs = crc32_each(byte_array(b"##" + b"".join(values) + b"##"), offsets + 2)
    assert crcs.tolist() == [zlib.crc32(value) for value in values]
