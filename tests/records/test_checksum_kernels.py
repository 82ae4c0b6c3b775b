"""Checksums of the kernels, compiled and interpreted, against zlib."""

from __future__ import annotations

import random
import zlib
from typing import Any

import numpy as np
import pytest

from spark_kafkawire.records import checksum_kernels
from spark_kafkawire.records.arrays import byte_array
from spark_kafkawire.records.checksum import library_address, slice_tables
from tests.support.cases import for_each

pytestmark = pytest.mark.usefixtures("compiled")
SIZES = [0, 1, 2, 3, 4, 5, 15, 16, 17, 31, 33, 100, 255, 256, 257, 1000, 70_000]


def random_values(seed: int) -> list[bytes]:
    chance = random.Random(seed)
    return [chance.randbytes(size) for size in chance.sample(SIZES, len(SIZES))]


def test_the_library_s_crc_is_called_where_it_can_be() -> None:
    assert library_address()


@for_each("library", [library_address(), 0], ids=["library", "tables"])
@for_each("values", [[], [b""], *map(random_values, range(5))])
def test_the_crc_of_each_value_is_that_of_zlib(values: list[bytes], library: int) -> None:
    buf, offsets = byte_array(b"".join(values)), np.cumsum([0, *map(len, values)])
    expected = np.array([zlib.crc32(value) for value in values], np.uint32)
    each: tuple[Any, ...] = (checksum_kernels.crc_each, checksum_kernels.crc_each.interpreted)
    for run in each:
        crcs = np.zeros(len(values), np.uint32)
        run(buf, offsets, slice_tables(), library, crcs)
        assert crcs.tolist() == expected.tolist()
    for check in (checksum_kernels.check_each, checksum_kernels.check_each.interpreted):
        arguments = offsets[:-1].copy(), np.diff(offsets)
        assert check(buf, *arguments, expected, slice_tables(), library) == -1
        for row in range(len(values)):
            wrong = expected.copy()
            wrong[row:] ^= 1 << row
            assert check(buf, *arguments, wrong, slice_tables(), library) == row
