"""Rows that are refused before anything of their batch is sent."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from spark_kafkawire.clients.writing.rows import Rows
from spark_kafkawire.clients.writing.v07.record_checks import check_rows
from spark_kafkawire.errors import RowError
from spark_kafkawire.options import WriteOptions
from spark_kafkawire.records.message_set.encoding import encode_sets
from spark_kafkawire.records.rows import Records
from tests.support.cases import for_each
from tests.support.writing import binary, write_options


def check(values: pa.Array, topic: str | pa.Array, options: WriteOptions) -> None:
    check_rows(Rows(Records(values), topic), options)


def options(**raw: object) -> WriteOptions:
    return write_options(broker__list="0:localhost:1", **raw)


def test_a_null_value_names_its_row() -> None:
    with pytest.raises(RowError, match=r"^row 2: value is null; "):
        check(binary([b"", b"a", None, None]), "t", options())


def test_a_null_topic_names_its_row() -> None:
    with pytest.raises(RowError, match=r"^row 1: topic is null; fill it, or set the option topic$"):
        check(binary([b"a", b"b"]), pa.array(["t", None]), options())


def test_a_value_of_exactly_the_limit_passes() -> None:
    check(binary([b"x" * 1000]), "t", options(max__message__size=1000))


def test_an_oversize_value_names_its_row_and_both_sizes() -> None:
    with pytest.raises(RowError, match=r"^row 1: its value of 1001 bytes .* max\.message\.size=1000,"):
        check(binary([b"", b"x" * 1001]), "t", options(max__message__size=1000))


@pytest.mark.parametrize("compression", ["gzip", "snappy"])
def test_a_value_above_the_limit_passes_where_it_compresses_below_it(compression: str) -> None:
    check(binary([b"x" * 100_000]), "t", options(max__message__size=10_000, compression=compression))


@pytest.mark.parametrize("compression", ["gzip", "snappy"])
def test_a_value_that_compression_makes_larger_than_the_limit_is_refused(compression: str) -> None:
    noise = random.Random(7).randbytes(10_000)
    with pytest.raises(RowError, match=rf"^row 1: its value of 10000 bytes is, also as {compression},"):
        check(binary([b"", noise]), "t", options(max__message__size=10_000, compression=compression))


@for_each("compression", ["gzip", "snappy"])
@for_each("size", [16, 100, 9_000, 120_000])
def test_a_value_that_passes_can_be_encoded_below_the_limit(compression: str, size: int) -> None:
    values = binary([random.Random(size).randbytes(size)])
    for limit in range(size, size * 6 // 5 + 120, max(1, size // 50)):
        chosen = options(max__message__size=limit, compression=compression)
        sets = encode_sets(values, compression=compression, set_bytes_max=1 << 20, message_size_max=limit)
        try:
            check(values, "t", chosen)
        except RowError:
            with pytest.raises(RowError):
                list(sets)
        else:
            assert sum(each.count for each in sets) == 1


def test_an_empty_batch_passes() -> None:
    check(binary([]), pa.array([], pa.string()), options())
