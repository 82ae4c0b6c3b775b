"""What the sources of a checkpoint are, and what each connector needs to go on with them. Pure.

Once its first batch is done, a query goes on with either connector as it is. Until then only the source
knows where that batch begins: Spark's own has it in a file, ours takes it from its options again, and
marks the end of a first batch that has pinned a start which moves.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from ...errors import OptionError
from ...model import Generation, TopicPartition
from ...options.offsets import LOG_SYNTAX
from ...planner.stream_offsets import PART_MARK, PIN_MARK, from_json, is_pinned, to_json
from .files import Batch

KAFKA: Final = "kafka"
KAFKAWIRE: Final = "kafkawire"
#: What a generation is called, and who reads it.
_KINDS: Final[Mapping[Generation, tuple[str, frozenset[str]]]] = MappingProxyType(
    {
        Generation.V07: ("Kafka 0.7", frozenset((KAFKAWIRE,))),
        Generation.MODERN: ("Kafka 0.8 or later", frozenset((KAFKA, KAFKAWIRE))),
    }
)


class Need(enum.Enum):
    """What stands between a checkpoint and a connector."""

    NOTHING = "goes on as it is"
    #: The source is no Kafka's, or stays with the one connector that can read it.
    NOT_KAFKA = "is not a source of Kafka's"
    ONLY_OURS = "is Kafka 0.7, which only format(kafkawire) reads"
    #: The start is in a file that this connector cannot see.
    GIVEN_START = "goes on with these startingOffsets, until its first batch is done"
    #: The start is to be written where this connector looks for it.
    WRITTEN_START = "goes on from these offsets, once they are written"
    #: Only who began the query knows.
    SAME_OPTIONS = "begins its first batch where startingOffsets says: give the options of before"
    PART_GIVEN = (
        "has a first batch of which some partitions' starts were given: give those as startingOffsets, and "
        "of the others these offsets"
    )


@dataclass(frozen=True, slots=True)
class Source:
    """One source of a checkpoint. ``written`` is the text of its last offsets, ``start`` that of Spark's own
    connector; ``first`` is whether its first batch is not done."""

    number: int
    written: str
    start: str | None
    first: bool

    @property
    def is_kafka(self) -> bool:
        """Whether its offsets are Kafka's."""
        return self._read is not None

    @property
    def kind(self) -> str:
        """Which Kafka they are of, for people."""
        return _KINDS[self._read[0]][0] if self._read else "not Kafka's"

    @property
    def offsets(self) -> dict[TopicPartition, int]:
        """Where the last batch ends."""
        return self._read[1] if self._read else {}

    @property
    def writer(self) -> str:
        """Which of the two has written the offsets: Spark's own leaves no blanks."""
        return KAFKAWIRE if self.written == json.dumps(json.loads(self.written)) else KAFKA

    def need(self, target: str) -> Need:
        """What the connector needs to go on here."""
        if self._read is None:
            return Need.NOT_KAFKA
        if target not in _KINDS[self._read[0]][1]:
            return Need.ONLY_OURS
        if not self.first:
            return Need.NOTHING
        return self._need_of_kafka if target == KAFKA else self._need_of_kafkawire

    @property
    def _need_of_kafka(self) -> Need:
        marks = json.loads(self.written)
        if PIN_MARK in marks:
            return Need.NOTHING if self.start == self.given_start else Need.WRITTEN_START
        if PART_MARK in marks:
            return Need.PART_GIVEN
        return Need.SAME_OPTIONS if self.start is None else Need.NOTHING

    @property
    def _need_of_kafkawire(self) -> Need:
        if is_pinned(json.loads(self.written)):
            return Need.NOTHING
        return Need.SAME_OPTIONS if self.start is None else Need.GIVEN_START

    @property
    def given_start(self) -> str | None:
        """Where a first batch begins that is not done, as Spark's own connector writes it; None where
        nothing tells."""
        if not self.first or not self.is_kafka:
            return None
        if is_pinned(json.loads(self.written)):
            return _text(self.offsets)
        return self.start

    @property
    def _read(self) -> tuple[Generation, dict[TopicPartition, int]] | None:
        # Offsets of no partitions are of either; only those of later Kafka are for both connectors.
        for generation, syntax in reversed(tuple(LOG_SYNTAX.items())):
            try:
                return generation, from_json(json.loads(self.written), syntax)
            except (ValueError, OptionError):
                continue
        return None


def sources_of(batch: Batch, starts: Mapping[int, str | None]) -> tuple[Source, ...]:
    """The sources of a checkpoint; ``starts`` are those that Spark's own connector has written down."""
    is_first = batch.number == 0 and not batch.is_done
    return tuple(
        Source(number, written, starts.get(number), is_first) for number, written in enumerate(batch.ends)
    )


def _text(offsets: Mapping[TopicPartition, int]) -> str:
    return json.dumps(to_json(offsets), separators=(",", ":"))


def described(source: Source) -> dict[str, Any]:
    """A source for the summary as JSON."""
    return {
        "source": source.number,
        "kind": source.kind,
        "written_by": source.writer if source.is_kafka else None,
        "offsets": to_json(source.offsets),
        "start": json.loads(source.given_start) if source.given_start else None,
    }
