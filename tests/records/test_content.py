"""The checksum over the content of rows, compiled and interpreted, with the library and without it."""

from __future__ import annotations

import random
from importlib.metadata import version
from typing import Final

import numpy as np
import pyarrow as pa
import pytest

from spark_kafkawire.records import content
from spark_kafkawire.records.rows import Column
from tests.support.cases import for_each
from tests.support.kernels import interpreted_kernels

pytestmark = pytest.mark.usefixtures("compiled")

#: Rows of topic, key and value.
Row = tuple[bytes, bytes | None, bytes | None]
ROWS: Final[list[Row]] = [
    (b"t", b"k%d" % (number % 7) if number % 3 else None, b"v" * (number % 40) + b"%d" % number or None)
    for number in range(100)
] + [(b"t", None, None), (b"t", b"", None), (b"t", None, b""), (b"t", b"", b"")]


def sum_of(rows: list[Row], partitions: list[int] | None = None) -> int:
    columns = [Column.of(pa.array(each, pa.binary()), "c") for each in zip(*rows, strict=True)]
    given = None if partitions is None else np.array(partitions, np.int64)
    return content.content_sum(columns[0], columns[1:], len(rows), given)


def without_the_library(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(content, "_library", lambda: 0)


def test_the_library_s_crc_is_called_where_it_can_be() -> None:
    major, minor = map(int, version("isal").split(".")[:2])
    # Wheels of isal 1.7 and 1.8 have ISA-L without CRC-64.
    assert bool(content._library()) == ((major, minor) >= (1, 9))


@for_each("order", range(5))
def test_the_sum_is_the_same_in_any_order_and_in_every_way_to_compute_it(order: int) -> None:
    rows = random.Random(order).sample(ROWS, len(ROWS))
    expected = sum_of(ROWS)
    assert 0 <= expected < 1 << 64
    assert sum_of(rows) == expected
    with pytest.MonkeyPatch.context() as patch:
        without_the_library(patch)
        assert sum_of(rows) == expected
        with interpreted_kernels():
            assert sum_of(rows) == expected
    with interpreted_kernels():
        assert sum_of(rows) == expected


def test_the_sum_of_parts_is_that_of_all_rows() -> None:
    assert (sum_of(ROWS[:30]) + sum_of(ROWS[30:])) % (1 << 64) == sum_of(ROWS)


A: Final = (b"t", b"k1", b"12345678")
B: Final = (b"t", b"k2", b"87654321")


@for_each(
    "other",
    [
        [A],
        [A, B, B],
        [A, A],
        [(b"t", b"k2", A[2]), (b"t", b"k1", B[2])],
        [(b"u", *A[1:]), B],
        [(b"t", b"12345678", b"k1"), B],
        [(b"t", b"k112345678", None), B],
        [(b"t", None, b"k112345678"), B],
        [(b"t", b"k11", b"2345678"), B],
        [(b"t", b"k1", b"12345679"), B],
        [(b"t", b"k1", b"12345679"), (b"t", b"k2", b"87654320")],
        [(b"t", b"", b"12345678"), B],
        [(b"t", None, b"12345678"), B],
        [(b"tk", b"1", b"12345678"), B],
    ],
)
def test_other_rows_have_another_sum(other: list[Row]) -> None:
    assert sum_of(other) != sum_of([A, B])


def test_one_topic_may_be_that_of_all_rows() -> None:
    [topics, *columns] = [Column.of(pa.array(each, pa.binary()), "c") for each in zip(*ROWS, strict=True)]
    one = Column.of(pa.array([b"t"], pa.binary()), "c")
    assert content.content_sum(one, columns, len(ROWS)) == content.content_sum(topics, columns, len(ROWS))


def test_partitions_that_rows_name_count() -> None:
    sums = {sum_of([A, B], partitions) for partitions in ([0, 0], [0, 1], [1, 0], [1, 1], [2, 0])}
    assert len(sums) == 5
    assert sum_of([A, B], [0, 0]) == sum_of([A, B])
