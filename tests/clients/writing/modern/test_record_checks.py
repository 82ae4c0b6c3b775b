"""Rows that are refused before anything of their batch is sent to modern brokers."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_kafkawire.clients.writing.modern.record_checks import check_records
from spark_kafkawire.errors import RowError
from spark_kafkawire.records.headers import HEADERS
from spark_kafkawire.records.record_log import encode_batches
from spark_kafkawire.records.rows import Records
from tests.support.producing import int64, records
from tests.support.writing import binary

Pairs = list[tuple[str, bytes | None]]


def headers(rows: list[Pairs | None]) -> pa.Array:
    return pa.array(
        [None if row is None else [{"key": key, "value": value} for key, value in row] for row in rows],
        HEADERS,
    )


def test_ordinary_rows_pass() -> None:
    check_records(
        Records(binary([None, b"a"]), binary([b"k", None]), headers([None, []]), int64([None, 0])), 1000
    )
    check_records(records([]), 1)


def test_the_first_row_that_is_too_large_is_named_with_both_sizes() -> None:
    with pytest.raises(RowError) as raised:
        check_records(records([b"a", None, b"x" * 1000, b"x" * 2000]), 1000)
    assert str(raised.value).startswith(
        "row 2: its record of 1087 bytes is larger than kafka.max.request.size=1000; shorten it, or raise"
    )


def test_keys_and_headers_count() -> None:
    values = binary([b"v", b"v"])
    keyed = Records(values, binary([None, b"k" * 1000]))
    with_headers = Records(values, headers=headers([[("a", b"1")], [("a", b"2" * 500), ("b", b"3" * 500)]]))
    for rows in (keyed, with_headers):
        with pytest.raises(RowError, match=r"^row 1: its record of 1\d\d\d bytes"):
            check_records(rows, 1000)
        check_records(rows, 1200)


def test_the_longest_key_and_the_longest_value_may_be_of_different_rows() -> None:
    apart = Records(binary([b"v" * 600, b"v"]), binary([b"k", b"k" * 600]))
    check_records(apart, 1000)
    with pytest.raises(RowError, match=r"^row 1: its record of 1287 bytes"):
        check_records(Records(binary([None, b"v" * 600]), binary([None, b"k" * 600])), 1000)


@given(
    st.lists(
        st.tuples(
            st.none() | st.binary(max_size=60),
            st.none() | st.binary(max_size=60),
            st.none()
            | st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=20)), max_size=3),
        ),
        min_size=1,
        max_size=5,
    ),
    st.integers(90, 300),
)
def test_what_passes_can_be_sent(
    rows: list[tuple[bytes | None, bytes | None, Pairs | None]], limit: int
) -> None:
    own = Records(
        binary([value for value, _, _ in rows]),
        binary([key for _, key, _ in rows]),
        headers([pairs for _, _, pairs in rows]),
    )
    try:
        check_records(own, limit)
    except RowError:
        return
    batches = encode_batches(own, batch_bytes_max=limit, request_bytes_max=limit, now_ms=0)
    assert sum(batch.count for batch in batches) == len(rows)


def test_a_timestamp_before_1970_names_its_row() -> None:
    with pytest.raises(RowError, match=r"^row 2: its timestamp is before 1970, which Kafka cannot hold"):
        check_records(Records(binary([b"", b"", b""]), timestamps_ms=int64([None, 0, -1])), 1000)


@pytest.mark.parametrize("bad", [None, {"key": None, "value": b"v"}])
def test_a_header_without_a_key_names_its_row(bad: object) -> None:
    pairs = pa.array([None, [{"key": "a", "value": None}], [{"key": "a", "value": b""}, bad]], HEADERS)
    with pytest.raises(RowError, match=r"^row 2: it has a header without a key"):
        check_records(Records(binary([b"", b"", b""]), headers=pairs), 1000)
    check_records(Records(binary([b"", b""]), headers=pairs.slice(0, 2)), 1000)


def test_a_null_over_headers_is_no_headers() -> None:
    plain = headers([[("k", b"v")], [("k", b"x" * 5000)], [("a", None), ("b", b"2")]])
    over = pa.ListArray.from_buffers(
        plain.type, 3, [pa.py_buffer(b"\x05"), plain.buffers()[1]], children=[plain.values]
    )
    assert over.to_pylist()[1] is None
    check_records(Records(binary([b"v"] * 3), headers=over), 1000)
    with pytest.raises(RowError, match=r"^row 2: its record of 111 bytes"):
        check_records(Records(binary([b"v"] * 3), headers=over), 110)


def test_a_headers_key_that_is_no_text_is_refused() -> None:
    plain = headers([None, [("a", b"1"), ("b", b"\xff")], [("c", b"2")]])
    keys = binary([b"a", b"b", b"k\xffy"]).view(pa.string())
    pairs = pa.StructArray.from_arrays([keys, plain.values.field(1)], fields=list(HEADERS.value_type))
    broken = pa.ListArray.from_arrays(plain.offsets, pairs)
    check_records(Records(binary([b"v"] * 3), headers=plain), 1000)
    with pytest.raises(RowError, match=r"^row 2: the key of a header is not UTF-8"):
        check_records(Records(binary([b"v"] * 3), headers=broken), 1000)
