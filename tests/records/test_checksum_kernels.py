"""Checksums of the kernels, compiled and interpreted, against zlib."""

from __future__ import annotations

import random
import zlib
from typing import Any

import numpy as np
import pytest

from spark_kafkawire.records import checksum_kernels, log_kernels
from spark_kafkawire.records.arrays import byte_array
from spark_kafkawire.records.checksum import crc32c_address, library_address, slice_tables
from spark_kafkawire.records.log_index import index_batches
from tests.records.batches import batch, record
from tests.support.cases import for_each

pytestmark = pytest.mark.usefixtures("compiled")
SIZES = [0, 1, 2, 3, 4, 5, 15, 16, 17, 31, 33, 100, 255, 256, 257, 1000, 70_000]


def random_values(seed: int) -> list[bytes]:
    chance = random.Random(seed)
    return [chance.randbytes(size) for size in chance.sample(SIZES, len(SIZES))]


def test_the_library_s_crc_is_called_where_it_can_be() -> None:
    assert library_address()
    assert crc32c_address()


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


@for_each("seed", range(5))
def test_the_first_batch_with_a_wrong_crc_is_found(seed: int) -> None:
    batches = [batch([record(0, value)], offset) for offset, value in enumerate(random_values(seed))]
    chance, index = random.Random(seed), index_batches(b"".join(batches))
    rows = np.array(chance.sample(range(len(batches)), len(batches) // 2))
    for wrong in ((), range(len(batches)), chance.sample(range(len(batches)), 3)):
        data = index.buf.copy()
        for row in wrong:
            data[chance.randrange(21, len(batches[row])) + index.table[row, log_kernels.POS]] ^= 1
        expected = next((place for place, row in enumerate(rows.tolist()) if row in wrong), -1)
        for run in (log_kernels.first_wrong_crc, log_kernels.first_wrong_crc.interpreted):
            assert run(data, index.table, rows, crc32c_address()) == expected
