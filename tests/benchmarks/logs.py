"""Logs made by the encoder and written as segment files: gigabytes in seconds, in the real format."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from spark_kafkawire.broker.log_directory import CLEAN_SHUTDOWN_FILE
from spark_kafkawire.records.message_set.encoding import encode_sets

from .values import values

#: Bytes from which on a segment is closed, as a broker does by default.
SEGMENT_SIZE_MAX: Final = 1 << 30
#: Values that are encoded once and then written again and again, bytes.
_BLOCK_SIZE: Final = 16 << 20
#: Bytes of messages in one compressed message, before compression: what this package writes.
SET_BYTES_MAX: Final = 1 << 20
_MESSAGE_HEADER_SIZE: Final = 10


@dataclass(frozen=True, slots=True)
class LogData:
    """Totals of one written log: ``size`` is that of the log, ``value_bytes`` of all values."""

    rows: int
    size: int
    value_bytes: int


def write_log(
    log_dir: Path,
    name: str,
    *,
    value_size: int,
    rows: int,
    compression: str = "none",
    set_bytes_max: int = SET_BYTES_MAX,
) -> LogData:
    """Write at least ``rows`` messages to the log ``name`` (``topic-partition``).

    A broker that starts on ``log_dir`` takes it for one that was stopped in order.
    """
    block_rows = min(rows, _BLOCK_SIZE // (value_size + _MESSAGE_HEADER_SIZE))
    block_values = values(value_size, block_rows)
    sets = encode_sets(
        block_values, compression=compression, set_bytes_max=set_bytes_max, message_size_max=SET_BYTES_MAX
    )
    block = b"".join(each.data for each in sets)
    count = -(-rows // block_rows)
    folder = log_dir / name
    folder.mkdir(parents=True)
    (log_dir / CLEAN_SHUTDOWN_FILE).touch()
    _write_segments(folder, block, count)
    return LogData(count * block_rows, count * len(block), count * (block_values.nbytes - 4 * block_rows - 4))


def _write_segments(folder: Path, block: bytes, count: int) -> None:
    per_segment = max(1, SEGMENT_SIZE_MAX // len(block))
    for first in range(0, count, per_segment):
        with open(folder / f"{first * len(block):020d}.kafka", "wb") as file:
            for _ in range(min(per_segment, count - first)):
                file.write(block)
