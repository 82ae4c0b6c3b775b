"""Checks of the rows of a write to Kafka 0.7, before any row is sent: nulls, and sizes that brokers drop."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_kafkawire.clients.writing.rows import Rows, refuse_nulls
from spark_kafkawire.errors import RowError
from spark_kafkawire.options import WriteOptions
from spark_kafkawire.protocol.v07 import REQUEST_BYTES_MAX
from spark_kafkawire.records.message_set.encoding import encode_sets

#: Largest message set that fits a request with the longest topic name, bytes.
SET_BYTES_MAX: Final = REQUEST_BYTES_MAX - (1 << 16)


def check_rows(rows: Rows, options: WriteOptions) -> None:
    """Refuse null values, null topics, and values that the brokers would drop without an error.

    Raises ``RowError`` (fatal) with the column and the row, counted from 0 in the batch.
    """
    refuse_nulls("value", rows.records.values, "a message has no null; filter such rows out or fill them")
    rows.refuse_null_topics()
    if rows.count:
        _refuse_oversize(rows.records.values, options)


def _refuse_oversize(values: pa.Array, options: WriteOptions) -> None:
    size_max = min(options.message_size_max, SET_BYTES_MAX)
    # Compression makes a value larger by a sixth and its headers at worst (snappy): smaller values need no
    # trial.
    safe_size = size_max if options.compression == "none" else (size_max - 80) * 5 // 6
    sizes = pc.binary_length(values).to_numpy(zero_copy_only=False)
    for row in np.flatnonzero(sizes > safe_size).tolist():
        if options.compression == "none" or not _fits(values.slice(row, 1), options, size_max):
            how = "" if options.compression == "none" else f", also as {options.compression},"
            raise RowError(
                f"row {row}: its value of {sizes[row]} bytes is{how} larger than max.message.size="
                f"{size_max}, and brokers drop such a message silently; shorten it, or set the option "
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
