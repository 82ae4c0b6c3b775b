"""What the target keeps of a log that is copied in transactions: the mark behind its last piece. Pure.

Each log has a transactional id of its own, and a group of the same name. The group's offset is the source
offset of the mark; the rest of it stands beside that as JSON, with what is copied where. It is committed in
the transaction of the piece, so that both are there, or neither.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ...clients.writing.modern.transactional.records import content_of, text_of
from ...clients.writing.modern.transactional.requests import Record
from ...errors import OptionError, quoted
from .routes import Route
from .state import Mark


def log_id(prefix: str, route: Route) -> str:
    """The transactional id of a log, and its group. No write of a name has it, whatever the name is: theirs
    end in a number or in "driver"."""
    return f"{prefix}-{route.target.topic}-{route.target.partition}-log"


@dataclass(frozen=True, slots=True)
class Note:
    """Up to where a log is copied."""

    route: Route
    mark: Mark

    def record(self) -> Record:
        """As the group keeps it."""
        mark, names = self.mark, _names(self.route)
        return Record(
            mark.source_offset, text_of(**names, end=mark.target_offset, messages=mark.message_count)
        )

    @classmethod
    def of(cls, record: Record, route: Route, group: str) -> Note:
        """Read a record. Raises ``OptionError`` (fatal) for one that is none of ours, or of another log."""
        fields = (("source", list), ("target", list), ("end", int), ("messages", int))
        content = content_of(record, group, *fields)
        if {name: content[name] for name in ("source", "target")} != _names(route):
            raise OptionError(
                f"argument --transactional-id: group {quoted(group)} tells of another copy than that of "
                f"{route.source} to {route.target} ({quoted(record.text)}); choose one that nothing else has"
            )
        return cls(route, Mark(record.number, content["end"], content["messages"]))

    def is_after(self, mark: Mark) -> bool:
        """Whether more is copied than before a mark, also where that was no message."""
        return _order(self.mark) > _order(mark)

    def mark_after(self, mark: Mark) -> Mark | None:
        """Where the log goes on whose mark of the state this was; None where that knows as much. What the
        source has lost since may have moved the state's on."""
        if not self.is_after(mark):
            return None
        return replace(self.mark, source_offset=max(self.mark.source_offset, mark.source_offset))


def _order(mark: Mark) -> tuple[int, int]:
    return mark.message_count, mark.source_offset


def _names(route: Route) -> dict[str, list[Any]]:
    source, target = route.source, route.target
    return {
        "source": [source.topic, source.broker, source.partition],
        "target": [target.topic, target.partition],
    }
