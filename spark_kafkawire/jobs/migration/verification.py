"""Counts and checksums of a range of the source and of its copy in the target."""

from __future__ import annotations

from dataclasses import dataclass

from ...clients.fetcher import FetchTask
from ...model import OffsetRange
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
    """What was read on both sides."""

    source_count: int
    source_sha256: str
    target_count: int
    target_sha256: str

    def matches(self, message_count: int) -> bool:
        """Whether both sides are equal and as long as they should be."""
        return (
            self.source_count == self.target_count == message_count
            and self.source_sha256 == self.target_sha256
        )


class Verifier:
    """Reads both sides of one log anew, and believes nothing else."""

    def __init__(self, clusters: Clusters) -> None:
        self._clusters = clusters.for_tasks()

    def __call__(self, task: VerifyTask) -> Verified:
        """The counts and checksums. Raises what reading raises."""
        source, target = ValuesDigest(), ValuesDigest()
        if task.source.range.size:
            for columns in self._clusters.source_columns(task.source):
                source.update(columns.values)
        log_range = task.target
        for values in self._clusters.copied_values(
            task.source.range.log, log_range.log, log_range.start_offset, log_range.stop_offset
        ):
            target.update(values)
        return Verified(source.count, source.sha256, target.count, target.sha256)
