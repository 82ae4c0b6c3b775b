"""The note that the target keeps of a partition copied in transactions: the mark after its last piece. Pure.

Each partition has a transactional id of its own, and a group of the same name. The group's offset is the
source offset of the mark. The metadata of the offset is JSON with the rest of the mark, and with source and
target of the copy. The note is committed in the transaction of the piece.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from spark_kafkawire.clients.writing.modern.transactional.write_state import (
    OffsetAndMetadata,
    decode_metadata,
    encode_metadata,
)
from spark_kafkawire.errors import OptionError, quoted

from .routes import Route
from .state import Mark


def partition_transactional_id(prefix: str, route: Route) -> str:
    """The transactional id of a partition, and its group. No write of a name has it, whatever the name is:
    theirs end in a number or in "driver"."""
    return f"{prefix}-{route.target.topic}-{route.target.partition}-log"


@dataclass(frozen=True, slots=True)
class Note:
    """Up to where a partition is copied."""

    route: Route
    mark: Mark

    def record(self) -> OffsetAndMetadata:
        """The form that the group stores."""
        mark, names = self.mark, _names(self.route)
        return OffsetAndMetadata(
            mark.source_offset, encode_metadata(**names, end=mark.target_offset, messages=mark.message_count)
        )

    @classmethod
    def of(cls, record: OffsetAndMetadata, route: Route, group: str) -> Note:
        """Read a record. Raises ``OptionError`` (fatal) for a record of another program or of another
        partition."""
        fields = (("source", list), ("target", list), ("end", int), ("messages", int))
        content = decode_metadata(record, group, *fields)
        if {name: content[name] for name in ("source", "target")} != _names(route):
            raise OptionError(
                f"argument --transactional-id: group {quoted(group)} holds the note of another copy than "
                f"that of {route.source} to {route.target} ({quoted(record.metadata)}); "
                "choose one that nothing else uses"
            )
        return cls(route, Mark(record.offset, content["end"], content["messages"]))

    def is_after(self, mark: Mark) -> bool:
        """True if more is copied than before a mark, also if that was no message."""
        return _order(self.mark) > _order(mark)

    def mark_after(self, mark: Mark) -> Mark | None:
        """The mark to continue from, for a partition with this mark in the state; None if the state's mark is
        at least as new. Losses of the source since then may have moved the state's mark on."""
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
