"""The codec of modern logs as it is offered to people without Spark."""

from __future__ import annotations

import datetime

import pyarrow as pa
import pytest

from spark_kafkawire import decode_record_batches, encode_record_batches
from spark_kafkawire.errors import CorruptDataError, OptionError, RowError
from spark_kafkawire.records.headers import HEADERS
from tests.records.batches import batch, marker, message, record
from tests.records.judges import JUDGED, judged


@pytest.mark.parametrize("compression", JUDGED)
def test_columns_become_batches_and_the_same_columns(compression: str) -> None:
    values, keys = pa.array([b"a", None, b""]), pa.array([None, "größe", ""])
    headers = pa.array([None, [("h", b"1"), ("h", None)], None], HEADERS)
    timestamps = pa.array([None, 1_700_000_000_123, 0], pa.int64())
    data = encode_record_batches(values, keys, headers, timestamps, compression=compression, base_offset=100)
    table = decode_record_batches(data)
    table.validate(full=True)
    assert table.schema.types == [
        pa.int64(),
        pa.timestamp("us", tz="UTC"),
        pa.int32(),
        pa.binary(),
        pa.binary(),
        HEADERS,
    ]
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
    assert table.to_pydict() == {
        "offset": [100, 101, 102],
        "timestamp": [None, epoch + datetime.timedelta(milliseconds=1_700_000_000_123), epoch],
        "timestampType": [0, 0, 0],
        "key": [None, "größe".encode(), b""],
        "value": [b"a", None, b""],
        "headers": [None, [{"key": "h", "value": b"1"}, {"key": "h", "value": None}], None],
    }
    assert [each.offset for each in judged(data)] == [100, 101, 102]


def test_batches_have_about_a_megabyte_and_their_offsets_go_on() -> None:
    values = pa.array([bytes(600_000), bytes(600_000), bytes(3_000_000), b"x"])
    data = encode_record_batches(values, base_offset=7)
    assert len(data) > 4_200_000
    assert decode_record_batches(data)["offset"].to_pylist() == [7, 8, 9, 10]
    assert decode_record_batches(data, 8, 10)["value"].to_pylist() == [bytes(600_000), bytes(3_000_000)]


def test_a_log_may_hold_all_formats_and_end_anywhere() -> None:
    data = message(0, b"a", magic=0) + message(1, b"b") + batch([record(0, b"c")], 2) + marker(3, 1, 1)
    table = decode_record_batches(data + b"cut")
    assert table["value"].to_pylist() == [b"a", b"b", b"c"]
    assert table["timestampType"].to_pylist() == [-1, 0, 0]
    assert decode_record_batches(b"").num_rows == 0
    assert encode_record_batches(pa.array([], pa.binary())) == b""


def test_damage_is_told_with_its_offset() -> None:
    with pytest.raises(CorruptDataError, match="offset 5"):
        decode_record_batches(batch([record(0, b"x")], 5)[:-1] + b"!")


@pytest.mark.parametrize("base_offset", [-1, 2**63 - 1])
def test_a_base_offset_outside_of_any_log_is_refused(base_offset: int) -> None:
    with pytest.raises(OptionError, match=f"base_offset {base_offset}"):
        encode_record_batches(pa.array([b"x"]), base_offset=base_offset)


def test_rows_and_compressions_that_cannot_be_are_refused() -> None:
    with pytest.raises(RowError, match="row 0: timestamp -1 ms"):
        encode_record_batches(pa.array([b"x"]), timestamps_ms=pa.array([-1]))
    with pytest.raises(OptionError, match="compression is one of"):
        encode_record_batches(pa.array([b"x"]), compression="lzma")
