"""The rows of one batch to write, and what is wrong with them before anything of it is sent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import RowError
from ..options import WriteOptions
from ..protocol.v07 import REQUEST_BYTES_MAX
from ..records.message_set import encode_sets

#: Largest message set that fits a request together with a topic name of the longest kind, bytes.
SET_BYTES_MAX: Final = REQUEST_BYTES_MAX - (1 << 16)


@dataclass(frozen=True, slots=True)
class Rows:
    """Columns of equal length; the arrays belong to the batch they came in.

    ``values`` and ``keys`` are binary, ``topic`` is one name for all rows or a string column,
    ``brokers`` and ``partitions`` are int32. In ``keys``, ``brokers`` and ``partitions`` a null,
    like a missing column, leaves the choice to what comes after.
    """

    values: pa.Array
    topic: str | pa.Array
    keys: pa.Array | None = None
    brokers: pa.Array | None = None
    partitions: pa.Array | None = None

    def check(self, options: WriteOptions) -> None:
        """Refuse null values, null topics, and values that the brokers would drop in silence.

        Raises ``RowError`` (fatal) naming the column and the row, counted from 0 in the batch.
        """
        _refuse_nulls("value", self.values, "a message has no null; filter such rows out or fill them")
        if not isinstance(self.topic, str):
            _refuse_nulls("topic", self.topic, "fill it, or set the option topic")
        if len(self.values):
            self._refuse_oversize(options)

    def _refuse_oversize(self, options: WriteOptions) -> None:
        size_max = min(options.message_size_max, SET_BYTES_MAX)
        # Compressed, a value grows by a sixth and its headers at worst (snappy): smaller ones need
        # not be tried.
        safe_size = size_max if options.compression == "none" else (size_max - 80) * 5 // 6
        sizes = pc.binary_length(self.values).to_numpy(zero_copy_only=False)
        for row in np.flatnonzero(sizes > safe_size).tolist():
            if options.compression == "none" or not _fits(self.values.slice(row, 1), options, size_max):
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


def _refuse_nulls(name: str, column: pa.Array, advice: str) -> None:
    if column.null_count:
        row = pc.index(pc.is_null(column), True).as_py()
        raise RowError(f"row {row}: {name} is null; {advice}")
