"""Files of committed offsets: a line for each partition of each group. Pure.

============  ===================================================================  =====================
offsets of    line                                                                 the same files as
============  ===================================================================  =====================
Kafka 0.7     ``/consumers/GROUP/offsets/TOPIC/BROKER-PARTITION:OFFSET``            Export/ImportZkOffsets
0.8 to 4.x    ``GROUP,TOPIC,PARTITION,OFFSET``, quoted as CSV where need be        kafka-consumer-groups
============  ===================================================================  =====================

``kafka-consumer-groups.sh --reset-offsets`` writes (``--export``) and reads (``--from-file``) such lines for
several groups. For one group it leaves the name out, and this package reads both forms. Text is UTF-8. Every
line ends with a line feed, also the last one: without it the line may be cut, and a cut offset is a wrong
offset.

Source: 0.7's tools/ExportZkOffsets.scala and ImportZkOffsets.scala; KIP-379, CsvUtils.java.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from spark_kafkawire.errors import OptionError, quoted
from spark_kafkawire.model import Generation, TopicPartition

from .report import GroupOffset

_OFFSET_MAX: Final = 2**63 - 1
_NODE: Final = re.compile(
    r"/consumers/([^/]+)/offsets/([^/]+)/(0|[1-9][0-9]{0,8})-(0|[1-9][0-9]{0,8}):([0-9]{1,19})"
)
_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,18}")
#: Characters that no name in a line can hold: line breaks, and those that ``csv`` of Python 3.10 cannot
#: write.
_UNWRITABLE: Final = frozenset("\n\r\0")


@dataclass(frozen=True, slots=True)
class LineFormat:
    """A format of lines. ``read`` gives None for a line of another form; its second argument is the group of
    lines that name none."""

    form: str
    write: Callable[[GroupOffset], str]
    read: Callable[[str, str | None], GroupOffset | None]


def _node_line(entry: GroupOffset) -> str:
    return (
        f"/consumers/{entry.group}/offsets/{entry.topic_partition.topic}/{entry.topic_partition.name}:"
        f"{entry.offset}"
    )


def _read_node_line(line: str, _group: str | None) -> GroupOffset | None:
    match = _NODE.fullmatch(line)
    if not match or int(match[5]) > _OFFSET_MAX:
        return None
    return GroupOffset(match[1], TopicPartition(match[2], int(match[4]), int(match[3])), int(match[5]))


def _csv_line(entry: GroupOffset) -> str:
    line = io.StringIO()
    values = (entry.group, entry.topic_partition.topic, entry.topic_partition.partition, entry.offset)
    csv.writer(line, lineterminator="").writerow(values)
    return line.getvalue()


def _read_csv_line(line: str, group: str | None) -> GroupOffset | None:
    try:
        [values] = csv.reader([line], strict=True)
    except (csv.Error, ValueError):
        return None
    if len(values) == 3 and group is not None:
        values = [group, *values]
    if len(values) != 4 or not values[0] or not values[1] or not all(map(_NUMBER.fullmatch, values[2:])):
        return None
    partition, offset = int(values[2]), int(values[3])
    if partition >= 2**31 or offset > _OFFSET_MAX:
        return None
    return GroupOffset(values[0], TopicPartition(values[1], partition), offset)


LINE_FORMATS: Final[Mapping[Generation, LineFormat]] = MappingProxyType(
    {
        Generation.V07: LineFormat(
            "/consumers/GROUP/offsets/TOPIC/BROKER-PARTITION:OFFSET", _node_line, _read_node_line
        ),
        Generation.MODERN: LineFormat("GROUP,TOPIC,PARTITION,OFFSET", _csv_line, _read_csv_line),
    }
)


def exported(entries: Iterable[GroupOffset], generation: Generation) -> str:
    """The text of a file. Raises ``OptionError`` (fatal) for a name that no line can hold."""
    lines = []
    for entry in entries:
        if _UNWRITABLE.intersection(entry.group + entry.topic_partition.topic):
            raise OptionError(
                f"argument --export: the group {quoted(entry.group)} or the topic "
                f"{quoted(entry.topic_partition.topic)} holds a line break or a NUL, which no line can hold; "
                "leave that group out"
            )
        lines.append(LINE_FORMATS[generation].write(entry))
    return "".join(f"{line}\n" for line in lines)


def imported(text: str, generation: Generation, groups: Sequence[str] = ()) -> tuple[GroupOffset, ...]:
    """The offsets of a file's text, sorted; only those of ``groups`` if groups are given.

    Empty lines are ignored. Raises ``OptionError`` (fatal) for a line of another form, for a partition that
    occurs twice, for a last line that may be cut, and for a file without offsets.
    """
    only_group = groups[0] if len(groups) == 1 else None
    found: dict[tuple[str, TopicPartition], tuple[int, GroupOffset]] = {}
    for number, line in _lines(text):
        entry = LINE_FORMATS[generation].read(line, only_group)
        if entry is None:
            raise OptionError(
                f"argument --import: line {number} is not {LINE_FORMATS[generation].form}; correct it"
            )
        first, _ = found.setdefault((entry.group, entry.topic_partition), (number, entry))
        if first != number:
            raise OptionError(
                f"argument --import: line {number} repeats the partition of line {first}; remove one of them"
            )
    if text.rpartition("\n")[2]:
        raise OptionError(
            "argument --import: the last line has no line feed at its end, so the file may be cut: take a "
            "whole one, or end the line"
        )
    entries = sorted(entry for _, entry in found.values() if not groups or entry.group in groups)
    if not entries:
        raise OptionError(
            "argument --import: the file holds no offset"
            + (" of a group of --group" if groups else "")
            + "; give one of --export"
        )
    return tuple(entries)


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines that hold something, with their numbers from 1. Other line ends may be part of a name."""
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip("\r"):
            yield number, line.removesuffix("\r")
