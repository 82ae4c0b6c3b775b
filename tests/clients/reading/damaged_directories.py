"""Damaged logs as directories: several segments with indexes, and what a task reads from them."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Final

from spark_kafkawire.clients.reading.log_files import LogFiles
from spark_kafkawire.clients.reading.task import FetchTask
from spark_kafkawire.directories.files import FileSystemOptions, LogSlice, SegmentSlice
from spark_kafkawire.model import (
    Broker,
    Generation,
    Leader,
    OffsetRange,
    TopicPartition,
)
from spark_kafkawire.options import BadRecords, FetchOptions
from tests.records.damaged_logs import V07, DamagedLog, Row

#: Entries of a segment, and entries between those of its index.
SEGMENT_ENTRIES: Final = 7
INDEX_ENTRIES: Final = 2
#: A damaged place: its first offset, and the one after it.
Place = tuple[int, int]


def bases(log: DamagedLog) -> list[int]:
    """The offset at which each entry begins, and the end."""
    if log.form == V07:
        return [log.start_offset + pos for pos in log.positions]
    return [*(entry.rows[0][0] for entry in log.entries), log.stop_offset]


def written(log: DamagedLog, folder: Path, *, is_indexed: bool) -> LogSlice:
    """The log as segments in a folder, as planning gives them to a task."""
    folder.mkdir(exist_ok=True)
    slices, starts = [], bases(log)
    suffix = "kafka" if log.form == V07 else "log"
    for first in range(0, len(log.entries), SEGMENT_ENTRIES):
        stop = min(first + SEGMENT_ENTRIES, len(log.entries))
        begin, end = log.positions[first], log.positions[stop]
        name = f"{starts[first]:020d}"
        (folder / f"{name}.{suffix}").write_bytes(log.data[begin:end])
        if is_indexed and log.form != V07:
            entries = range(first + INDEX_ENTRIES, stop, INDEX_ENTRIES)
            (folder / f"{name}.index").write_bytes(
                b"".join(
                    struct.pack(">ii", starts[i + 1] - 1 - starts[first], log.positions[i] - begin)
                    for i in entries
                )
            )
        slices.append(
            SegmentSlice(
                f"{name}.{suffix}",
                starts[first],
                end - begin,
                starts[stop] if stop < len(log.entries) or log.form == V07 else None,
                f"{name}.index" if is_indexed and log.form != V07 else None,
            )
        )
    generation = Generation.V07 if log.form == V07 else Generation.MODERN
    return LogSlice(str(folder), FileSystemOptions(), generation, str(folder), tuple(slices), is_log_end=True)


def read(
    log: DamagedLog, files: LogSlice, bad_records: BadRecords, *, window_bytes: int
) -> tuple[list[Row], list[Place]]:
    """The rows of a read of the whole log, and its damaged places."""
    partition = TopicPartition("events", 0, 0 if log.form == V07 else None)
    task = FetchTask(
        OffsetRange(partition, log.start_offset, log.stop_offset), Leader(Broker(0, "", 0)), files=files
    )
    rows: list[Row] = []
    places: list[Place] = []
    # A flipped base offset can leave a gap, which is no bad record.
    options = FetchOptions(bad_records=bad_records, fail_on_data_loss=False)
    for columns in LogFiles(task, options, window_bytes=window_bytes).columns():
        if columns.corrupt is not None:
            [result] = columns.corrupt.to_pylist()
            places.append((result["startOffset"], result["endOffset"]))
            continue
        assert columns.values is not None
        indexes = [0] * columns.count if log.form != V07 else columns.index.tolist()  # type: ignore[union-attr]
        rows += zip(columns.offset.tolist(), indexes, columns.values.to_pylist(), strict=True)
    return rows, places
