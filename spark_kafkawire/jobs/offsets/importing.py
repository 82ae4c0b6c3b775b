"""Puts groups at the offsets of a file, after a look at what that would mean.

Nothing is committed before every group was found without members: a consumer that runs would
overwrite what is written here with its own next commit. What is not seen before, a consumer that
joins in between or a group of Kafka Streams' own protocol (KIP-1071), the broker sees: it refuses the
commit of that group, and the groups after it keep their offsets, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TextIO

from rich import box
from rich.table import Table
from rich.text import Text

from ...cluster.cluster import Cluster
from ...errors import OptionError, quoted
from ...model import LogBounds, TopicPartition
from ..state.positions import name_fields
from .file_format import imported
from .report import GroupOffset, GroupPosition, Standing
from .survey import OffsetsOfGroups, Surveyed
from .terminal import console_on, print_table
from .wording import count_text, number_text, printable


@dataclass(frozen=True, slots=True)
class Change:
    """A group's offset in a log as it is, and as it is to be; ``bounds`` is None for a log that nobody
    serves."""

    entry: GroupOffset
    before: int | None
    bounds: LogBounds | None

    @property
    def note(self) -> str:
        """What a person should know of it; empty where the offset is in the log."""
        if self.bounds is None:
            return "no broker serves this log"
        standing = GroupPosition(self.entry.offset, self.bounds).standing
        return "" if standing is Standing.WITHIN else standing.value


def plan_import(
    entries: Sequence[GroupOffset],
    committed: OffsetsOfGroups,
    bounds: Mapping[TopicPartition, LogBounds],
) -> tuple[Change, ...]:
    """What an import would change, in the order of the entries; what is so already is left out."""
    changes = (
        Change(entry, committed[entry.group].get(entry.log), bounds.get(entry.log)) for entry in entries
    )
    return tuple(change for change in changes if change.before != change.entry.offset)


def import_offsets(
    surveyed: Surveyed, text: str, groups: Sequence[str], *, dry_run: bool, step: Callable[[str], None]
) -> tuple[Change, ...]:
    """Commit the offsets of a file's text; what was changed, or would be with ``dry_run``.

    Raises ``OptionError`` (fatal) for a line that is no offset and for a group that has members, and
    what the cluster's methods raise.
    """
    entries = imported(text, surveyed.generation, groups)
    names = tuple(dict.fromkeys(entry.group for entry in entries))
    step(f"looking for members of {count_text(len(names), 'group')}")
    for name in names:
        _check_unused(surveyed.cluster, name)
    known = set(surveyed.logs)
    leaders = surveyed.cluster.known_leaders(
        [log for log in {entry.log for entry in entries} if log in known]
    )
    bounds = surveyed.cluster.bounds(sorted(leaders))
    changes = plan_import(entries, surveyed.group_offsets(names, step), bounds)
    if not dry_run:
        step(f"committing {count_text(len(changes), 'offset')}")
        for name in names:
            offsets = {
                change.entry.log: change.entry.offset for change in changes if change.entry.group == name
            }
            if offsets:
                surveyed.cluster.commit_group_offsets(name, offsets)
    return changes


def _check_unused(cluster: Cluster, group: str) -> None:
    members = cluster.group_members(group)
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
                **name_fields(change.entry.log),
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
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for title in ("group", "topic", "partition", "from", "to", "note"):
        table.add_column(title, justify="right" if title in ("partition", "from", "to") else "left")
    for change in changes:
        entry = change.entry
        words = (entry.group, entry.log.topic, entry.log.name)
        numbers = (number_text(change.before), number_text(entry.offset))
        table.add_row(*(Text(word) for word in (*map(printable, words), *numbers, change.note)))
    if changes:
        print_table(console, table)
    outcome = "would change" if dry_run else "changed"
    console.print(Text(f"{count_text(len(changes), 'offset')} {outcome}"))
