"""The log of a partition of Kafka 0.7: one broker's, for no other broker has a copy."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from typing import Final

from spark_kafkawire.directories.files import LogSlice, SegmentSlice, only_zeros, windows
from spark_kafkawire.directories.names import LogName
from spark_kafkawire.directories.scanning import LogDirectory, Segment
from spark_kafkawire.errors import CorruptDataError
from spark_kafkawire.model import Generation, PartitionBounds, TopicPartition
from spark_kafkawire.records.damage import Whole
from spark_kafkawire.records.message_set.index import Stop, index_messages, walk_messages

from ..v07 import segments
from . import SlicePart

#: A broker that stopped in order leaves this file.
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"
_SOUND: Final = frozenset((Stop.END, Stop.CUT))
#: Largest message, bytes: a damaged length must not take all memory.
_MESSAGE_BYTES_MAX: Final = 64 << 20


class V07Log:
    """Implements ``PartitionLog``. The time of a segment is that of the last change of its file. Without
    ``fail_on_damage`` a segment may end before the next one begins: the tasks say which bytes are missing."""

    def __init__(
        self,
        partition: TopicPartition,
        directory: LogDirectory,
        name: LogName,
        place: int,
        *,
        fail_on_damage: bool = True,
    ) -> None:
        self._partition = partition
        self._directory = directory
        self._folder = directory.log(name)
        self._place = place
        self._fail_on_damage = fail_on_damage

    @cached_property
    def _segments(self) -> tuple[Segment, ...]:
        """All segments. Each begins where the one before it ends."""
        result = self._folder.segments
        for before, after in pairwise(result):
            end = before.base_offset + before.size
            if end > after.base_offset or (end < after.base_offset and self._fail_on_damage):
                shown = self._directory.files.shown
                raise CorruptDataError(
                    f"{self._partition}: {shown(before.file.path)} ends at offset "
                    f"{before.base_offset + before.size}, and {shown(after.file.path)} begins at "
                    f"{after.base_offset}: a segment is missing, or was cut; move the files before the "
                    "gap, or after it, to another directory, or set badRecords=null or drop"
                )
        return result

    @cached_property
    def bounds(self) -> PartitionBounds:
        first, last = self._segments[0], self._segments[-1]
        latest = last.base_offset + self._whole_size(last)
        starts = tuple(item.base_offset for item in self._segments if item.base_offset < latest)
        return PartitionBounds(self._partition, first.base_offset, latest, starts)

    def _whole_size(self, last: Segment) -> int:
        """The size of the whole messages of the last segment: its broker runs, or was killed, unless it left
        a file that says otherwise. Damage that is no cut message counts: the read of it is the error."""
        if CLEAN_SHUTDOWN in self._directory.others:
            return last.size
        files, path = self._directory.files, last.file.path
        pos, tail = 0, b""
        for frame, start in windows(files, path, 0, last.size):
            chunk = tail + bytes(frame[start:])
            index = index_messages(chunk)
            pos, tail = pos + index.size, chunk[index.size :]
            if index.stop not in _SOUND:
                return pos if only_zeros(files, path, pos, last.size) else last.size
            if len(tail) > _MESSAGE_BYTES_MAX:
                return last.size
        # A cut message is the end, unless sound ones follow: then its length is damaged.
        walk = walk_messages(tail, last.base_offset + pos, is_end=True)
        return last.size if any(isinstance(part, Whole) for part in walk.parts) else pos

    @property
    def high_watermark(self) -> int:
        return self.bounds.latest

    def start_offset(self, time_ms: int) -> int | None:
        # As with a broker: the time of a file may be cut to whole seconds.
        return segments.start_offset(self.bounds, self._before(time_ms // 1000 * 1000))

    def stop_offset(self, time_ms: int) -> int | None:
        return segments.stop_offset(self.bounds, self._before(time_ms))

    def _before(self, time_ms: int) -> list[int]:
        """Starts of the segments that are older than the timestamp, as OFFSETS returns them."""
        older = [location for location, item in enumerate(self._segments) if item.file.modified_ms < time_ms]
        return [item.base_offset for item in self._segments[: older[-1] + 1]] if older else []

    def slices(self, start_offset: int, stop_offset: int) -> Sequence[SlicePart]:
        last = self._segments[-1]
        nexts = (*(item.base_offset for item in self._segments[1:]), last.base_offset + last.size)
        held = [
            SegmentSlice(item.file.name, item.base_offset, item.size, next_base)
            for item, next_base in zip(self._segments, nexts, strict=True)
            if item.base_offset < stop_offset and next_base > start_offset
        ]
        files = LogSlice(
            self._directory.files.uri,
            self._directory.settings,
            Generation.V07,
            self._folder.path,
            tuple(held),
            is_log_end=stop_offset == self.bounds.latest,
        )
        return (SlicePart(start_offset, stop_offset, files, self._place),)

    def cut_points(self, *_: int) -> Sequence[int]:
        """None: the planner splits ranges of bytes itself, at the starts of segments."""
        return ()
