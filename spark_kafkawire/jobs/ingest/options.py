"""Options of a run of ``ingest``, checked before Spark starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from spark_kafkawire.errors import OptionError, printable, quoted
from spark_kafkawire.model import OffsetUnit
from spark_kafkawire.options import ReadOptions

from .output import OutputOptions

#: Options of a read that a run sets itself, and what to do instead.
_OWN_OPTIONS: Final = {
    "subscribe": "use --topic",
    "subscribepattern": "use --topic-pattern",
    "assign": "use --topic",
    "kafka.group.id": "use --group",
    "startingoffsets": "use --starting",
    "startingtimestamp": "use --starting",
    "startingoffsetsbytimestamp": "use --starting",
    "endingoffsets": "a run ends where the partitions do",
    "endingtimestamp": "a run ends where the partitions do",
    "endingoffsetsbytimestamp": "a run ends where the partitions do",
}
#: The argument that limits a run, by what the offsets of the brokers count.
_LIMIT_ARGUMENTS: Final = {OffsetUnit.BYTES: "--max-bytes", OffsetUnit.RECORDS: "--max-records"}


@dataclass(frozen=True, slots=True)
class IngestOptions:
    """Options of a run; ``connection`` are options of the data source.

    ``selection`` is the option that selects topics, ``starting`` what ``parse_starting`` made. ``read`` are
    the parsed options of a read of all partitions, with the start of topics that were never read. Raises
    ``OptionError`` (fatal).
    """

    connection: Mapping[str, str] = field(repr=False)
    output: OutputOptions
    selection: Mapping[str, str]
    starting: Mapping[str, str] | None = field(default_factory=dict)
    group: str | None = None
    checkpoint: str | None = None
    bytes_max: int | None = None
    records_max: int | None = None
    gone_brokers: frozenset[int] = frozenset()
    read: ReadOptions = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.group is not None and not self.group.strip():
            raise OptionError(
                f"argument --group: {quoted(self.group)} is not the name of a consumer group; correct it"
            )
        for name in self.connection:
            if instead := _OWN_OPTIONS.get(name.lower()):
                raise OptionError(f"option {printable(name)} is set by the job itself; {instead}")
        # A partition without a message that is young enough is no error of a run.
        strategy = {"startingOffsetsByTimestampStrategy": "latest"} if self.starting else {}
        raw = {**strategy, **self.connection, **(self.starting or {}), **self.selection}
        object.__setattr__(self, "read", ReadOptions.parse(raw))
        if self.gone_brokers and not self.read.discovery.generation.has_partitions_of_brokers:
            raise OptionError(
                "argument --gone-broker: only partitions of 0.7 are of one broker; leave it out"
            )
        unit = self.offset_unit
        for other in self._limits.keys() - {unit}:
            if self._limits[other] is not None:
                raise OptionError(
                    f"argument {_LIMIT_ARGUMENTS[other]}: these brokers count {unit.value}; "
                    f"use {_LIMIT_ARGUMENTS[unit]}"
                )

    @property
    def offset_unit(self) -> OffsetUnit:
        """The unit of offsets."""
        return self.read.discovery.generation.offset_unit

    @property
    def size_max(self) -> int | None:
        """The maximum number of offsets to read."""
        return self._limits[self.offset_unit]

    @property
    def _limits(self) -> dict[OffsetUnit, int | None]:
        return {OffsetUnit.BYTES: self.bytes_max, OffsetUnit.RECORDS: self.records_max}
