"""The plan of a read of the tables ``segments`` and ``batches``: what each task reads."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import pairwise
from typing import Final

from ..cluster.log_directories.cluster import DirectoryCluster
from ..directories.names import LogName
from ..directories.scanning import LogDirectory, LogFolder
from ..model import Generation, TopicPartition
from ..options.cluster_table import TableOptions
from ..planner.batch import select
from .log_segments import LogSegment, Share

#: Bytes of segments that a task reads at least, if there are more: as those of Spark's files.
_SHARE_BYTES: Final = 128 << 20
#: Bytes that a file counts as besides its own: to open it takes time.
_OPEN_BYTES: Final = 1 << 20


def shares(options: TableOptions) -> list[Share]:
    """The segments of the selected logs in tasks. Files are only listed.

    Raises ``FileAccessError``, ``OptionError``, ``UnknownTopicError`` (fatal).
    """
    directories = options.discovery.directories
    assert directories is not None
    cluster = DirectoryCluster(directories, is_committed=False, fail_on_data_loss=True)
    chosen = None
    if options.selection is not None:
        chosen = frozenset(select(options.selection, cluster, may_be_empty=True))
    found: list[Share] = []
    for broker_id, directory in zip(directories.broker_ids, cluster.directories, strict=True):
        names = [name for name in sorted(directory.logs) if _is_chosen(name, broker_id, chosen)]
        directory.list_logs(names)
        ids = {Generation.V07: broker_id, Generation.MODERN: directory.broker_id}
        segments = [each for name in names for each in _segments(directory.log(name), ids)]
        found += _of_directory(directory, segments, options.table == "batches")
    return found


def _is_chosen(name: LogName, broker_id: int, chosen: Collection[TopicPartition] | None) -> bool:
    if chosen is None:
        return True
    found = (TopicPartition(name.topic, name.partition, broker) for broker in (None, broker_id))
    return any(each in chosen for each in found)


def _segments(folder: LogFolder, ids: Mapping[Generation, int | None]) -> Iterator[LogSegment]:
    """The segments of a log, and those whose rename was interrupted, which replace some of them."""
    kind = folder.generation
    if kind is None:  # a folder without segments
        return
    broker = ids[kind]
    nexts = {before.base_offset: after.base_offset for before, after in pairwise(folder.segments)}
    for each in (*folder.segments, *folder.swapped):
        next_base = nexts.get(each.base_offset) if each in folder.segments else None
        snapshot = folder.snapshots.get(each.base_offset)
        yield LogSegment(
            folder.name.topic,
            folder.name.partition,
            broker,
            each,
            next_base,
            kind,
            None if snapshot is None else snapshot.size,
        )


def _of_directory(directory: LogDirectory, segments: list[LogSegment], reads_all: bool) -> Iterator[Share]:
    """Shares of consecutive segments, each of about ``_SHARE_BYTES``."""
    own: list[LogSegment] = []
    size = 0
    for each in segments:
        own.append(each)
        size += _OPEN_BYTES + (each.segment.size if reads_all else 0)
        if size >= _SHARE_BYTES:
            yield Share(directory.files.uri, directory.settings, tuple(own))
            own, size = [], 0
    if own:
        yield Share(directory.files.uri, directory.settings, tuple(own))
