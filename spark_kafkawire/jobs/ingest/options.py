"""Options of a run of ``ingest``, checked before Spark starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from spark_kafkawire.errors import OptionError, quoted
from spark_kafkawire.model import OffsetUnit
from spark_kafkawire.options import ReadOptions

from ..arguments import (
    arg,
    connection_args,
    gone_broker_arg,
    nested,
    positive,
    size_limit,
    spark_path,
    starting_arg,
    topic_args,
)
from .output import OutputOptions

#: Options of a read that a run sets itself, and the arguments that set them.
_OWN_OPTIONS: Final = {
    "subscribe": "--topic",
    "subscribepattern": "--topic-pattern",
    "assign": "--topic",
    "kafka.group.id": "--group",
    "startingoffsets": "--starting",
    "startingtimestamp": "--starting",
    "startingoffsetsbytimestamp": "--starting",
}
_ENDS: Final = dict.fromkeys(
    ("endingoffsets", "endingtimestamp", "endingoffsetsbytimestamp"),
    "is set by the job itself; a run ends where the partitions do",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestOptions:
    """Options of a run; ``connection`` are options of the data source.

    ``read`` are the parsed options of a read of all partitions, with the start of topics that were never
    read. Raises ``OptionError`` (fatal).
    """

    selection: Mapping[str, str] = topic_args("read", group="input")
    starting: Mapping[str, str] | None = starting_arg(
        "where to start a topic that was never read: earliest (default), latest, a time such as "
        '2026-01-31T00:00:00Z or milliseconds since 1970, or offsets such as {"t":{"0":123}}, for 0.7 '
        '{"t":{"0-1":123}}'
    )
    bytes_max: int | None = arg("--max-bytes", "read at most about N bytes (0.7)", positive)
    records_max: int | None = arg(
        "--max-records", "read at most N records, but at least one of each partition (0.8 or later)", positive
    )
    gone_brokers: frozenset[int] = gone_broker_arg()
    group: str | None = arg(
        "--group",
        "also commit progress to this consumer group, which makes lag visible: in ZooKeeper for 0.7, "
        "otherwise on the brokers; it must have no active members, and is reset if another program moved it",
        group="progress",
        one_of="progress",
    )
    checkpoint: str | None = arg(
        "--checkpoint",
        "keep progress in this folder (default: OUTPUT/_kafkawire)",
        spark_path,
        one_of="progress",
    )
    output: OutputOptions = nested(OutputOptions)
    connection: Mapping[str, str] = connection_args(sets_itself=_OWN_OPTIONS, refuses=_ENDS, place="option ")
    read: ReadOptions = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.group is not None and not self.group.strip():
            raise OptionError(
                f"argument --group: {quoted(self.group)} is not the name of a consumer group; correct it"
            )
        # A partition without a message that is young enough is no error of a run.
        strategy = {"startingOffsetsByTimestampStrategy": "latest"} if self.starting else {}
        raw = {**strategy, **self.connection, **(self.starting or {}), **self.selection}
        object.__setattr__(self, "read", ReadOptions.parse(raw))
        if self.gone_brokers and not self.read.discovery.generation.has_partitions_of_brokers:
            raise OptionError(
                "argument --gone-broker: only partitions of 0.7 are of one broker; leave it out"
            )
        _ = self.size_max

    @property
    def offset_unit(self) -> OffsetUnit:
        """The unit of offsets."""
        return self.read.discovery.generation.offset_unit

    @property
    def size_max(self) -> int | None:
        """The maximum number of offsets to read."""
        limits = {
            OffsetUnit.BYTES: ("--max-bytes", self.bytes_max),
            OffsetUnit.RECORDS: ("--max-records", self.records_max),
        }
        return size_limit(self.offset_unit, limits)
