"""Spans are checked before Arrow trusts them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from spark_kafkawire.records.columns import binary_array
from spark_kafkawire.records.message_set.encoding import encode

DATA = np.frombuffer(b"abcdef", np.uint8)


def test_spans_become_values_without_a_copy() -> None:
    array = binary_array(DATA, np.array([0, 3, 3, 6], np.int32))
    assert array.to_pylist() == [b"abc", b"", b"def"]
    assert array.buffers()[2].address == DATA.ctypes.data


@pytest.mark.parametrize("offsets", [[0, 7], [-1, 3], [0, 4, 3], [0, 2**31 - 1, 6]])
def test_spans_that_leave_their_buffer_never_reach_arrow(offsets: list[int]) -> None:
    with pytest.raises(AssertionError, match="leave their buffer"):
        binary_array(DATA, np.array(offsets, np.int32))


@pytest.mark.parametrize("offsets", [[0, 4, 3], [0, 2**31 - 1, 6]])
def test_an_array_with_bad_spans_in_the_middle_never_reaches_a_kernel(offsets: list[int]) -> None:
    # Arrow itself looks at the first and the last offset only.
    buffers = [None, pa.py_buffer(np.array(offsets, np.int32)), pa.py_buffer(DATA)]
    unsafe = pa.BinaryArray.from_buffers(pa.binary(), len(offsets) - 1, buffers)
    with pytest.raises(AssertionError, match="leave their buffer"):
        encode(unsafe)
