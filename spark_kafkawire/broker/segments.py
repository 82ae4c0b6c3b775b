"""The files of one log: named by their start offset, only the last one grows.

    debian-gzip-0/00000000000000000000.kafka     bytes [0, 524291) of the log
    debian-gzip-0/00000000000000524291.kafka     bytes [524291, ...), appended to

No file stays open between calls: a broker may hold thousands of segments.

Source: 0.7.2 log/Log.scala, message/FileMessageSet.scala.
"""

from __future__ import annotations

import itertools
import mmap
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ..errors import CorruptDataError, printable
from ..protocol.primitives import Buffer
from .messages import valid_size

SUFFIX: Final = ".kafka"


@dataclass(slots=True)
class Segment:
    """File of a log: ``size`` bytes, of which readers see the first ``visible_size``.

    ``first_append_ms`` is when this process first appended to it.
    """

    path: Path
    start_offset: int
    size: int
    visible_size: int
    first_append_ms: int | None = None

    @classmethod
    def create(cls, folder: Path, start_offset: int, now_ms: int) -> Segment:
        """A new and empty segment."""
        segment = cls(folder / f"{start_offset:020d}{SUFFIX}", start_offset, 0, 0)
        segment.path.write_bytes(b"")
        segment.touch(now_ms)
        return segment

    @property
    def visible_stop_offset(self) -> int:
        """Offset at which the visible bytes end."""
        return self.start_offset + self.visible_size

    def modified_ms(self) -> int:
        """Modification time of the file, which OFFSETS by time and retention by age use.

        0, as in Java, if retention has just deleted the file.
        """
        try:
            return self.path.stat().st_mtime_ns // 1_000_000
        except FileNotFoundError:
            return 0

    def touch(self, now_ms: int) -> None:
        """Set the modification time: it must be of the same clock as the times in requests."""
        os.utime(self.path, ns=(now_ms * 1_000_000, now_ms * 1_000_000))

    def append(self, data: Buffer, now_ms: int) -> None:
        """Write ``data`` at the end. If that fails with ``OSError``, the file is unchanged."""
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND)
        try:
            written = 0
            while written < len(data):
                written += os.write(descriptor, memoryview(data)[written:])
        except OSError:
            os.ftruncate(descriptor, self.size)
            raise
        finally:
            os.close(descriptor)
        self.touch(now_ms)
        self.size += len(data)
        self.first_append_ms = self.first_append_ms or now_ms

    def recover(self) -> None:
        """Cut off the bytes after the last whole message with a right CRC, which a crash may leave."""
        if not self.size:
            return
        with (
            open(self.path, "rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
            memoryview(data) as view,
        ):
            size = valid_size(view)
        if size < self.size:
            os.truncate(self.path, size)
            self.size = self.visible_size = size


def load_segments(folder: Path, *, recover: bool, now_ms: int) -> tuple[Segment, ...]:
    """The segments in a folder, oldest first; a new and empty one if the folder has none.

    Raises ``CorruptDataError`` (fatal) if a segment does not begin at the end of the one before.
    """
    segments = []
    for path in folder.iterdir():
        if path.suffix == SUFFIX and path.is_file():
            if not re.fullmatch("[0-9]+", path.stem):
                raise CorruptDataError(
                    f"{printable(path)}: a segment file is named by its start offset: remove it"
                )
            size = path.stat().st_size
            segments.append(Segment(path, int(path.stem), size, size))
    if not segments:
        return (Segment.create(folder, 0, now_ms),)
    segments.sort(key=lambda segment: segment.start_offset)
    for segment, following in itertools.pairwise(segments):
        if segment.visible_stop_offset != following.start_offset:
            raise CorruptDataError(
                f"{printable(segment.path)} ends at offset {segment.visible_stop_offset}, "
                f"{following.path.name} follows:"
                " a segment is missing or cut, restore it or remove the older ones"
            )
    if recover:
        segments[-1].recover()
    return tuple(segments)
