"""Options of a run of ``stream_copy``, checked before Spark starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from spark_kafkawire.errors import OptionError, printable
from spark_kafkawire.model import Generation, OffsetUnit
from spark_kafkawire.options import StreamOptions, WriteOptions
from spark_kafkawire.planner.batch import covers
from spark_kafkawire.source.write_schema import WRITE_SCHEMAS

#: Options that a run sets itself, and what to do instead.
_OWN_OF_SOURCE: Final = {
    "subscribe": "use --topic",
    "subscribepattern": "use --topic-pattern",
    "assign": "use --topic",
    "kafka.group.id": "use --group",
    "commitoffsets": "use --group",
    "startingoffsets": "use --starting",
    "startingtimestamp": "use --starting",
    "startingoffsetsbytimestamp": "use --starting",
    "maxoffsetspertrigger": "use --max-offsets",
    "maxbytespertrigger": "use --max-bytes",
    "includeheaders": "headers are copied",
}
_OWN_OF_TARGET: Final = {"topic": "use --target-topic"}
#: The argument that limits a batch and its option, by what the offsets of the brokers count.
_LIMITS: Final = {
    OffsetUnit.BYTES: ("--max-bytes", "maxBytesPerTrigger"),
    OffsetUnit.RECORDS: ("--max-offsets", "maxOffsetsPerTrigger"),
}


@dataclass(frozen=True, slots=True)
class StreamCopyOptions:
    """Source and target of a copy. Raises ``OptionError`` (fatal).

    ``source`` and ``target`` are options of the data source as the user gave them; exactly one of ``target``
    and ``output``, a folder, is given. ``starting`` is what ``parse_starting`` made. ``read`` and ``write``
    are the parsed options; ``reading`` and ``writing`` are the options for Spark.
    """

    source: Mapping[str, str] = field(repr=False)
    selection: Mapping[str, str]
    checkpoint: str
    target: Mapping[str, str] = field(default_factory=dict, repr=False)
    target_topic: str | None = None
    output: str | None = None
    keep_partitions: bool = False
    starting: Mapping[str, str] | None = field(default_factory=dict)
    offsets_max: int | None = None
    bytes_max: int | None = None
    group: str | None = None
    available_now: bool = False
    interval_s: int = 0
    read: StreamOptions = field(init=False, repr=False)
    write: WriteOptions | None = field(init=False, repr=False)

    def __post_init__(self) -> None:
        _check_own("--source-option", self.source, _OWN_OF_SOURCE)
        _check_own("--target-option", self.target, _OWN_OF_TARGET)
        # The first parse, without options that depend on the generation, finds the generation.
        self._set("read", StreamOptions.parse({**self.source, **self.selection}))
        self._check_limits()
        self._set("read", StreamOptions.parse(self.reading))
        if self.group is not None:
            self.read.check_group("argument --group")
        self._check_where_to()
        self._set("write", WriteOptions.parse(self.writing) if self.target else None)
        self._check_target()

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    @property
    def generation(self) -> Generation:
        """The generation of the source."""
        return self.read.read.discovery.generation

    @property
    def reading(self) -> dict[str, str]:
        """Options of the stream."""
        # A partition without a message that is young enough is no error of a run.
        options = {"startingOffsets": "earliest", "startingOffsetsByTimestampStrategy": "latest"}
        options |= {"startingOffsets": "latest"} if self.starting is None else self.starting
        options |= {**self.source, **self.selection}
        if "headers" in WRITE_SCHEMAS[self.generation].stored:
            options["includeHeaders"] = "true"
        if (size := self._limits[self.generation.offset_unit]) is not None:
            options[_LIMITS[self.generation.offset_unit][1]] = str(size)
        return options if self.group is None else {**options, "kafka.group.id": self.group}

    @property
    def writing(self) -> dict[str, str]:
        """Options of the sink that is a cluster."""
        return {**self.target, **({} if self.target_topic is None else {"topic": self.target_topic})}

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are written to a cluster: those that messages of both generations have, and the
        target."""
        assert self.write is not None
        target = WRITE_SCHEMAS[self.write.discovery.generation]
        stored = WRITE_SCHEMAS[self.generation].stored
        topic = () if self.target_topic is not None else ("topic",)
        broker = ("broker",) if self.generation.has_partitions_of_brokers else ()
        place = (*broker, "partition") if self.keep_partitions else ()
        return (*(name for name in target.columns if name in stored), *topic, *place)

    @property
    def left_out(self) -> tuple[str, ...]:
        """Parts of the source's messages that the target cannot store."""
        if self.write is None:
            return ()
        kept = WRITE_SCHEMAS[self.write.discovery.generation].stored
        return tuple(sorted(WRITE_SCHEMAS[self.generation].stored - kept))

    @property
    def _limits(self) -> dict[OffsetUnit, int | None]:
        return {OffsetUnit.BYTES: self.bytes_max, OffsetUnit.RECORDS: self.offsets_max}

    def _check_limits(self) -> None:
        unit = self.generation.offset_unit
        for other in self._limits.keys() - {unit}:
            if self._limits[other] is not None:
                raise OptionError(
                    f"argument {_LIMITS[other][0]}: these brokers count {unit.value}; use {_LIMITS[unit][0]}"
                )

    def _check_where_to(self) -> None:
        if bool(self.target) == (self.output is not None):
            raise OptionError("set either --target-option, the cluster to copy to, or --output, a folder")
        if self.output is not None and (self.target_topic is not None or self.keep_partitions):
            argument = "--keep-partitions" if self.target_topic is None else "--target-topic"
            raise OptionError(f"argument {argument} needs --target-option; add that, or leave it out")

    def _check_target(self) -> None:
        if self.write is None:
            return
        has_brokers = {
            each.has_partitions_of_brokers for each in (self.generation, self.write.discovery.generation)
        }
        if self.keep_partitions and len(has_brokers) > 1:
            raise OptionError(
                "argument --keep-partitions: the partitions of 0.7 are numbered on each broker, those of "
                "later Kafka are not; leave it out"
            )
        is_same_cluster = self.write.discovery.place == self.read.read.discovery.place
        topic = self.target_topic
        if is_same_cluster and (topic is None or covers(self.read.read.selection, topic)):
            raise OptionError(
                "argument --target-topic: source and target are the same topic of the same cluster, and a "
                "copy into itself never ends; choose another topic"
            )


def _check_own(argument: str, options: Mapping[str, str], own: Mapping[str, str]) -> None:
    for name in options:
        if instead := own.get(name.lower()):
            raise OptionError(f"argument {argument}: {printable(name)} is set by the job itself; {instead}")
