"""Messages of a binary column as places in its buffer, and texts for all faults."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from spark_kafkawire.values.faults import REASONS, Decoded, Fault
from spark_kafkawire.values.payloads import Payloads, payloads_of


def messages(payloads: Payloads) -> list[bytes | None]:
    pairs = zip(payloads.starts.tolist(), payloads.stops.tolist(), strict=True)
    return [None if start < 0 else payloads.data[start:stop].tobytes() for start, stop in pairs]


@pytest.mark.parametrize("arrow_type", [pa.binary(), pa.large_binary()], ids=str)
def test_messages_are_places_in_the_columns_own_buffer(arrow_type: pa.DataType) -> None:
    values = [b"a", None, b"", b"bcd", None, b"ef"]
    column = pa.array(values, arrow_type)
    for start in range(len(values) + 1):
        for stop in range(start, len(values) + 1):
            payloads = payloads_of(column.slice(start, stop - start))
            assert messages(payloads) == values[start:stop]
            assert payloads.is_null.tolist() == [value is None for value in values[start:stop]]
    assert payloads_of(column).data.ctypes.data == column.buffers()[2].address
    assert messages(payloads_of(pa.array([], arrow_type))) == []
    assert messages(payloads_of(pa.nulls(2, arrow_type))) == [None, None]


def test_rows_are_taken_in_the_order_asked_for() -> None:
    payloads = payloads_of(pa.array([b"a", None, b"bc"]))
    assert messages(payloads.taken(np.array([2, 1, 2]))) == [b"bc", None, b"bc"]


def test_every_fault_has_a_reason() -> None:
    assert REASONS.keys() == set(Fault) - {Fault.NONE}


def test_a_fault_names_its_field() -> None:
    faults = np.array([0, Fault.BAD_UTF8, Fault.NO_FRAME], np.uint8)
    decoded = Decoded(pa.nulls(3), faults, np.array([-1, 0, -1], np.int32), ("customer.name",))
    assert [decoded.field(row) for row in range(3)] == [None, "customer.name", None]
    assert decoded.is_bad.tolist() == [False, True, True]
