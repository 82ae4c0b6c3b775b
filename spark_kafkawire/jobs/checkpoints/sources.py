"""The sources of a checkpoint, and what each connector needs to continue them. Pure.

Either connector continues a query whose first batch is done. Until then only the source knows the start of
that batch: Spark's own connector has it in a file. This package takes it from its options again, and marks
the end of a first batch whose start would otherwise move, such as ``latest``.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from spark_kafkawire.errors import OptionError
from spark_kafkawire.model import Generation, TopicPartition
from spark_kafkawire.options.offsets import PARTITION_SYNTAX
from spark_kafkawire.planner.stream_offsets import PART_MARK, PIN_MARK, from_json, is_pinned, to_json

from .files import CheckpointBatch

KAFKA: Final = "kafka"
KAFKAWIRE: Final = "kafkawire"


class Need(enum.Enum):
    """Conditions for a connector to continue from a checkpoint."""

    NOTHING = "continues without changes"
    #: The source is no Kafka's, or stays with the one connector that can read it.
    NOT_KAFKA = "is not a Kafka source"
    ONLY_OURS = "is Kafka 0.7, which only format(kafkawire) reads"
    #: The start is in a file that this connector cannot see.
    GIVEN_START = "continues with these startingOffsets, until its first batch is done"
    #: The start must be written to the file where this connector looks for it.
    WRITTEN_START = "continues from these offsets once they are written"
    #: Only the user who began the query knows the start.
    SAME_OPTIONS = "begins its first batch at startingOffsets: give the same options as before"
    PART_GIVEN = (
        "has a first batch with given starts for some partitions: give those as startingOffsets, and these "
        "offsets for the other partitions"
    )


@dataclass(frozen=True, slots=True)
class Source:
    """A source of a checkpoint. ``written`` is the text of its last offsets, ``start`` that of Spark's own
    connector; ``first`` is true if its first batch is not done."""

    number: int
    written: str
    start: str | None
    first: bool

    @property
    def is_kafka(self) -> bool:
        """True if its offsets are Kafka's."""
        return self._read is not None

    @property
    def kind(self) -> str:
        """The generation of Kafka, for people."""
        return self._read[0].title if self._read else "not Kafka's"

    @property
    def offsets(self) -> dict[TopicPartition, int]:
        """The end of the last batch."""
        return self._read[1] if self._read else {}

    @property
    def writer(self) -> str:
        """The connector that wrote the offsets: Spark's own leaves no blanks."""
        return KAFKAWIRE if self.written == json.dumps(json.loads(self.written)) else KAFKA

    def need(self, target: str) -> Need:
        """The condition for a connector to continue here."""
        if self._read is None:
            return Need.NOT_KAFKA
        if target == KAFKA and not self._read[0].has_spark_connector:
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
        """The start of an unfinished first batch, as Spark's own connector writes it; None if it is not
        recorded."""
        if not self.first or not self.is_kafka:
            return None
        if is_pinned(json.loads(self.written)):
            return _text(self.offsets)
        return self.start

    @property
    def _read(self) -> tuple[Generation, dict[TopicPartition, int]] | None:
        # Offsets of no partitions are of either; only those of later Kafka are for both connectors.
        for generation, syntax in reversed(tuple(PARTITION_SYNTAX.items())):
            try:
                return generation, from_json(json.loads(self.written), syntax)
            except (ValueError, OptionError):
                continue
        return None


def sources_of(batch: CheckpointBatch, starts: Mapping[int, str | None]) -> tuple[Source, ...]:
    """The sources of a checkpoint; ``starts`` are those that Spark's own connector has written down."""
    is_first = batch.number == 0 and not batch.is_done
    return tuple(
        Source(number, written, starts.get(number), is_first) for number, written in enumerate(batch.ends)
    )


def _text(offsets: Mapping[TopicPartition, int]) -> str:
    return json.dumps(to_json(offsets), separators=(",", ":"))


def source_summary(source: Source) -> dict[str, Any]:
    """A source for the summary as JSON."""
    return {
        "source": source.number,
        "kind": source.kind,
        "written_by": source.writer if source.is_kafka else None,
        "offsets": to_json(source.offsets),
        "start": json.loads(source.given_start) if source.given_start else None,
    }
