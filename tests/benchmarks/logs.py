"""Logs made by the encoder and written as segment files: gigabytes in seconds, in the real format."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from spark_kafkawire.broker.log_directory import CLEAN_SHUTDOWN_FILE
from spark_kafkawire.records.message_set.encoding import encode_sets
from spark_kafkawire.records.record_log import encode_batches
from spark_kafkawire.records.rows import Records
from tests.support.memory_log import offset_count, split

from .ceilings import values

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


def write_log(log_dir: Path, name: str, *, value_size: int, rows: int, compression: str = "none") -> LogData:
    """Write at least ``rows`` messages to the log ``name`` (``topic-partition``).

    A broker that starts on ``log_dir`` takes it for one that was stopped in order.
    """
    block_rows = min(rows, _BLOCK_SIZE // (value_size + _MESSAGE_HEADER_SIZE))
    block_values = values(value_size, block_rows)
    sets = encode_sets(
        block_values, compression=compression, set_bytes_max=SET_BYTES_MAX, message_size_max=SET_BYTES_MAX
    )
    block = b"".join(item.data for item in sets)
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


#: Bytes of records in a batch before compression: what librdkafka writes when it has enough.
BATCH_BYTES_MAX: Final = 1_000_000
#: The first record's time, ms; each record is a millisecond younger than the one before.
_FIRST_MS: Final = 1_750_000_000_000
#: Files of a log.
DATA: Final = "batches"
INDEX: Final = "index.npy"


def write_modern_log(
    folder: Path, name: str, *, value_size: int, rows: int, compression: str = "none"
) -> LogData:
    """Write at least ``rows`` records to the log ``name`` (``topic-partition``)."""
    block_rows = min(rows, _BLOCK_SIZE // value_size)
    block_values = values(value_size, block_rows)
    stamps = pa.array(np.arange(_FIRST_MS, _FIRST_MS + block_rows))
    batches = encode_batches(
        Records(block_values, timestamps_ms=stamps),
        compression=compression,
        batch_bytes_max=BATCH_BYTES_MAX,
        request_bytes_max=1 << 30,
        now_ms=_FIRST_MS,
    )
    block = b"".join(batch.with_producer() for batch in batches)
    count = -(-rows // block_rows)
    (folder / name).mkdir(parents=True)
    _write_blocks(folder / name, block, count)
    return LogData(count * block_rows, count * len(block), count * (block_values.nbytes - 4 * block_rows - 4))


def _write_blocks(folder: Path, block: bytes, count: int) -> None:
    """The block ``count`` times, each batch with its own offset; and where the batches are."""
    index: list[tuple[int, int]] = []
    offset = pos = 0
    with open(folder / DATA, "wb") as file:
        for _ in range(count):
            for batch in split(block):
                index.append((offset, pos))
                file.write(offset.to_bytes(8, "big"))
                file.write(batch[8:])
                offset += offset_count(batch)
                pos += len(batch)
    np.save(folder / INDEX, np.array([*index, (offset, pos)]))
