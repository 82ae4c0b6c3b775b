"""All options of a streaming read, for both generations, as one frozen value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from ..errors import OptionError
from .connect import BROKER_DOWN_TIMEOUT, RETRIES, NetOptions, parse_net
from .discovery import is_node_name, parse_discovery
from .membership import COMMITS_OFFSETS, parse_membership
from .offsets import LATEST, PARTITION_SYNTAX, STARTING, OffsetLimits, parse_limits
from .option import bad_value
from .raw import RawOptions
from .read import ReadOptions
from .schema_evolution import EVOLUTION
from .stream_limits import StreamLimits, parse_stream_limits
from .table import OF_STREAMS_ALONE, raw_options
from .typed import TypedOptions

#: How long a stream waits for a broker by default, seconds: one that is away for a minute is no reason to
#: end a query that runs for months.
_RETRY_TIMEOUT_S: Final = 120.0


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """All options of a streaming read: those of a batch read without an end, the limits of one batch, and
    whether ``commit`` has a group follow the query."""

    read: ReadOptions
    limits: StreamLimits
    commits_offsets: bool = False

    @classmethod
    def parse(cls, raw: Mapping[str, str]) -> StreamOptions:
        """Read and check all options of a stream. Raises ``OptionError`` (fatal)."""
        with raw_options(raw, read=True, stream=True) as options:
            discovery = parse_discovery(options)
            starting = parse_limits(options, STARTING, None, PARTITION_SYNTAX[discovery.generation])
            ending = OffsetLimits("endingOffsets", for_all=LATEST)
            net = _patient(options, parse_net(options, discovery))
            read = ReadOptions.assembled(options, discovery, net, starting, ending)
            read = replace(read, membership=parse_membership(options, discovery, read.selection, starting))
            read = replace(read, typed=_evolving(options, read.typed))
            parsed = cls(read, parse_stream_limits(options), options[COMMITS_OFFSETS])
            if read.key_order is not None and not read.key_order.topics:
                raise OptionError(
                    "option expansionTimestamp: a stream needs partitionLayouts, too, because the records "
                    "that show the numbers of partitions may be deleted; set it as docs/key-order.md shows"
                )
            if parsed.commits_offsets:
                parsed.check_group("commitOffsets")
            return parsed

    def check_group(self, wanted_by: str) -> None:
        """Raise ``OptionError`` without a group that ``wanted_by`` can commit to."""
        group, discovery = self.read.group_id, self.read.discovery
        if self.read.membership is not None:
            raise OptionError(
                f"{wanted_by}: groupMembership=join always commits offsets; leave one of the two out"
            )
        if group is None:
            raise OptionError(
                f"{wanted_by} needs kafka.group.id, which is not set: set it to the group to commit to"
            )
        if discovery.broker_list:
            raise OptionError(
                f"{wanted_by}: 0.7 keeps groups in ZooKeeper; set zookeeper.connect, not broker.list"
            )
        if discovery.zookeeper_connect is not None and not is_node_name(group):
            raise bad_value("kafka.group.id", group, "the name of a node in ZooKeeper, which has no slash")


def read_options_of(raw: Mapping[str, str]) -> ReadOptions:
    """The options of a read before Spark says if it is a batch or a stream.

    Options that are wrong for both are an error; the others are checked when the read begins.
    Raises ``OptionError`` (fatal).
    """
    names = {name.lower() for name in raw}
    if names & OF_STREAMS_ALONE.keys():
        return StreamOptions.parse(raw).read
    try:
        return ReadOptions.parse(raw)
    except OptionError as error:
        try:
            return StreamOptions.parse(raw).read
        except OptionError:
            raise error from None


def _evolving(options: RawOptions, typed: TypedOptions | None) -> TypedOptions | None:
    if not options[EVOLUTION]:
        return typed
    formats = () if typed is None else (typed.key.format, typed.value.format)
    if typed is None or "avro" not in formats:
        raise OptionError(
            f"option {EVOLUTION.name}=restart is for valueFormat=avro or keyFormat=avro, which are not set; "
            "set one of them, or leave it out"
        )
    return replace(typed, ends_on_new_fields=True)


def _patient(options: RawOptions, net: NetOptions) -> NetOptions:
    if options.given(BROKER_DOWN_TIMEOUT, RETRIES):
        return net
    return replace(net, retry=replace(net.retry, retry_timeout_s=_RETRY_TIMEOUT_S))
