"""Text files of a log directory: checkpoints of offsets and of leader epochs, and properties. Pure.

replication-offset-checkpoint, recovery-point-offset-checkpoint, log-start-offset-checkpoint,
cleaner-offset-checkpoint, in ``log.dirs``:

    0                   version
    2                   count
    topic 0 1234        topic, partition, offset
    topic 1 1230

leader-epoch-checkpoint, in the folder of a log:

    0                   version
    1                   count
    3 1200              epoch, its first offset

A broker replaces these files as a whole, so a file that is cut is damage. Source: Apache Kafka's
CheckpointFile.java, OffsetCheckpointFile.java, LeaderEpochCheckpointFile.java.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from ..errors import quoted
from .file_damage import damaged_file
from .names import LogName

HIGH_WATERMARKS: Final = "replication-offset-checkpoint"
LOG_STARTS: Final = "log-start-offset-checkpoint"
RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
CLEANER_OFFSETS: Final = "cleaner-offset-checkpoint"
LEADER_EPOCHS: Final = "leader-epoch-checkpoint"
META_PROPERTIES: Final = "meta.properties"
PARTITION_METADATA: Final = "partition.metadata"
#: Files with these names.
NAMES: Final = frozenset(
    (
        HIGH_WATERMARKS,
        LOG_STARTS,
        RECOVERY_POINTS,
        CLEANER_OFFSETS,
        LEADER_EPOCHS,
        META_PROPERTIES,
        PARTITION_METADATA,
    )
)
#: Longest of them, bytes: 59,000 partitions of topics with the longest names (249 characters, so lines of
#: 282), 300,000 with names of 30.
BYTES_MAX: Final = 16 << 20
_INT: Final = re.compile(r"-?[0-9]{1,19}", re.ASCII)
_VERSION: Final = "0"


@dataclass(frozen=True, slots=True, order=True)
class EpochStart:
    """A leader epoch, and the first offset that its leader wrote."""

    epoch: int
    start_offset: int


def offsets_of(data: bytes) -> dict[LogName, int]:
    """Offsets by log. Raises ``CorruptDataError`` (fatal) for a file that is cut, or of another version."""
    found: dict[LogName, int] = {}
    for line in _lines(data):
        # A topic of 0.8 may hold blanks.
        topic, partition, offset = [*line.rsplit(" ", 2), "", ""][:3]
        log = LogName(topic, _number(partition, line))
        if not topic or log in found:
            problem = "names a partition again" if log in found else "is not 'topic partition offset'"
            raise damaged_file(f"line {quoted(line)} {problem}")
        found[log] = _number(offset, line)
    return found


def epochs_of(data: bytes) -> tuple[EpochStart, ...]:
    """Leader epochs in their order. Raises ``CorruptDataError`` (fatal) for a file that is cut, of another
    version, or whose epochs or offsets fall."""
    found = []
    for line in _lines(data):
        epoch, _, offset = line.partition(" ")
        found.append(EpochStart(_number(epoch, line), _number(offset, line)))
    if any(a.epoch >= b.epoch or a.start_offset > b.start_offset for a, b in pairwise(found)):
        raise damaged_file("leader epochs or their first offsets do not rise")
    return tuple(found)


def epoch_end(epochs: Sequence[EpochStart], epoch: int, log_end: int) -> tuple[int, int]:
    """The largest epoch of a log that is not above ``epoch``, and the offset after its last record; (-1, -1)
    if there is none. It is Kafka's OffsetsForLeaderEpoch."""
    found = -1, -1
    for index, each in enumerate(epochs):
        if each.epoch <= epoch:
            is_last = index + 1 == len(epochs)
            found = each.epoch, log_end if is_last else epochs[index + 1].start_offset
    return found


def properties_of(data: bytes) -> Mapping[str, str]:
    """Names and values of ``meta.properties`` and of ``partition.metadata``; lines of other forms are left
    out."""
    found = {}
    for line in data.decode("utf-8", "replace").splitlines():
        name, separator, value = line.partition("=" if "=" in line else ":")
        if separator and not line.startswith("#"):
            found[name.strip()] = value.strip()
    return found


def _lines(data: bytes) -> Iterator[str]:
    """The lines of a checkpoint after its version and count, which are checked. A new file is empty."""
    if not data:
        return iter(())
    try:
        version, count, *lines = data.decode("utf-8").splitlines()
    except ValueError:
        raise damaged_file("it is no checkpoint: it begins with no version and count") from None
    if version != _VERSION:
        raise damaged_file(f"it has version {quoted(version)}; {_VERSION} is supported")
    if _number(count, count) != len(lines):
        raise damaged_file(f"it says that it has {quoted(count)} entries, and has {len(lines)}")
    return iter(lines)


def _number(text: str, line: str) -> int:
    if not _INT.fullmatch(text):
        raise damaged_file(f"line {quoted(line)} has {quoted(text)} where a number is due")
    return int(text)
