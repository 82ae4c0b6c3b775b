"""Options of bad records: bytes that cannot become rows, and keys and values that cannot be decoded."""

from __future__ import annotations

import enum
from typing import Final

from .option import READ, mapped, option, size


class BadRecords(enum.Enum):
    """Treatment of bytes that cannot become rows: an error, a row with nulls, or no row."""

    FAIL = "fail"
    NULL = "null"
    DROP = "drop"


BAD_RECORDS: Final = option(
    "badRecords",
    mapped({each.value: each for each in BadRecords}),
    default="fail",
    sides=READ,
    meaning="bytes that cannot become rows, because the log is damaged or a key or value cannot be decoded, "
    "are an error; `null`: a row with nulls, and a column `_corrupt_record` with the bytes and the reason; "
    "`drop`: they are left out, counted, with a warning; see [Damaged records](data-loss.md#damaged-records)",
)
MAX_CORRUPT_BYTES: Final = option(
    "maxCorruptBytes",
    size(0),
    default="1MiB",
    sides=READ,
    meaning="the most bytes of damaged records that `_corrupt_record` has in one row; a key or value that "
    "cannot be decoded is there whole",
)
