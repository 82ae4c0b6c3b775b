"""Plans the batches of a streaming query that is one consumer of a group which shares partitions (0.7).

The planner is a member of the group for as long as its process lives. Between two batches it commits where
the query stands, gives up what the group gives to others, and claims what is its own now.

**What the checkpoint says.** The offsets hold the logs that the query owns. A batch reads of a log what lies
between its offsets in the start and in the end; of a log that is in one of them alone it reads nothing. So a
log that is given up is missing in the next end, and one that is claimed is *pinned*: the batch before the
first one that reads it writes down where the group stands. What a batch reads follows from its two ends, and
is the same when it is run again: below the offset that a checkpoint has of a log, since its pin, the query
has delivered all.

**The checkpoint against ZooKeeper**, of a log that is in the checkpoint and claimed anew, as after a restart:

=========================  ===================================================================
the group stands           the query goes on
=========================  ===================================================================
where the checkpoint does  there
before it                  at the checkpoint's offset, and commits it: a run ended between the end
                           of a batch and its commit, and all of the batch is delivered. A warning
                           tells it, for somebody may have put the group back
after it                   where the group stands: others have read what is in between, which a
                           warning tells. The log leaves the offsets for one batch, and is pinned
=========================  ===================================================================

**A batch that was planned and not done** is run again as it was planned, whoever owns its logs by now:
whether its sink has its rows nobody knows, and leaving some of them out could lose them. Others may have read
those rows, too; then a warning says which. Besides that, rows are read twice where a session is lost while a
batch is read, or a run ends between the end of a batch and its commit, and others go on there. Rows are never
left out.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from ..clients.reading.task import FetchTask
from ..cluster.claim import Claim
from ..cluster.membership import Member, join
from ..errors import quoted
from ..model import TopicPartition
from ..net.retry import Attempts
from ..options import EARLIEST, StreamOptions
from .group_share import settled
from .stream_offsets import Offsets
from .stream_planner import StreamPlanner

_log = logging.getLogger("spark_kafkawire")


class GroupPlanner:
    """As ``StreamPlanner``, of what the query's consumer owns. ``clock`` and ``sleep`` count seconds."""

    #: Where a query begins is never asked: each of its logs is pinned by a batch.
    is_begun = False

    def __init__(
        self,
        options: StreamOptions,
        member: Member | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        assert options.read.membership is not None
        self._read = options.read
        self._group = options.read.membership.group
        self._starts_earliest = options.read.starting.for_all == EARLIEST
        self._retry, self._clock, self._sleep = options.read.planning_retry, clock, sleep
        # What a broker that has gone held is nobody's any more: so the group is looked at before each try.
        impatient = replace(options.read, planning_retry=self._retry.impatient)
        self._plan = StreamPlanner(replace(options, read=impatient), clock=clock, sleep=sleep)
        self._member = member or join(options.read)
        self._stands: dict[TopicPartition, Claim] = {}
        self._committed: dict[TopicPartition, int] = {}
        self._due: dict[TopicPartition, int] | None = None
        self._has_planned = False

    @property
    def latest(self) -> dict[TopicPartition, int] | None:
        """The latest offsets of the last look, of what is owned."""
        return self._plan.latest

    def initial(self) -> dict[TopicPartition, int]:
        """Nothing: the first batch pins what is owned then."""
        return {}

    def stop_at_latest(self) -> None:
        """Read no further than where the logs end now, and those that are claimed later when they are (the
        trigger AvailableNow). Others are given time to give up what is due to the query, and topics' brokers
        to register."""
        self._due = {}
        claims = settled(self._member, self._read, needs_topics=True, clock=self._clock, sleep=self._sleep)
        self._bound(list(claims))

    def _bound(self, logs: Collection[TopicPartition]) -> None:
        if self._due is not None:
            new = [log for log in logs if log not in self._due]
            self._due |= {log: found.latest for log, found in self._plan.bounds_of(new).items()}

    def next(self, start: Offsets, *, limited: bool = True) -> dict[TopicPartition, int]:
        """Where the batch that begins at ``start`` ends; at ``start`` itself where there is nothing to do.

        That it is asked for says that all up to ``start`` is done. Raises as ``StreamPlanner.next`` does, and
        what ``Member.hold`` raises.
        """
        attempts = Attempts(self._retry, clock=self._clock, sleep=self._sleep)
        return attempts.run(lambda: self._next(start, limited))

    def _next(self, start: Offsets, limited: bool) -> dict[TopicPartition, int]:
        self._has_planned = True
        self._commit(start)
        claims = self._member.hold()
        self._bound(list(claims))
        kept = self._kept(start, claims)
        pins = self._pins({log: claim for log, claim in claims.items() if log not in start})
        self._plan.narrow(kept)
        if self._due is not None:
            self._plan.stop_at({log: max(self._due.get(log, offset), offset) for log, offset in kept.items()})
        ends = self._plan.next(kept, limited=limited)
        self._member.let_go([log for log in claims if ends.get(log) == kept.get(log)])
        return {**ends, **pins}

    def _commit(self, stands: Offsets) -> None:
        """Commit where the query stands in the logs that it read as their owner."""
        offsets = {
            log: (offset, self._stands[log])
            for log, offset in stands.items()
            if log in self._stands and self._committed.get(log) != offset
        }
        if not offsets:
            return
        lost = set(self._member.commit(offsets))
        self._committed |= {log: offset for log, (offset, _) in offsets.items() if log not in lost}

    def _kept(self, start: Offsets, claims: Mapping[TopicPartition, Claim]) -> dict[TopicPartition, int]:
        """The logs that the query goes on with where it stands."""
        self._stands = {log: claim for log, claim in self._stands.items() if claims.get(log) == claim}
        anew = {log: claims[log] for log in start if log in claims and log not in self._stands}
        stands = {log: claim.offset for log, claim in anew.items() if claim.offset is not None}
        moved = {log: offset for log, offset in stands.items() if offset > start[log]}
        self._tell("stands further on, for others have read there; the query goes on with it", moved, start)
        behind = {log: offset for log, offset in stands.items() if offset < start[log]}
        self._tell(
            "stands further back, for a run ended before its commit, or somebody has put it back; the query "
            "goes on where it has read to",
            behind,
            start,
        )
        for log in anew.keys() - moved.keys():
            self._stands[log] = anew[log]
            self._committed.pop(log, None)
        self._commit({log: start[log] for log in anew.keys() - moved.keys()})
        return {log: offset for log, offset in start.items() if log in self._stands}

    def _tell(self, what: str, stands: Offsets, start: Offsets) -> None:
        """Tell where the group stands elsewhere than the query."""
        if stands:
            log = min(stands)
            _log.warning(
                "group %s %s: %s is at %d in the group and at %d in the checkpoint, and %d partitions differ",
                quoted(self._group),
                what,
                log,
                stands[log],
                start[log],
                len(stands),
            )

    def _pins(self, claims: Mapping[TopicPartition, Claim]) -> dict[TopicPartition, int]:
        """Where to begin with logs that are new to the query."""
        bounds = self._plan.bounds_of([log for log, claim in claims.items() if claim.offset is None])
        pins = {}
        for log, claim in claims.items():
            if claim.offset is not None:
                pins[log] = claim.offset
            elif log in bounds:
                pins[log] = bounds[log].earliest if self._starts_earliest else bounds[log].latest
        self._stands |= {log: claims[log] for log in pins}
        return pins

    def tasks(
        self,
        start: Offsets,
        end: Offsets,
        *,
        is_pinned: bool = False,  # noqa: ARG002  # what is pinned shows in the offsets
    ) -> tuple[FetchTask, ...]:
        """What the batch from ``start`` to ``end`` reads. Raises as ``StreamPlanner.tasks`` does."""
        begins = {log: start[log] for log in end if log in start}
        ends = {log: end[log] for log in begins}
        if not self._has_planned:
            self._has_planned = True
            self._tell_run_again({log: begin for log, begin in begins.items() if begin < ends[log]}, ends)
        attempts = Attempts(self._retry, clock=self._clock, sleep=self._sleep)
        return attempts.run(lambda: self._plan.tasks(begins, ends))

    def _tell_run_again(self, begins: Offsets, ends: Offsets) -> None:
        """An earlier run planned the batch, and has not done it: others may have read some of it since."""
        if not begins:
            return
        claims = settled(self._member, self._read, clock=self._clock, sleep=self._sleep)
        others = [log for log in begins if log not in claims or (claims[log].offset or 0) > begins[log]]
        if others:
            _log.warning(
                "the batch that the last run has not done is run again, and members of group %s may have "
                "read of it, too: %s from %d to %d, and %d partitions in all",
                quoted(self._group),
                others[0],
                begins[others[0]],
                ends[others[0]],
                len(others),
            )

    def close(self) -> None:
        """Leave the group."""
        self._member.close()
