"""What is wrong with rows for 0.7 brokers, before anything of them is sent."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ....errors import RowError
from ....options import WriteOptions
from ....protocol.v07 import REQUEST_BYTES_MAX
from ....records.message_set.encoding import encode_sets
from ..rows import Rows, refuse_nulls

#: Largest message set that fits a request together with a topic name of the longest kind, bytes.
SET_BYTES_MAX: Final = REQUEST_BYTES_MAX - (1 << 16)


def check_rows(rows: Rows, options: WriteOptions) -> None:
    """Refuse null values, null topics, and values that the brokers would drop in silence.

    Raises ``RowError`` (fatal) naming the column and the row, counted from 0 in the batch.
    """
    refuse_nulls("value", rows.records.values, "a message has no null; filter such rows out or fill them")
    rows.refuse_null_topics()
    if rows.count:
        _refuse_oversize(rows.records.values, options)


def _refuse_oversize(values: pa.Array, options: WriteOptions) -> None:
    size_max = min(options.message_size_max, SET_BYTES_MAX)
    # Compressed, a value grows by a sixth and its headers at worst (snappy): smaller ones need
    # not be tried.
    safe_size = size_max if options.compression == "none" else (size_max - 80) * 5 // 6
    sizes = pc.binary_length(values).to_numpy(zero_copy_only=False)
    for row in np.flatnonzero(sizes > safe_size).tolist():
        if options.compression == "none" or not _fits(values.slice(row, 1), options, size_max):
            how = "" if options.compression == "none" else f", also as {options.compression},"
            raise RowError(
                f"row {row}: its value of {sizes[row]} bytes is{how} larger than max.message.size="
                f"{size_max}, and brokers drop such a message in silence; shorten it, or set the option "
                "to what the brokers have"
            )


def _fits(value: pa.Array, options: WriteOptions, size_max: int) -> bool:
    try:
        for _ in encode_sets(
            value,
            compression=options.compression,
            level=options.compression_level,
            set_bytes_max=SET_BYTES_MAX,
            message_size_max=size_max,
        ):
            pass
    except RowError:
        return False
    return True
