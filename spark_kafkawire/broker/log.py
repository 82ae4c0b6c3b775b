"""The log of one topic and partition, as a 0.7 broker keeps and serves it.

An offset is a byte position in the log, so a fetch is a slice of one segment file. Appended
bytes are invisible to readers until they are flushed: ``visible_size`` of a segment is the
high-water mark of 0.7, counted from the segment's start.

Source: 0.7.2 log/Log.scala, message/FileMessageSet.scala, and recordings.
"""

from __future__ import annotations

import os
import threading
import time
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ..errors import BrokerError
from ..protocol.primitives import Buffer
from ..protocol.v07 import EARLIEST_TIME, LATEST_TIME
from ..protocol.v07.error_codes import ErrorCode
from .segments import Segment, load_segments


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
        # Replaced, never changed: readers take it without the lock.
        self._segments = load_segments(folder, recover=recover, now_ms=clock_ms())

    @property
    def size(self) -> int:
        """Visible bytes in all segments."""
        return sum(segment.visible_size for segment in self._segments)

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The segments, oldest first; there is at least one."""
        return self._segments

    @property
    def visible_stop_offset(self) -> int:
        """The end of the log to its readers."""
        return self._segments[-1].visible_stop_offset

    def append(self, message_set: Buffer, count: int, *, flush: bool = False) -> int:
        """Append whole messages, ``count`` of them when compressed ones are unpacked. Returns their offset.

        A segment that has become too large or too old is closed *before* the append. ``flush`` makes them
        visible before the next regular flush.
        """
        with self._lock:
            self._roll_if_due()
            last = self._segments[-1]
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
        segments = self._segments
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
        segments = self._segments
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
            segments = self._segments
            count = next(
                (index for index, segment in enumerate(segments) if not is_deletable(segment)), len(segments)
            )
            if count == len(segments):
                if not segments[-1].visible_size:
                    segments[-1].touch(self._clock_ms())
                    count -= 1
                else:
                    self._roll()
            deleted, self._segments = self._segments[:count], self._segments[count:]
        for segment in deleted:
            segment.path.unlink(missing_ok=True)
        return len(deleted)

    def close(self) -> None:
        """Make all appended bytes visible."""
        with self._lock:
            self._flush()

    def _flush(self) -> None:
        last = self._segments[-1]
        has_more = last.size > last.visible_size
        last.visible_size = last.size
        self._unflushed_count = 0
        self.flushed_ms = self._clock_ms()
        if has_more:
            self._on_visible()

    def _roll_if_due(self) -> None:
        last, limits = self._segments[-1], self._limits
        begun_ms = last.first_append_ms
        old = begun_ms is not None and self._clock_ms() - begun_ms > limits.segment_age_max_ms
        if last.size > limits.segment_size_max or old:
            self._roll()

    def _roll(self) -> None:
        self._flush()
        stop_offset = self._segments[-1].visible_stop_offset
        segment = Segment.create(self._folder, stop_offset, self._clock_ms())
        self._segments = (*self._segments, segment)
