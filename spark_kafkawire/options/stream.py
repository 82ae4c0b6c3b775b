"""Options of a streaming read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from ..errors import OptionError
from .connect import parse_discovery, parse_net
from .membership import parse_membership
from .offsets import LOG_SYNTAX, parse_limits
from .raw import OF_STREAMS_ALONE, RawOptions, bad_value
from .read import ReadOptions
from .values import LATEST, NetOptions, OffsetLimits, StreamLimits, is_node_name

#: How long a stream waits for a broker where nothing else is said, seconds: one that is away for a minute
#: is no reason to end a query that runs for months.
_PATIENCE_S: Final = 120.0
_COUNT_MAX: Final = (1 << 63) - 1


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
        options = RawOptions(raw, read=True, stream=True)
        discovery = parse_discovery(options)
        starting = parse_limits(options, "starting", None, LOG_SYNTAX[discovery.generation])
        ending = OffsetLimits("endingOffsets", for_all=LATEST)
        net = _patient(options, parse_net(options, discovery))
        read = ReadOptions.assembled(options, discovery, net, starting, ending)
        read = replace(read, membership=parse_membership(options, discovery, read.selection, starting))
        parsed = cls(read, _limits(options), options.flag("commitOffsets"))
        if read.key_order is not None and not read.key_order.topics:
            raise OptionError(
                "option expansionTimestamp: a stream needs partitionEpochs, too, for the records that show "
                "how many partitions there were will not stay"
            )
        if parsed.commits_offsets:
            parsed.check_group("commitOffsets")
        return parsed

    def check_group(self, wanted_by: str) -> None:
        """Raise ``OptionError`` where there is no group that ``wanted_by`` can commit to."""
        group, discovery = self.read.group_id, self.read.discovery
        if self.read.membership is not None:
            raise OptionError(f"{wanted_by}: groupMembership=join commits anyhow; leave one of the two out")
        if group is None:
            raise OptionError(f"{wanted_by} needs the option kafka.group.id, the group to commit to")
        if discovery.broker_list:
            raise OptionError(
                f"{wanted_by}: 0.7 keeps groups in ZooKeeper; set zookeeper.connect, not broker.list"
            )
        if discovery.zookeeper_connect is not None and not is_node_name(group):
            raise bad_value("kafka.group.id", group, "the name of a node in ZooKeeper, which has no slash")


def read_options_of(raw: Mapping[str, str]) -> ReadOptions:
    """The options of a read of which Spark does not tell yet whether it is a batch or a stream.

    What is wrong for either is an error; what is right for one of them is checked when it begins.
    Raises ``OptionError`` (fatal).
    """
    names = {name.lower() for name in raw}
    if names & OF_STREAMS_ALONE:
        return StreamOptions.parse(raw).read
    try:
        return ReadOptions.parse(raw)
    except OptionError as error:
        try:
            return StreamOptions.parse(raw).read
        except OptionError:
            raise error from None


def _patient(options: RawOptions, net: NetOptions) -> NetOptions:
    if options.given("patience", "retries", "kafka.retries"):
        return net
    return replace(net, retry=replace(net.retry, patience_s=_PATIENCE_S))


def _limits(options: RawOptions) -> StreamLimits:
    most = options.size("maxBytesPerTrigger", 1, _COUNT_MAX) or options.count(
        "maxOffsetsPerTrigger", 1, _COUNT_MAX
    )
    least = options.count("minOffsetsPerTrigger", 1, _COUNT_MAX)
    if most is not None and least is not None and least > most:
        raise OptionError(
            f"option minOffsetsPerTrigger: {least} is more than maxOffsetsPerTrigger={most}: no batch is that"
        )
    return StreamLimits(most, least, options.seconds("maxTriggerDelay"))
