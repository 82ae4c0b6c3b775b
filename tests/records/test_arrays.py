"""Allocation of memory for columns."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from spark_kafkawire.records.arrays import room


@pytest.mark.parametrize(("count", "from_pool"), [(0, False), (1000, False), (4095, False), (4096, True)])
def test_large_rooms_alone_are_of_arrows_pool(count: int, from_pool: bool) -> None:
    column = room(count, np.int64)
    owner = column.base
    while isinstance(owner, memoryview):
        owner = owner.obj
    assert (column.dtype.name, len(column), column.flags.writeable) == ("int64", count, True)
    assert isinstance(owner, pa.Buffer) == from_pool
