"""A run of ``offsets``: a report, with a page and a file of offsets on request, or the import of such a
file. It asks each broker once for all its partitions, and each group once.

============  ===================================================================  =====================
offsets of    line of a file                                                       the same files as
============  ===================================================================  =====================
Kafka 0.7     ``/consumers/GROUP/offsets/TOPIC/BROKER-PARTITION:OFFSET``            Export/ImportZkOffsets
0.8 to 4.x    ``GROUP,TOPIC,PARTITION,OFFSET``, quoted as CSV where need be        kafka-consumer-groups
============  ===================================================================  =====================

``kafka-consumer-groups.sh --reset-offsets`` writes (``--export``) and reads (``--from-file``) such
lines for several groups. For one group it leaves the name out, and this package reads both forms. Text
is UTF-8. Every line ends with a line feed, also the last one: without it the line may be cut, and a cut
offset is a wrong offset. Source: 0.7's tools/ExportZkOffsets.scala and ImportZkOffsets.scala; KIP-379,
CsvUtils.java.

No offset is committed unless all groups are without members: a running consumer would overwrite it with
its own next commit. The check misses a consumer that joins afterwards, and a group of Kafka Streams'
own protocol (KIP-1071). The broker then refuses the commit of that group, and the groups after it keep
their offsets, too.
"""

from __future__ import annotations

import csv
import io
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from rich.text import Text

from spark_kafkawire import errors
from spark_kafkawire.clients.writing.modern.transactional.write_state import (
    OffsetAndMetadata,
    may_be_group_of_write,
    write_of_group,
)
from spark_kafkawire.cluster import Cluster, cluster_of
from spark_kafkawire.errors import LOG, OptionError, quote
from spark_kafkawire.model import Generation, PartitionBounds, RecordTimes, TopicPartition
from spark_kafkawire.options import ReadOptions
from spark_kafkawire.planner.batch import select
from spark_kafkawire.tables import Row

from ..arguments import arg, check_needs, connection_args, flag, topic_args
from ..files import read_file, write_file
from ..progress import DATA_LOSS_KEY, Progress
from ..state import name_fields, name_order
from .page import page
from .report import (
    ClusterReport,
    GroupOffset,
    complaints,
    count_text,
    find_standing,
    number_text,
    printable,
    report_json,
    row_of,
)
from .terminal import FoldedColumn, console_on, print_folded, print_report


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsOptions:
    """Options of a report or an import. Raises ``OptionError`` (fatal) for arguments that contradict each
    other.

    ``connection`` are options of the data source, ``selection`` is the one that selects topics, empty for
    all. With ``import_text`` the groups are those to take from that file, otherwise those to report.
    """

    connection: Mapping[str, str] = connection_args()
    selection: Mapping[str, str] = topic_args("show", group="report", default="all topics")
    groups: tuple[str, ...] = arg(
        "--group",
        "a consumer group; may be repeated (default: none)",
        many=True,
        make=lambda names: tuple(dict.fromkeys(names)),
        default=tuple,
        one_of="groups",
    )
    all_groups: bool = flag(
        "--all-groups", "all groups that have an offset of one of the topics", one_of="groups"
    )
    check: bool = flag(
        "--check",
        "exit with 3 if a group has no offset, or an offset before the start of its log, beyond its "
        "end, or in a partition that no broker has; the summary names them",
        needs=("groups", "all_groups"),
    )
    html: Path | None = arg("--html", "also write an HTML page with bars and tables", Path)
    exported: Path | None = arg(
        "--export",
        "also write the offsets of the groups to this file",
        Path,
        needs=("groups", "all_groups"),
        group="offsets of groups",
        one_of="file",
    )
    imported: Path | None = arg(
        "--import",
        "commit the offsets of this file, or only those of --group; prints no report",
        Path,
        one_of="file",
    )
    dry_run: bool = flag(
        "--dry-run", "show what --import would change, and change nothing", needs=("imported",)
    )

    def __post_init__(self) -> None:
        if self.imported is not None:
            self._check_import()
        check_needs(self)

    def _check_import(self) -> None:
        if self.all_groups:
            raise OptionError(
                "argument --all-groups cannot be combined with --import, whose file names the groups; leave "
                "it out"
            )
        pattern = "--topic-pattern" if "subscribePattern" in self.selection else "--topic"
        for argument, is_given in (
            (pattern, bool(self.selection)),
            ("--html", self.html is not None),
            ("--check", self.check),
        ):
            if is_given:
                raise OptionError(
                    f"argument {argument} cannot be combined with --import; run the command once with each"
                )


def run_offsets(options: OffsetsOptions, progress: Progress, as_json: bool) -> dict[str, Any]:
    """Print the tables unless ``as_json``. Returns the summary for the caller to print.

    Raises ``OptionError`` (fatal), and the errors of asking the cluster.
    """
    text = read_file(options.imported, "--import") if options.imported is not None else None
    progress.step("finding brokers and topics")
    surveyed = Surveyed.of({**options.connection, **options.selection})
    if text is None:
        return _report(surveyed, options, progress, as_json)
    changes = import_offsets(surveyed, text, options.groups, dry_run=options.dry_run, step=progress.step)
    if as_json:
        return {"dry_run": options.dry_run, "changed": len(changes), "changes": changes}
    print_changes(changes, dry_run=options.dry_run)
    return {}


def _report(surveyed: Surveyed, options: OffsetsOptions, progress: Progress, as_json: bool) -> dict[str, Any]:
    groups = surveyed.groups_with_offsets(progress.step) if options.all_groups else options.groups
    report = surveyed.report(groups, progress.step)
    if options.html is not None:
        write_file(options.html, page(report), "--html")
    if options.exported is not None:
        write_file(options.exported, export_text(report.group_offsets(), report.generation), "--export")
    checked = {DATA_LOSS_KEY: complaints(report)} if options.check else {}
    if as_json:
        return {**report_json(report), **checked}
    print_report(report, sys.stdout)
    return checked


def import_offsets(
    surveyed: Surveyed, text: str, groups: Sequence[str], *, dry_run: bool, step: Callable[[str], None]
) -> list[Row]:
    """Commit the offsets of a file's text. Returns a row for each change, which ``dry_run`` does not make.

    Raises ``OptionError`` (fatal) for a line that is no offset and for a group that has members, and the
    errors of the cluster's methods.
    """
    entries = import_text(text, surveyed.generation, groups)
    names = tuple(dict.fromkeys(entry.group for entry in entries))
    step(f"looking for members of {count_text(len(names), 'group')}")
    for name in names:
        if members := surveyed.cluster.groups.members(name):
            raise OptionError(
                f"argument --import: the group {quote(name)} has {count_text(len(members), 'member')}, "
                f"{quote(members[0])} first, which would overwrite its offsets: stop them, or leave "
                "the group out"
            )
    known = set(surveyed.partitions)
    leaders = surveyed.cluster.known_leaders(
        [tp for tp in {entry.topic_partition for entry in entries} if tp in known]
    )
    bounds = surveyed.cluster.bounds(sorted(leaders))
    committed = surveyed.group_offsets(names, step)
    changed = [item for item in entries if committed[item.group].get(item.topic_partition) != item.offset]
    if not dry_run:
        step(f"committing {count_text(len(changed), 'offset')}")
        for name in names:
            if offsets := {item.topic_partition: item.offset for item in changed if item.group == name}:
                surveyed.cluster.groups.commit(name, offsets)
    return [_change(item, committed, bounds.get(item.topic_partition)) for item in changed]


def _change(entry: GroupOffset, committed: OffsetsOfGroups, bounds: PartitionBounds | None) -> Row:
    """The row of a change. Its note is for a person, and None if the new offset is in the log."""
    location = find_standing(entry.offset, *((bounds.earliest, bounds.latest) if bounds else (None, None)))
    return {
        "group": entry.group,
        **name_fields(entry.topic_partition),
        "from": committed[entry.group].get(entry.topic_partition),
        "to": entry.offset,
        "note": location and location.value,
    }


def print_changes(changes: Sequence[Row], *, dry_run: bool) -> None:
    """The changes as a table on a terminal."""

    def column(title: str, text: Callable[[Row], str], *, is_name: bool = False) -> FoldedColumn:
        return FoldedColumn(title, tuple(map(text, changes)), is_name)

    console = console_on(sys.stdout)
    keys = (
        column("group", lambda row: printable(row["group"]), is_name=True),
        column("topic", lambda row: printable(row["topic"]), is_name=True),
        column("partition", lambda row: TopicPartition("", row["partition"], row.get("broker")).name),
    )
    before = column("from", lambda row: number_text(row["from"]))
    after = column("to", lambda row: number_text(row["to"]))
    note = column("note", lambda row: row["note"] or "", is_name=True)
    if changes:
        print_folded(console, keys, [[before, after], [note]])
    outcome = "would change" if dry_run else "changed"
    console.print(Text(f"{count_text(len(changes), 'offset')} {outcome}"))


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


def export_text(entries: Iterable[GroupOffset], generation: Generation) -> str:
    """The text of a file. Raises ``OptionError`` (fatal) for a name that no line can hold."""
    lines = []
    for entry in entries:
        if _UNWRITABLE.intersection(entry.group + entry.topic_partition.topic):
            raise OptionError(
                f"argument --export: the group {quote(entry.group)} or the topic "
                f"{quote(entry.topic_partition.topic)} holds a line break or a NUL, which no line can hold; "
                "leave that group out"
            )
        lines.append(LINE_FORMATS[generation].write(entry))
    return "".join(f"{line}\n" for line in lines)


def import_text(text: str, generation: Generation, groups: Sequence[str] = ()) -> tuple[GroupOffset, ...]:
    """The offsets of a file's text, sorted; only those of ``groups`` if groups are given.

    Empty lines are ignored. Raises ``OptionError`` (fatal) for a line of another form, for a partition that
    occurs twice, for a last line that may be cut, and for a file without offsets.
    """
    only_group = groups[0] if len(groups) == 1 else None
    result: dict[tuple[str, TopicPartition], tuple[int, GroupOffset]] = {}
    for number, line in _lines(text):
        entry = LINE_FORMATS[generation].read(line, only_group)
        if entry is None:
            raise OptionError(
                f"argument --import: line {number} is not {LINE_FORMATS[generation].form}; correct it"
            )
        first, _ = result.setdefault((entry.group, entry.topic_partition), (number, entry))
        if first != number:
            raise OptionError(
                f"argument --import: line {number} repeats the partition of line {first}; remove one of them"
            )
    if text.rpartition("\n")[2]:
        raise OptionError(
            "argument --import: the last line has no line feed at its end, so the file may be cut: take a "
            "whole one, or end the line"
        )
    entries = sorted(entry for _, entry in result.values() if not groups or entry.group in groups)
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


#: The options that choose topics. Without them all are reported.
_SELECTION: Final = frozenset(("subscribe", "subscribepattern", "assign"))
_EVERY_TOPIC: Final = {"subscribePattern": ".*"}
#: The offsets of each group.
OffsetsOfGroups = Mapping[str, Mapping[TopicPartition, int]]


@dataclass(frozen=True)
class Surveyed:
    """A cluster and those of its partitions that the options choose."""

    place: str
    generation: Generation
    cluster: Cluster
    partitions: tuple[TopicPartition, ...]
    has_all_topics: bool

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Surveyed:
        """Find the cluster and its partitions; all of them if no option selects topics.

        Raises ``OptionError`` (fatal), and the errors of discovery.
        """
        chooses = any(name.lower() in _SELECTION for name in options)
        read = ReadOptions.parse({**options, **({} if chooses else _EVERY_TOPIC)})
        cluster = cluster_of(read)
        partitions = (
            select(read.selection, cluster) if chooses else cluster.partitions_of(_all_topics(cluster))
        )
        generation = read.discovery.generation
        return cls(
            read.discovery.place, generation, cluster, tuple(sorted(partitions, key=name_order)), not chooses
        )

    def report(
        self, groups: Sequence[str], step: Callable[[str], None], clock: Callable[[], float] = time.time
    ) -> ClusterReport:
        """Ask the brokers; ``step`` is called with the text of each step. Groups that keep the records of
        writes are separated from the others.

        Raises ``BrokerError`` or ``TransportError`` when the retries are used up.
        """
        # Offsets come before ends: a group that reads on meanwhile is not beyond the end.
        writes = self._writes(groups)
        kept = {group for own in writes.values() for group in own}
        groups = [group for group in groups if group not in kept]
        committed = self.group_offsets(groups, step)
        leaders = self.cluster.known_leaders(self.partitions)
        brokers = count_text(len({leader.broker for leader in leaders.values()}), "broker")
        step(f"asking {brokers} for {count_text(len(leaders), 'partition')}")
        led = [tp for tp in self.partitions if tp in leaders]
        bounds = self.cluster.bounds(led)
        times = self.cluster.record_times([tp for tp in led if bounds[tp].earliest < bounds[tp].latest])
        rows = tuple(
            row_of(
                self.generation,
                tp,
                leaders[tp].broker if tp in leaders else None,
                bounds.get(tp),
                times.get(tp, RecordTimes()),
                {group: committed[group].get(tp) for group in groups},
            )
            for tp in self.partitions
        )
        return ClusterReport(
            self.place,
            self.generation,
            int(1000 * clock()),
            tuple(self.cluster.brokers()),
            tuple(groups),
            rows,
            self._unknown(committed),
            writes,
        )

    def groups_with_offsets(self, step: Callable[[str], None]) -> tuple[str, ...]:
        """All groups that have an offset for one of the partitions, or for any partition if all topics are
        reported."""
        step("listing groups")
        committed = self.group_offsets(self.cluster.groups.names(), step)
        held = set(self.partitions)
        return tuple(
            group
            for group, offsets in committed.items()
            if (offsets if self.has_all_topics else held & offsets.keys())
        )

    def group_offsets(self, groups: Sequence[str], step: Callable[[str], None]) -> OffsetsOfGroups:
        """The committed offsets of each group."""
        if groups:
            step(f"reading the offsets of {count_text(len(groups), 'group')}")
        return {group: self.cluster.groups.committed(group) for group in groups}

    def _writes(self, groups: Sequence[str]) -> dict[str, list[str]]:
        """The writes whose records some of the groups keep."""
        result: dict[str, list[str]] = {}
        for group in filter(may_be_group_of_write, groups):
            records = [OffsetAndMetadata(*item) for item in self.cluster.groups.texts(group)]
            if (name := write_of_group(group, records)) is not None:
                result.setdefault(name, []).append(group)
        return dict(sorted(result.items()))

    def _unknown(self, committed: OffsetsOfGroups) -> tuple[GroupOffset, ...]:
        """Offsets in partitions that do not exist. In 0.7 these include partitions of the selected topics
        whose broker is down or whose session is expired: only the group still names them."""
        held = set(self.partitions)
        topics = {tp.topic for tp in held}
        unknown = sorted(
            GroupOffset(group, tp, offset)
            for group, offsets in committed.items()
            for tp, offset in offsets.items()
            if tp not in held and (self.has_all_topics or (tp.broker is not None and tp.topic in topics))
        )
        if lost := [item for item in unknown if item.topic_partition.broker is not None]:
            LOG.warning(
                "%s in partitions that no live broker holds, %s of group %s first: start its broker, "
                "unless it is gone for good",
                count_text(len(lost), "offset"),
                errors.printable(lost[0].topic_partition),
                quote(lost[0].group),
            )
        return tuple(unknown)


def _all_topics(cluster: Cluster) -> Sequence[str]:
    try:
        return cluster.topics()
    except OptionError as error:
        raise OptionError("argument --topic: brokers of 0.7 cannot list their topics; name them") from error
