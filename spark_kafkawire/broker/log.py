"""The log of one topic and partition, as a 0.7 broker checks, keeps and serves it.

    debian-gzip-0/00000000000000000000.kafka     bytes [0, 524291) of the log
    debian-gzip-0/00000000000000524291.kafka     bytes [524291, ...), appended to

Messages are checked at a produce request, and at recovery. Files have the names of their start offsets,
and only the last one grows. No file stays open between calls: a broker may hold thousands of segments.

An offset is a byte position in the log, so a fetch is a slice of one segment file. Appended bytes are
invisible to readers until they are flushed: ``visible_size`` of a segment is the high-water mark of 0.7,
counted from the segment's start.

Source: recordings (``produce/*``); 0.7.2 log/Log.scala, message/FileMessageSet.scala (recovery),
message/ByteBufferMessageSet.scala (the order of the checks).
"""

from __future__ import annotations

import itertools
import mmap
import os
import re
import threading
import time
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ..errors import BrokerError, CorruptDataError, printable
from ..protocol.primitives import Buffer, read_int32
from ..protocol.v07 import EARLIEST_TIME, LATEST_TIME, ErrorCode
from ..records.checksum import crc32
from ..records.message_set.decoding import decode
from ..records.message_set.index import MessageIndex, Stop, index_messages, message_size
from ..records.message_set.kernels import LENGTH_BYTES

#: Bytes of a segment that are checked at once; a larger message is checked as a whole.
RECOVERY_WINDOW_BYTES: Final = 16 << 20


class OversizeMessage(Exception):
    """A payload is above ``max.message.size``: the broker silently drops its whole set."""


def check_produced(message_set: Buffer, payload_size_max: int) -> tuple[int, int]:
    """Check a produced set at all levels of nesting. A message that its end cuts is dropped.

    Returns the number of bytes at its start that are whole messages, which are stored, and the number of
    messages in them when compressed ones are unpacked.

    Raises ``OversizeMessage``, ``CorruptDataError`` for sets that 0.7.2 refuses, and ``LimitError`` for a set
    that decompresses to more than ``DecodeLimits`` allow; 0.7.2 itself has no such limit.
    """
    buf = memoryview(message_set)
    index = index_messages(buf)
    oversize = (index.payload_size > payload_size_max).nonzero()[0]
    if len(oversize):
        # By then 0.7.2 has checked only the messages before it, and its own checksum.
        row = int(oversize[0])
        if (wrong := _first_wrong_crc(buf, index, row + 1)) is not None:
            raise CorruptDataError(f"the CRC-32 of the message at {wrong} is wrong; send it again")
        raise OversizeMessage(
            f"payload of {index.payload_size[row]} bytes is above max.message.size {payload_size_max}; "
            "raise that"
        )
    if index.stop is not Stop.END and not _is_partial(buf, index):
        raise CorruptDataError(f"the message set holds {index.stop.meaning} at {index.size}")
    pos = count = 0
    while pos < index.size:
        decoded = decode(buf[pos : index.size], pos, values=False)
        pos += decoded.size
        count += decoded.columns.count
    return index.size, count


def _is_partial(buf: memoryview, index: MessageIndex) -> bool:
    """Return true if the bytes after the whole messages are a message that the end of the set cuts, and not
    the first message."""
    rest = buf[index.size :]
    if len(rest) < LENGTH_BYTES:
        return True
    return index.count > 0 and read_int32(rest) > len(rest) - LENGTH_BYTES


def valid_size(data: memoryview) -> int:
    """Number of bytes at the start of a segment that are whole messages with a right CRC.

    Messages inside compressed ones are not checked.
    """
    pos = 0
    while size := _next_size(data[pos:]):
        window = data[pos : pos + max(size, RECOVERY_WINDOW_BYTES)]
        index = index_messages(window)
        if (wrong := _first_wrong_crc(window, index, index.count)) is not None:
            return pos + wrong
        assert index.size, "a message that is whole was not indexed"
        pos += index.size
    return pos


def _next_size(data: memoryview) -> int:
    """Size of the message that ``data`` begins with, 0 where that is cut or cannot be one."""
    try:
        size = message_size(data)
    except CorruptDataError:
        return 0
    return size if size is not None and size <= len(data) else 0


def _first_wrong_crc(buf: memoryview, index: MessageIndex, count: int) -> int | None:
    """The position of the first of ``count`` messages whose payload does not match its CRC-32."""
    starts, stops = index.payload_pos[:count].tolist(), index.next_pos[:count].tolist()
    for row, claimed in enumerate(index.crc[:count].tolist()):
        if crc32(buf[starts[row] : stops[row]]) != claimed:
            return int(index.pos[row])
    return None


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


def now_ms() -> int:
    """Wall clock, ms since the epoch. The modification times of segments are compared with it."""
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class FileSlice:
    """``size`` bytes at ``pos`` of a file, to be sent without being read.

    ``size`` is negative if a FETCH asked for a negative size: the real broker does not check it.
    """

    path: Path
    pos: int
    size: int

    def content(self) -> bytes:
        """The bytes, or fewer where the file is shorter. Raises ``OSError``."""
        with open(self.path, "rb", buffering=0) as file:
            return os.pread(file.fileno(), self.size, self.pos)


@dataclass(frozen=True, slots=True)
class LogLimits:
    """Limits at which a log closes its last segment, and the number of messages between flushes."""

    segment_size_max: int
    segment_age_max_ms: int
    flush_interval: int


class Log:
    """Segments that are appended to, read, and deleted from their old end. Safe for many threads.

    ``on_visible`` is called when there is more to read.
    """

    def __init__(
        self,
        folder: Path,
        limits: LogLimits,
        *,
        recover: bool,
        clock_ms: Callable[[], int] = now_ms,
        on_visible: Callable[[], None] = lambda: None,
    ) -> None:
        self._folder = folder
        self._limits = limits
        self._clock_ms = clock_ms
        self._on_visible = on_visible
        self._lock = threading.Lock()
        self._unflushed_count = 0
        self.flushed_ms = clock_ms()
        #: The segments, oldest first; at least one. Replaced, never changed: readers need no lock.
        self.segments = load_segments(folder, recover=recover, now_ms=clock_ms())

    @property
    def size(self) -> int:
        """Visible bytes in all segments."""
        return sum(segment.visible_size for segment in self.segments)

    @property
    def visible_stop_offset(self) -> int:
        """The end of the log to its readers."""
        return self.segments[-1].visible_stop_offset

    def append(self, message_set: Buffer, count: int, *, flush: bool = False) -> int:
        """Append whole messages, ``count`` of them when compressed ones are unpacked. Returns their offset.

        A segment that has become too large or too old is closed *before* the append. ``flush`` makes them
        visible before the next regular flush.
        """
        with self._lock:
            self._roll_if_due()
            last = self.segments[-1]
            offset = last.start_offset + last.size
            if len(message_set):
                last.append(message_set, self._clock_ms())
            self._unflushed_count += count
            if flush or self._unflushed_count >= self._limits.flush_interval:
                self._flush()
        return offset

    def read(self, offset: int, max_bytes: int) -> FileSlice | None:
        """The bytes from ``offset`` on: ``max_bytes``, or up to the visible end of that segment. None at the
        end of the log.

        Raises ``BrokerError`` with OFFSET_OUT_OF_RANGE.
        """
        segments = self.segments
        stop_offset = segments[-1].visible_stop_offset
        if not segments[0].start_offset <= offset <= stop_offset:
            raise BrokerError(
                f"offset {offset} is out of range; read from an offset that OFFSETS returns",
                ErrorCode.OFFSET_OUT_OF_RANGE,
            )
        if offset == stop_offset:
            return None
        segment = segments[bisect_right(segments, offset, key=lambda segment: segment.start_offset) - 1]
        pos = offset - segment.start_offset
        return FileSlice(segment.path, pos, min(max_bytes, segment.visible_size - pos))

    def offsets_before(self, time_ms: int, count_max: int) -> tuple[int, ...]:
        """Segment starts, and the end of the log, that are not younger than ``time_ms``: newest
        first, ``count_max`` at most. ``time_ms`` may be LATEST_TIME or EARLIEST_TIME.
        """
        segments = self.segments
        known = [(segment.start_offset, segment.modified_ms()) for segment in segments]
        if segments[-1].visible_size:
            known.append((segments[-1].visible_stop_offset, self._clock_ms()))
        if time_ms == LATEST_TIME:
            stop_index = len(known)
        elif time_ms == EARLIEST_TIME:
            stop_index = 1
        else:
            young = (index for index in range(len(known), 0, -1) if known[index - 1][1] <= time_ms)
            stop_index = next(young, 0)
        return tuple(offset for offset, _ in known[:stop_index][::-1][:count_max])

    def flush(self) -> None:
        """Make all appended bytes visible, unless no message was appended since the last time.

        The kernel has the bytes since their append, so they survive the end of this process. An embedded
        broker promises no more, so it does not wait for the disk.
        """
        with self._lock:
            if self._unflushed_count:
                self._flush()

    def delete_while(self, is_deletable: Callable[[Segment], bool]) -> int:
        """Delete the oldest segments as long as they are deletable. Returns their number.

        If all segments are deleted, an empty one at the end of the log takes their place.
        """
        with self._lock:
            segments = self.segments
            count = next(
                (index for index, segment in enumerate(segments) if not is_deletable(segment)), len(segments)
            )
            if count == len(segments):
                if not segments[-1].visible_size:
                    segments[-1].touch(self._clock_ms())
                    count -= 1
                else:
                    self._roll()
            deleted, self.segments = self.segments[:count], self.segments[count:]
        for segment in deleted:
            segment.path.unlink(missing_ok=True)
        return len(deleted)

    def close(self) -> None:
        """Make all appended bytes visible."""
        with self._lock:
            self._flush()

    def _flush(self) -> None:
        last = self.segments[-1]
        has_more = last.size > last.visible_size
        last.visible_size = last.size
        self._unflushed_count = 0
        self.flushed_ms = self._clock_ms()
        if has_more:
            self._on_visible()

    def _roll_if_due(self) -> None:
        last, limits = self.segments[-1], self._limits
        begun_ms = last.first_append_ms
        old = begun_ms is not None and self._clock_ms() - begun_ms > limits.segment_age_max_ms
        if last.size > limits.segment_size_max or old:
            self._roll()

    def _roll(self) -> None:
        self._flush()
        stop_offset = self.segments[-1].visible_stop_offset
        segment = Segment.create(self._folder, stop_offset, self._clock_ms())
        self.segments = (*self.segments, segment)
