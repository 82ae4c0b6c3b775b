"""Log directories of brokers, read without a broker: ``log.dirs`` of Kafka 0.7 to 4.x.

    log.dirs of a broker
      meta.properties  replication-offset-checkpoint  log-start-offset-checkpoint  ...
      topic-partition/
        00000000000000000000.log  .index  .timeindex  .txnindex  .snapshot       (0.8 to 4.x)
        00000000000000000000.kafka                                               (0.7)
        leader-epoch-checkpoint  partition.metadata

Names of folders and files are parsed here, as Kafka parses them::

    topic-partition                     a log; the partition follows the last dash
    topic-partition.<id>-delete         a log whose topic is deleted, for file.delete.delay.ms
    topic-partition.<id>-future         a log that moves to another directory of its broker
    topic-partition.<id>-stray          a log that the controller does not assign to this broker
    00000000000000000042.log            a segment of Kafka 0.8 to 4.x; the number is its first offset
    00000000000000000042.kafka          a segment of Kafka 0.7; the number is the offset of its first byte
    ….log.deleted, ….cleaned, ….swap    a segment that is deleted, compacted, or renamed after compaction

``side_files`` is pure: bytes become values. ``files`` alone opens files.

Source: Apache Kafka's LocalLog.scala (``parseTopicPartitionName``), LogFileUtils.java, UnifiedLog.java; 0.7.2
log/Log.scala.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from typing import Final

#: Logs of these folders are not read: Kafka does not serve them.
_NOT_SERVED: Final = ("-delete", "-future", "-stray")
_PARTITION: Final = re.compile(r"0|[1-9][0-9]{0,9}", re.ASCII)
_PARTITION_MAX: Final = 2**31 - 1
#: A number of 20 digits, perhaps a part between dots, the ending, and a state that Kafka appends.
_FILE: Final = re.compile(
    r"([0-9]{20})\.(log|kafka|index|timeindex|txnindex|snapshot)(?:\.(deleted|cleaned|swap))?", re.ASCII
)
_OFFSET_MAX: Final = 2**63 - 1
#: Topics of Kafka itself. A read that names no topic leaves them out, as it does with brokers.
INTERNAL_TOPICS: Final = frozenset(
    ("__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata")
)


@dataclass(frozen=True, slots=True, order=True)
class LogName:
    """The topic and the partition of a log."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def log_name(folder: str) -> LogName | None:
    """The log that a folder of this name holds; None for other folders and for logs that Kafka does not
    serve."""
    if folder.endswith(_NOT_SERVED) and "." in folder:
        return None
    topic, dash, partition = folder.rpartition("-")
    if not dash or not topic or not _PARTITION.fullmatch(partition) or int(partition) > _PARTITION_MAX:
        return None
    return LogName(topic, int(partition))


class FileKind(enum.Enum):
    """Kind of a file in the folder of a log."""

    LOG = "log"
    V07_LOG = "kafka"
    OFFSET_INDEX = "index"
    TIME_INDEX = "timeindex"
    TXN_INDEX = "txnindex"
    SNAPSHOT = "snapshot"


class FileState(enum.Enum):
    """State that the end of a file's name gives."""

    LIVE = ""
    #: Kafka removes it after ``file.delete.delay.ms``; its records are elsewhere, or gone.
    DELETED = "deleted"
    #: The log cleaner writes it.
    CLEANED = "cleaned"
    #: It is complete, and replaces the segments of its offsets.
    SWAP = "swap"


@dataclass(frozen=True, slots=True)
class FileName:
    """The parts of a file's name. ``offset`` is in bytes for ``V07_LOG``, in records for all others."""

    offset: int
    kind: FileKind
    state: FileState = FileState.LIVE


def file_name(name: str) -> FileName | None:
    """The parts of the name of a segment or of a file beside one; None for other files."""
    match = _FILE.fullmatch(name)
    if match is None or int(match[1]) > _OFFSET_MAX:
        return None
    return FileName(int(match[1]), FileKind(match[2]), FileState(match[3] or ""))
