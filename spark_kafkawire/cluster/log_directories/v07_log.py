"""The log of a partition of Kafka 0.7: one broker's, for no other broker has a copy."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise

from spark_kafkawire.directories.names import LogName
from spark_kafkawire.directories.scanning import LogDirectory, Segment
from spark_kafkawire.directories.slices import LogSlice, SegmentSlice
from spark_kafkawire.errors import CorruptDataError
from spark_kafkawire.model import Generation, PartitionBounds, TopicPartition

from ..v07 import segments
from .partition_log import SlicePart


class V07Log:
    """Implements ``PartitionLog``. The time of a segment is that of the last change of its file."""

    def __init__(self, partition: TopicPartition, directory: LogDirectory, name: LogName, place: int) -> None:
        self._partition = partition
        self._directory = directory
        self._folder = directory.log(name)
        self._place = place

    @cached_property
    def _segments(self) -> tuple[Segment, ...]:
        """All segments. Each begins where the one before it ends."""
        found = self._folder.segments
        for before, after in pairwise(found):
            if before.base_offset + before.size != after.base_offset:
                shown = self._directory.files.shown
                raise CorruptDataError(
                    f"{self._partition}: {shown(before.file.path)} ends at offset "
                    f"{before.base_offset + before.size}, and {shown(after.file.path)} begins at "
                    f"{after.base_offset}: a segment is missing, or was cut; move the files before the "
                    "gap, or after it, to another directory"
                )
        return found

    @cached_property
    def bounds(self) -> PartitionBounds:
        first, last = self._segments[0], self._segments[-1]
        starts = tuple(each.base_offset for each in self._segments if each.size)
        return PartitionBounds(self._partition, first.base_offset, last.base_offset + last.size, starts)

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
        older = [place for place, each in enumerate(self._segments) if each.file.modified_ms < time_ms]
        return [each.base_offset for each in self._segments[: older[-1] + 1]] if older else []

    def slices(self, start_offset: int, stop_offset: int) -> Sequence[SlicePart]:
        held = [
            SegmentSlice(each.file.name, each.base_offset, each.size, each.base_offset + each.size)
            for each in self._segments
            if each.base_offset < stop_offset and each.base_offset + each.size > start_offset
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

    def cut_points(
        self,
        start_offset: int,  # noqa: ARG002
        stop_offset: int,  # noqa: ARG002
        bytes_max: int,  # noqa: ARG002
    ) -> Sequence[int]:
        """None: the planner splits ranges of bytes itself, at the starts of segments."""
        return ()
