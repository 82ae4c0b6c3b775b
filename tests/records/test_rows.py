"""Rows to write, as columns."""

from __future__ import annotations

import pyarrow as pa
import pytest

from spark_kafkawire.records.record_log import encode_batches
from spark_kafkawire.records.rows import Records

PAIR = pa.struct([("key", pa.string()), ("value", pa.binary())])
VALUES = [b"", b"v", None, b"x" * 100, b"y" * 5000] * 40


@pytest.mark.parametrize("large", [False, True], ids=["binary", "large"])
@pytest.mark.parametrize("magic", [1, 2])
def test_sizes_are_about_those_of_records_and_not_below(magic: int, large: bool) -> None:
    binary = pa.large_binary() if large else pa.binary()
    # A slice: what lies before it is of no row.
    values = pa.array([b"z" * 100_000, *VALUES], binary).slice(1)
    keys = pa.array([None, b"k", b"key" * 30, None, b""] * 40, binary)
    records = Records(values, keys)
    contents = sum(len(value or b"") for value in VALUES) + 40 * (1 + 90)
    batches = encode_batches(
        records, magic=magic, batch_bytes_max=1 << 30, request_bytes_max=1 << 30, now_ms=1
    )
    encoded = sum(len(batch.data) for batch in batches)
    assert records.sizes()[:4].tolist() == [12, 14, 102, 112]
    assert contents < records.sizes().sum() <= 1.1 * encoded
    assert magic == 1 or encoded <= records.sizes().sum()


def test_headers_count_as_what_rows_have_of_them_on_average() -> None:
    headers = pa.array([[{"key": "h", "value": b"x" * 1000}], None], pa.list_(PAIR))
    sizes = Records(pa.array([b"", b""]), headers=headers).sizes()
    assert sizes[0] == sizes[1]
    assert 500 <= sizes[0] <= 600
