"""Commits the offsets of a file to groups, after a check of what that changes.

No offset is committed unless all groups are without members: a running consumer would overwrite it with its
own next commit. The check misses a consumer that joins afterwards, and a group of Kafka Streams' own protocol
(KIP-1071). The broker then refuses the commit of that group, and the groups after it keep their offsets, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TextIO

from rich.text import Text

from spark_kafkawire.cluster.cluster import ConsumerGroups
from spark_kafkawire.errors import OptionError, quoted
from spark_kafkawire.model import PartitionBounds, TopicPartition

from ..state.positions import name_fields
from .file_format import imported
from .folding import FoldedColumn, print_folded
from .report import GroupOffset, GroupPosition, Standing
from .survey import OffsetsOfGroups, Surveyed
from .terminal import console_on
from .wording import count_text, number_text, printable


@dataclass(frozen=True, slots=True)
class Change:
    """A group's current and new offset in a partition; ``bounds`` is None for a partition that no broker
    serves."""

    entry: GroupOffset
    before: int | None
    bounds: PartitionBounds | None

    @property
    def note(self) -> str:
        """A remark for a person; empty if the offset is in the log."""
        if self.bounds is None:
            return "no broker serves this partition"
        standing = GroupPosition(self.entry.offset, self.bounds).standing
        return "" if standing is Standing.WITHIN else standing.value


def plan_import(
    entries: Sequence[GroupOffset],
    committed: OffsetsOfGroups,
    bounds: Mapping[TopicPartition, PartitionBounds],
) -> tuple[Change, ...]:
    """The changes of an import, in the order of the entries, without those that are in place already."""
    changes = (
        Change(entry, committed[entry.group].get(entry.topic_partition), bounds.get(entry.topic_partition))
        for entry in entries
    )
    return tuple(change for change in changes if change.before != change.entry.offset)


def import_offsets(
    surveyed: Surveyed, text: str, groups: Sequence[str], *, dry_run: bool, step: Callable[[str], None]
) -> tuple[Change, ...]:
    """Commit the offsets of a file's text. Returns the changes, which ``dry_run`` does not make.

    Raises ``OptionError`` (fatal) for a line that is no offset and for a group that has members, and the
    errors of the cluster's methods.
    """
    entries = imported(text, surveyed.generation, groups)
    names = tuple(dict.fromkeys(entry.group for entry in entries))
    step(f"looking for members of {count_text(len(names), 'group')}")
    for name in names:
        _check_unused(surveyed.cluster.groups, name)
    known = set(surveyed.partitions)
    leaders = surveyed.cluster.known_leaders(
        [tp for tp in {entry.topic_partition for entry in entries} if tp in known]
    )
    bounds = surveyed.cluster.bounds(sorted(leaders))
    changes = plan_import(entries, surveyed.group_offsets(names, step), bounds)
    if not dry_run:
        step(f"committing {count_text(len(changes), 'offset')}")
        for name in names:
            offsets = {
                change.entry.topic_partition: change.entry.offset
                for change in changes
                if change.entry.group == name
            }
            if offsets:
                surveyed.cluster.groups.commit(name, offsets)
    return changes


def _check_unused(found: ConsumerGroups, group: str) -> None:
    members = found.members(group)
    if members:
        raise OptionError(
            f"argument --import: the group {quoted(group)} has {count_text(len(members), 'member')}, "
            f"{quoted(members[0])} first, which would overwrite its offsets: stop them, or leave "
            "the group out"
        )


def import_summary(changes: Sequence[Change], *, dry_run: bool) -> dict[str, Any]:
    """The changes for ``--json``."""
    return {
        "dry_run": dry_run,
        "changed": len(changes),
        "changes": [
            {
                "group": change.entry.group,
                **name_fields(change.entry.topic_partition),
                "from": change.before,
                "to": change.entry.offset,
                "note": change.note or None,
            }
            for change in changes
        ],
    }


def print_changes(changes: Sequence[Change], out: TextIO, *, dry_run: bool) -> None:
    """The changes as a table on a terminal."""
    console = console_on(out)
    entries = [change.entry for change in changes]
    keys = (
        FoldedColumn("group", tuple(printable(entry.group) for entry in entries), is_name=True),
        FoldedColumn(
            "topic", tuple(printable(entry.topic_partition.topic) for entry in entries), is_name=True
        ),
        FoldedColumn("partition", tuple(printable(entry.topic_partition.name) for entry in entries)),
    )
    before = FoldedColumn("from", tuple(number_text(change.before) for change in changes))
    after = FoldedColumn("to", tuple(number_text(entry.offset) for entry in entries))
    note = FoldedColumn("note", tuple(change.note for change in changes), is_name=True)
    if changes:
        print_folded(console, keys, [[before, after], [note]])
    outcome = "would change" if dry_run else "changed"
    console.print(Text(f"{count_text(len(changes), 'offset')} {outcome}"))
