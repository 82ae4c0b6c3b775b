"""Headers of records as an Arrow array."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from ..errors import OptionError
from .arrays import Int64s

#: One header.
HEADER: Final = pa.struct([("key", pa.string()), ("value", pa.binary())])
#: A record's headers in order, as Spark's own connector has them: null, not empty, for none.
HEADERS: Final = pa.list_(HEADER)


def header_counts(headers: pa.Array | None) -> Int64s:
    """The number of headers of each row; empty without headers. Raises ``OptionError`` (fatal)."""
    return np.empty(0, np.int64) if headers is None else _counts(_cast(headers))


def header_pairs(headers: pa.Array) -> tuple[pa.StructArray, Int64s]:
    """All headers one after the other, and where those of each row begin; one more for the end.

    Raises ``OptionError`` (fatal) for another type than ``HEADERS``.
    """
    array = _cast(headers)
    return array.flatten(), np.append(0, np.cumsum(_counts(array)))


def _counts(headers: pa.ListArray) -> Int64s:
    return np.array(headers.value_lengths().fill_null(0), np.int64)


def _cast(headers: pa.Array) -> pa.ListArray:
    try:
        return headers.cast(HEADERS)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise OptionError(f"headers have the type {HEADERS}, not {headers.type}: cast them") from error
