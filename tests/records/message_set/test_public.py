"""The codec as it is offered to people without Spark."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from spark_kafkawire import decode_message_set, encode_message_set
from spark_kafkawire.errors import CorruptDataError, LimitError, OptionError, RowError
from spark_kafkawire.records.limits import DecodeLimits
from spark_kafkawire.records.message_set import public
from tests.records.message_set.trees import Plain, batch_rows, message, message_set


def test_a_set_becomes_a_batch_with_places_and_values() -> None:
    batch = decode_message_set(message_set([Plain(b"a"), Plain(b"bb", magic=0)]), base_offset=1000)
    assert batch.schema == pa.schema(
        {"offset": pa.int64(), "index": pa.int32(), "nextOffset": pa.int64(), "value": pa.binary()}
    )
    assert batch_rows(batch) == [(1000, 0, 1011, b"a"), (1011, 0, 1022, b"bb")]


def test_a_cut_tail_is_left_out_even_when_nothing_else_is_there() -> None:
    data = message(b"first") + message(b"second")
    assert decode_message_set(data[:-1])["value"].to_pylist() == [b"first"]
    assert decode_message_set(data[:10]).num_rows == 0
    assert decode_message_set(b"").num_rows == 0


@pytest.mark.parametrize(
    "values",
    [
        ["größe", b"\xff\x00", ""],
        ("größe", b"\xff\x00", b""),
        pa.array(["größe".encode(), b"\xff\x00", b""]),
        pa.chunked_array([[b"gr\xc3\xb6\xc3\x9fe"], [b"\xff\x00", b""]]),
        (value for value in ["größe", b"\xff\x00", ""]),
    ],
)
def test_any_values_of_bytes_or_text_are_encoded(values: Any) -> None:
    data = encode_message_set(values)
    assert data == message("größe".encode()) + message(b"\xff\x00") + message(b"")


@pytest.mark.parametrize("values", [[1], [b"x", 2.5], ["\ud800"], 7, [["x"]]])
def test_other_values_are_refused_without_showing_them(values: Any) -> None:
    with pytest.raises(OptionError, match="bytes"):
        encode_message_set(values)


def test_a_null_is_refused() -> None:
    with pytest.raises(RowError, match="row 1"):
        encode_message_set([b"x", None])


@pytest.mark.parametrize("base_offset", [-1, 2**63, 2**63 - 5])
def test_a_base_offset_outside_of_any_log_is_refused(base_offset: int) -> None:
    with pytest.raises(OptionError, match=f"base_offset {base_offset}"):
        decode_message_set(message(b"value"), base_offset)


def test_damage_is_told_with_its_offset() -> None:
    with pytest.raises(CorruptDataError, match="offset 50"):
        decode_message_set(message(b"value", crc=0), 50)


def test_more_than_one_batch_can_hold_is_refused_with_the_place_to_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(public, "_LIMITS", DecodeLimits(batch_bytes_max=100))
    with pytest.raises(LimitError, match=r"more than 100 bytes: .* from offset 90 on"):
        decode_message_set(message(bytes(35)) * 4)
