"""Counts and checksums of a range of the source and of its copy in the target.

Retention may delete messages of the source while a large partition is copied. Deleted messages can be counted
in the target only. The remaining messages, at the end of both, are compared.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from spark_kafkawire.clients.reading.task import FetchTask
from spark_kafkawire.errors import DataLossError
from spark_kafkawire.model import OffsetRange

from .clusters import Clusters
from .matching import ValuesDigest


@dataclass(frozen=True, slots=True)
class VerifyTask:
    """Two ranges that must hold the same messages, ``message_count`` by the state directory."""

    source: FetchTask
    target: OffsetRange
    message_count: int


@dataclass(frozen=True, slots=True)
class Verified:
    """Counts and checksums of both sides. The checksums leave out the first ``gone_count`` messages, which
    the source has deleted; the counts do not."""

    source_count: int
    source_sha256: str
    target_count: int
    target_sha256: str
    gone_count: int = 0

    def matches(self, message_count: int) -> bool:
        """True if both sides are equal and as long as they should be."""
        return (
            self.source_count == self.target_count == message_count
            and self.source_sha256 == self.target_sha256
        )


class Verifier:
    """Reads both sides of one partition again, and relies on nothing else."""

    def __init__(self, clusters: Clusters) -> None:
        self._clusters = clusters.for_tasks()

    def __call__(self, task: VerifyTask) -> Verified:
        """The counts and checksums. Raises the errors of reading."""
        source, target = self._source(task.source), ValuesDigest()
        is_whole = source.start_offset == task.source.range.start_offset
        gone_count = 0 if is_whole else max(task.message_count - source.values.count, 0)
        left, offset_range = gone_count, task.target
        for values in self._clusters.copied_values(
            task.source.range.topic_partition,
            offset_range.topic_partition,
            offset_range.start_offset,
            offset_range.stop_offset,
        ):
            skipped = min(left, len(values))
            left -= skipped
            target.update(values.slice(skipped))
        return Verified(
            source.values.count + gone_count,
            source.values.sha256,
            target.count + gone_count - left,
            target.sha256,
            gone_count,
        )

    def _source(self, task: FetchTask) -> _Source:
        """The messages of the source in a range; retention may overtake the read."""
        asked = task.range
        start = asked.start_offset
        while True:
            start = min(max(start, self._clusters.source_start(task)), asked.stop_offset)
            values = ValuesDigest()
            offset_range = OffsetRange(asked.topic_partition, start, asked.stop_offset)
            if not offset_range.size:
                return _Source(start, values)
            try:
                for columns in self._clusters.source_columns(replace(task, range=offset_range)):
                    values.update(columns.values)
            except DataLossError:
                if self._clusters.source_start(task) <= start:
                    raise
                continue
            return _Source(start, values)


@dataclass(frozen=True, slots=True)
class _Source:
    """The messages read of the source, and their start."""

    start_offset: int
    values: ValuesDigest
