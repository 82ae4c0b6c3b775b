"""Plan of a read of log directories: ranges split by bytes, and the files of each task."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from ..clients.reading.task import FetchTask
from ..cluster.cluster import Cluster
from ..cluster.log_directories.cluster import DirectoryCluster
from ..model import Leader, OffsetRange


def split_by_bytes(
    ranges: Sequence[OffsetRange], cluster: Cluster, bytes_max: int | None
) -> Sequence[OffsetRange]:
    """Split ranges of offsets where the indexes of their segments say that there are so many bytes."""
    if bytes_max is None:
        return ranges
    assert isinstance(cluster, DirectoryCluster)
    found = []
    for whole in ranges:
        cuts = cluster.cuts(whole, bytes_max) if whole.size else ()
        ends = [whole.start_offset, *cuts, whole.stop_offset]
        found += [OffsetRange(whole.topic_partition, start, stop) for start, stop in pairwise(ends)]
    return found


def with_files(tasks: Iterable[FetchTask], cluster: Cluster) -> Iterator[FetchTask]:
    """The tasks with their files: a task for each directory where a range is in several."""
    assert isinstance(cluster, DirectoryCluster)
    brokers = cluster.brokers()
    for task in tasks:
        for part in cluster.slices(task.range):
            yield replace(
                task,
                range=replace(task.range, start_offset=part.start_offset, stop_offset=part.stop_offset),
                leader=Leader(brokers[part.place]),
                files=part.files,
            )
