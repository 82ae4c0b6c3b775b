"""Plan of the batches of a streaming query that is a consumer of a group of Kafka 0.7, and the
partitions that a member of such a group owns.

The planner is a member of the group while its process lives. Between two batches it commits the
position of the query, gives up partitions that are assigned to other members, and claims those that are
assigned to it. A new share is complete once the other members have given their partitions up.

**Contents of the checkpoint.** The offsets contain the partitions that the query owns. A batch reads a
partition from its offset in the start to its offset in the end; it does not read a partition that is in
only one of them. So a partition that is given up is missing in the next end. A partition that is
claimed is *pinned*: the batch before the first one that reads it writes the committed offset of the
group to the checkpoint. The two ends of a batch decide what it reads, also when it runs again: the
query has delivered all records from the pin of a partition to its offset in the checkpoint.

**Checkpoint and ZooKeeper** may differ for a partition in the checkpoint that is claimed again, as
after a restart:

=========================  ===================================================================
committed offset           the query continues
=========================  ===================================================================
equal to the checkpoint    at this offset
before the checkpoint      at the offset of the checkpoint, and commits it: a run ended between the
                           end of a batch and its commit, and the whole batch is delivered. It logs
                           a warning, because the offset of the group may have been set back
after the checkpoint       at the committed offset, with a warning: other members have read the
                           records in between. The partition is not in the next end, and then pinned
=========================  ===================================================================

**A batch that was planned and not finished** runs again as it was planned, even if other members own
its partitions now: the sink may or may not have its rows, and skipping rows could lose them. Other
members may also have read these rows; a warning names them. Rows are also read twice if a session is
lost during a batch, or if a run ends between the end of a batch and its commit, and other members
continue there. Rows are never skipped.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from ..clients.reading.task import FetchTask
from ..cluster import cluster_of
from ..errors import LOG, DiscoveryError, UnknownTopicError, counted, quote
from ..model import PartitionBounds, TopicPartition
from ..net.retry import call_with_retries
from ..options import EARLIEST, ReadOptions, StreamOptions
from .stream import StreamPlanner, bounds_of
from .stream_offsets import Offsets, Position

if TYPE_CHECKING:
    from ..cluster.v07.member import Member, OwnedPartition

T = TypeVar("T")


class GroupPlanner:
    """A ``StreamPlanner`` for partitions that the consumer of the query owns. ``clock`` and ``sleep`` count
    seconds."""

    #: Always false: a batch pins each partition, so the start of the query is not needed.
    is_begun = False

    def __init__(
        self,
        options: StreamOptions,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        assert options.read.membership is not None
        self._read = options.read
        self._group = options.read.membership.group
        self._starts_earliest = options.read.starting.for_all == EARLIEST
        self._clock, self._sleep = clock, sleep
        # The partitions of a broker that has gone no longer belong to the group, so each attempt looks at the
        # group first.
        impatient = replace(options.read, planning_retry=options.read.planning_retry.impatient)
        self._plan = StreamPlanner(replace(options, read=impatient), clock=clock, sleep=sleep)
        self._member = join(options.read)
        self._await_settled = partial(await_settled, self._member, options.read, clock=clock, sleep=sleep)
        self._read_as: dict[TopicPartition, OwnedPartition] = {}
        self._committed: dict[TopicPartition, int] = {}
        self._due: dict[TopicPartition, int] | None = None
        self._has_planned = False
        self._has_left = False

    @property
    def consumer(self) -> str:
        """Id of the consumer of the query in the group."""
        return self._member.id

    @property
    def latest(self) -> dict[TopicPartition, int] | None:
        """Latest offsets of the owned partitions by the last request."""
        return self._plan.latest

    def initial(self) -> dict[TopicPartition, int]:
        """Return no offsets: the first batch pins the partitions that are owned then."""
        return {}

    def stop_at_latest(self) -> None:
        """Stop at the current end offsets, and for partitions that are claimed later at their end offsets
        then (trigger AvailableNow). Waits until other members have given up the partitions of the query, and
        until the brokers of its topics have registered."""
        self._due = {}
        self._check_bounds(list(self._await_settled(needs_all=True)))

    def _check_bounds(self, partitions: Collection[TopicPartition]) -> None:
        if self._due is not None:
            new = [tp for tp in partitions if tp not in self._due]
            self._due |= {tp: result.latest for tp, result in self._plan.bounds_of(new).items()}

    def next(self, start: Position, *, limited: bool = True) -> Position:
        """End of the batch that begins at ``start``, or ``start`` itself if there is nothing to read.

        The call means that everything up to ``start`` is finished. A consumer that is asked to leave the
        group commits ``start`` and leaves: the end then has no partitions, and no batch follows. Raises as
        ``StreamPlanner.next`` and ``Member.hold`` do.
        """
        if self._has_left:
            return start
        return self._with_retries(lambda: Position(self._next(start.offsets, limited)))

    def _next(self, start: Offsets, limited: bool) -> dict[TopicPartition, int]:
        self._has_planned = True
        self._commit(start)
        owned = self._member.hold()
        if self._member.is_asked_to_leave:
            self._has_left = True
            self._member.close()
            return {}
        if self._due is not None and self._member.abandoned:
            # These nodes appeared after the start. A query that ends must not succeed without these
            # partitions.
            owned = self._await_settled(needs_all=True)
        self._check_bounds(list(owned))
        kept = self._kept(start, owned)
        pins = self._pins({tp: own for tp, own in owned.items() if tp not in start})
        self._plan.narrow(kept)
        if self._due is not None:
            self._plan.stop_at({tp: max(self._due.get(tp, offset), offset) for tp, offset in kept.items()})
        ends = self._plan.next(Position(kept), limited=limited).offsets
        self._member.let_go([tp for tp in owned if ends.get(tp) == kept.get(tp)])
        return {**ends, **pins}

    def _commit(self, positions: Offsets) -> None:
        """Commit the positions in partitions that the query read as their owner."""
        offsets = {
            tp: (offset, self._read_as[tp])
            for tp, offset in positions.items()
            if tp in self._read_as and self._committed.get(tp) != offset
        }
        if not offsets:
            return
        lost = set(self._member.commit(offsets))
        self._committed |= {tp: offset for tp, (offset, _) in offsets.items() if tp not in lost}

    def _kept(
        self, start: Offsets, owned: Mapping[TopicPartition, OwnedPartition]
    ) -> dict[TopicPartition, int]:
        """Partitions that the query continues to read, with its positions."""
        self._read_as = {tp: own for tp, own in self._read_as.items() if owned.get(tp) == own}
        claimed = {tp: owned[tp] for tp in start if tp in owned and tp not in self._read_as}
        committed = {tp: own.offset for tp, own in claimed.items() if own.offset is not None}
        moved = {tp: offset for tp, offset in committed.items() if offset > start[tp]}
        self._warn(
            "is ahead of the checkpoint, because other members have read there; the query continues from the "
            "group",
            moved,
            start,
        )
        behind = {tp: offset for tp, offset in committed.items() if offset < start[tp]}
        self._warn(
            "is behind the checkpoint, because a run ended before its commit, or because the offsets were "
            "set back; the query continues from the checkpoint",
            behind,
            start,
        )
        for partition in claimed.keys() - moved.keys():
            self._read_as[partition] = claimed[partition]
            self._committed.pop(partition, None)
        self._commit({tp: start[tp] for tp in claimed.keys() - moved.keys()})
        return {tp: offset for tp, offset in start.items() if tp in self._read_as}

    def _warn(self, what: str, committed: Offsets, start: Offsets) -> None:
        """Warn about committed offsets that differ from the positions of the query."""
        if committed:
            partition = min(committed)
            LOG.warning(
                "group %s %s: %s is at %d in the group and at %d in the checkpoint, and %s",
                quote(self._group),
                what,
                partition,
                committed[partition],
                start[partition],
                counted(len(committed), "partition differs", "partitions differ"),
            )

    def _pins(self, owned: Mapping[TopicPartition, OwnedPartition]) -> dict[TopicPartition, int]:
        """Start offsets of partitions that are new to the query."""
        bounds = self._plan.bounds_of([tp for tp, own in owned.items() if own.offset is None])
        pins = {}
        for partition, own in owned.items():
            if own.offset is not None:
                pins[partition] = own.offset
            elif partition in bounds:
                pins[partition] = (
                    bounds[partition].earliest if self._starts_earliest else bounds[partition].latest
                )
        self._read_as |= {tp: owned[tp] for tp in pins}
        return pins

    def tasks(
        self,
        start: Position,
        end: Position,
        *,
        is_pinned: bool = False,  # noqa: ARG002  # the offsets show what is pinned
    ) -> tuple[FetchTask, ...]:
        """Tasks of the batch from ``start`` to ``end``. Raises as ``StreamPlanner.tasks`` does."""
        begins = {tp: start.offsets[tp] for tp in end.offsets if tp in start.offsets}
        ends = {tp: end.offsets[tp] for tp in begins}
        if not self._has_planned:
            self._has_planned = True
            self._warn_of_run_again({tp: begin for tp, begin in begins.items() if begin < ends[tp]}, ends)
        return self._with_retries(lambda: self._plan.tasks(Position(begins), Position(ends)))

    def _with_retries(self, attempt: Callable[[], T]) -> T:
        return call_with_retries(attempt, self._read.planning_retry, clock=self._clock, sleep=self._sleep)

    def _warn_of_run_again(self, begins: Offsets, ends: Offsets) -> None:
        """Warn that other members may have read parts of a batch that an earlier run did not finish."""
        if not begins:
            return
        owned = self._await_settled(needs_all=False)
        others = [tp for tp in begins if tp not in owned or (owned[tp].offset or 0) > begins[tp]]
        if others:
            LOG.warning(
                "the batch that the last run did not finish runs again, and other members of group %s may "
                "have read parts of it: %s from %d to %d (%s in all)",
                quote(self._group),
                others[0],
                begins[others[0]],
                ends[others[0]],
                counted(len(others), "partition"),
            )

    def close(self) -> None:
        """Leave the group."""
        self._member.close()


def join(options: ReadOptions) -> Member:
    """Join the group of the options, which have ``groupMembership=join``."""
    # A process that joins no group does not import the ZooKeeper client.
    from ..cluster.v07.member import Member

    assert options.membership is not None
    return Member(
        options.discovery,
        options.membership.group,
        options.selection.subscribe,
        options.membership.thread_count,
        options.planning_retry,
        options.net.known.discovery_timeout_s,
    )


#: Seconds between two checks for partitions that other members have given up.
_PAUSE_S: Final = 0.1


def await_settled(
    member: Member,
    options: ReadOptions,
    *,
    needs_all: bool,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> dict[TopicPartition, OwnedPartition]:
    """The partitions that a member owns, once the other members have given them up or ``brokerDownTimeout``
    is over.

    ``needs_all`` is for a read that ends, whose success means that the share of each member was read. Such a
    read also waits until brokers have registered all topics, and until no node keeps partitions from every
    reader. Raises as ``Member.hold`` does. With ``needs_all`` it also raises ``UnknownTopicError``
    for a topic without brokers, and ``DiscoveryError`` for a node that still keeps partitions (both fatal).
    """
    retry_timeout_s = options.planning_retry.retry_timeout_s
    deadline_s = clock() + retry_timeout_s
    while True:
        owned = member.hold()
        others = member.others
        missing, abandoned = (member.unregistered, member.abandoned) if needs_all else ([], [])
        if not (others or missing or abandoned) or clock() >= deadline_s:
            break
        sleep(_PAUSE_S)
    if missing:
        # Their sessions may be expired, and an empty share would read no rows.
        raise UnknownTopicError(
            f"group {quote(options.group_id)}: no broker has registered topic {quote(missing[0])} in "
            f"ZooKeeper within {retry_timeout_s:g} s (brokerDownTimeout): check its name, and start its "
            "brokers"
        )
    if abandoned:
        from ..cluster.v07.member import abandoned_text

        raise DiscoveryError(
            f"{abandoned_text(options.group_id or '', abandoned)} (waited {retry_timeout_s:g} s, option "
            "brokerDownTimeout)"
        )
    if others:
        partition, owner = next(iter(others.items()))
        LOG.warning(
            "group %s: %s is assigned to this consumer, but %s did not give it up within %g s "
            "(brokerDownTimeout), %s in all: the query reads the partitions that it owns",
            *(quote(options.group_id), partition, owner, retry_timeout_s),
            counted(len(others), "partition"),
        )
    return owned


def ask_owned_bounds(
    options: ReadOptions, partitions: list[TopicPartition]
) -> dict[TopicPartition, PartitionBounds]:
    """Bounds of partitions now, waiting for their brokers. Raises ``BrokersMissingError`` for a broker that
    stays away, and as ``Cluster.bounds`` does."""
    if not partitions:
        return {}
    cluster = cluster_of(options)
    return dict(call_with_retries(lambda: bounds_of(cluster, partitions), options.planning_retry))
