"""All tables by name, reads of those of a cluster, and the plan of a read of those of log directories:
what each task reads.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import pairwise
from types import MappingProxyType
from typing import Final

import pyarrow as pa

from ..directories import LogName
from ..directories.scanner import SegmentFile
from ..directories.scanning import LogDirectory, LogFolder
from ..errors import OptionError, UnsupportedVersionError
from ..model import Generation, TopicPartition
from ..options.read import TableOptions
from ..planner.batch import select
from . import Table
from .groups import GROUPS_TABLE, MEMBERS_TABLE, OFFSETS_TABLE, PRODUCERS, TRANSACTIONS
from .log_tables import BATCHES, SEGMENTS, LogSegment, Share
from .scan import Scan
from .topics import BROKERS, CONFIGS, PARTITIONS_TABLE, TOPICS_TABLE

CATALOGUE: Final[Mapping[str, Table]] = MappingProxyType(
    {
        table.name: table
        for table in (
            BROKERS,
            TOPICS_TABLE,
            PARTITIONS_TABLE,
            GROUPS_TABLE,
            MEMBERS_TABLE,
            OFFSETS_TABLE,
            CONFIGS,
            TRANSACTIONS,
            PRODUCERS,
            SEGMENTS,
            BATCHES,
        )
    }
)


def table_of(options: TableOptions) -> Table:
    """The table of the options. Raises ``OptionError`` (fatal) for an option that chooses rows of other
    tables, and for a table that these brokers do not have."""
    table, generation = CATALOGUE[options.table], options.discovery.generation
    options.check_filters(table.takes)
    if options.discovery.directories is None and table.rows.get(generation) is None:
        there = ", ".join(item.name for item in CATALOGUE.values() if item.rows.get(generation))
        raise OptionError(
            f"option table={table.name}: {generation.title} has no such table; there are {there}"
        )
    return table


def read_table(options: TableOptions, schema: pa.Schema) -> pa.RecordBatch:
    """The rows of a table now, with columns of ``schema``, which are some of the table's.

    Sends only the requests that these columns need. Raises as ``table_of`` does, ``BrokerError`` (fatal) that
    names the ACL if the user lacks a right, and the errors of ``Cluster``.
    """
    table = table_of(options)
    scan = Scan(options, frozenset(schema.names))
    try:
        rows = list(table.rows[options.discovery.generation](scan))
    except UnsupportedVersionError as error:
        raise error.locate(f"table {table.name}") from error
    # A row lacks what its cluster does not know. A misspelled name would be null as well.
    names = {column.name for column in table.columns}
    assert all(row.keys() <= names for row in rows), table.name
    columns = [pa.array([row.get(field.name) for row in rows], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


#: Bytes of segments that a task reads at least, if there are more: as those of Spark's files.
_SHARE_BYTES: Final = 128 << 20
#: Bytes that a file counts as besides its own: to open it takes time.
_OPEN_BYTES: Final = 1 << 20


def shares(options: TableOptions) -> list[Share]:
    """The segments of the selected logs in tasks. Files are only listed.

    Raises ``FileAccessError``, ``OptionError``, ``UnknownTopicError`` (fatal).
    """
    from ..cluster.log_directories.cluster import DirectoryCluster

    directories = options.discovery.directories
    assert directories is not None
    cluster = DirectoryCluster(directories, is_committed=False, fail_on_data_loss=True)
    chosen = None
    if options.selection is not None:
        chosen = frozenset(select(options.selection, cluster, may_be_empty=True))
    result: list[Share] = []
    for broker_id, directory in zip(directories.broker_ids, cluster.directories, strict=True):
        names = [name for name in sorted(directory.logs) if _is_chosen(name, broker_id, chosen)]
        directory.list_logs(names)
        ids = {Generation.V07: broker_id, Generation.MODERN: directory.broker_id}
        segments = [item for name in names for item in _segments(directory.log(name), ids)]
        result += _share_directory(directory, segments, options.table == "batches")
    return result


def _is_chosen(name: LogName, broker_id: int, chosen: Collection[TopicPartition] | None) -> bool:
    if chosen is None:
        return True
    result = (TopicPartition(name.topic, name.partition, broker) for broker in (None, broker_id))
    return any(item in chosen for item in result)


def _segments(folder: LogFolder, ids: Mapping[Generation, int | None]) -> Iterator[LogSegment]:
    """The segments of a log, and those whose rename was interrupted, which replace some of them."""
    kind = folder.generation
    if kind is None:  # a folder without segments
        return
    broker = ids[kind]
    nexts = {before.base_offset: after.base_offset for before, after in pairwise(folder.segments)}
    for item in (*folder.segments, *folder.swapped):
        next_base = nexts.get(item.base_offset) if item in folder.segments else None
        file = SegmentFile(item.file.path, item.size, item.base_offset, next_base, kind)
        yield LogSegment(folder.name, broker, item, file, folder.snapshots.get(item.base_offset))


def _share_directory(directory: LogDirectory, segments: list[LogSegment], reads_all: bool) -> Iterator[Share]:
    """Shares of consecutive segments, each of about ``_SHARE_BYTES``."""
    own: list[LogSegment] = []
    size = 0
    for item in segments:
        own.append(item)
        size += _OPEN_BYTES + (item.segment.size if reads_all else 0)
        if size >= _SHARE_BYTES:
            yield Share(directory.files.uri, directory.settings, tuple(own))
            own, size = [], 0
    if own:
        yield Share(directory.files.uri, directory.settings, tuple(own))
