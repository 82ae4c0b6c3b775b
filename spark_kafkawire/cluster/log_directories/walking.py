"""Walks over the batches of a segment file by their headers, while a read is planned."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from spark_kafkawire.directories.batches import whole_batches
from spark_kafkawire.directories.files import Files
from spark_kafkawire.directories.windows import windows
from spark_kafkawire.errors import CorruptDataError
from spark_kafkawire.records.log_index import BatchIndex

#: Size of a window, bytes: most walks are over the few kilobytes after the last entry of an index.
_WINDOW_BYTES: Final = 1 << 20
#: Largest batch, bytes: a damaged size must not take all memory.
_BATCH_BYTES_MAX: Final = 64 << 20


def batches(files: Files, path: str, pos: int, stop_pos: int) -> Iterator[BatchIndex]:
    """The whole batches of the bytes ``[pos, stop_pos)`` of a segment, in order. A cut one at the end is left
    out.

    Raises ``CorruptDataError`` with its offset after the batches before it, and as ``windows`` does.
    """
    tail = b""
    for frame, start in windows(files, path, pos, stop_pos, window_bytes=_WINDOW_BYTES):
        index, damage = whole_batches(tail + bytes(frame[start:]))
        if index.count:
            yield index
        if damage is not None:
            raise damage
        tail = index.buf[index.size :].tobytes()
        if len(tail) > _BATCH_BYTES_MAX:
            raise CorruptDataError(
                f"a batch has more than {_BATCH_BYTES_MAX} bytes",
                int.from_bytes(tail[:8], "big", signed=True),
            )
