"""Reads one range of one log: asks ahead, decodes, and tries again.

    for columns in Fetcher(task, cluster, options, net).columns():
        ...

A connection that fails is replaced, a leader that moved is followed, and the read goes on at the
first offset that has not come, so nothing is read twice. Where the log has lost offsets of the
range, ``failOnDataLoss`` decides.
"""

from __future__ import annotations

import logging
from collections.abc import Container, Iterator
from dataclasses import dataclass, replace

from ...cluster.cluster import Cluster
from ...errors import (
    Action,
    BrokerError,
    CorruptDataError,
    DataLossError,
    KafkaWireError,
    LimitError,
    OptionError,
    UnknownTopicError,
    quoted,
)
from ...model import Leader, LogBounds, OffsetRange
from ...net.client import Client
from ...net.pool import POOL, Pool
from ...net.retry import Attempts
from ...options import FetchOptions, NetOptions
from ...protocol.modern.floor import NO_FLOOR, VersionFloor
from ...records.columns import Columns
from ...records.record_log import COLUMNS
from . import gaps
from .feed import FEEDS
from .modern.batch_feed import NothingCame
from .v07.stitcher import MessageCrossesStop

_log = logging.getLogger("spark_kafkawire")


@dataclass(frozen=True, slots=True)
class FetchTask:
    """One range to read, and who served it when the read was planned.

    ``starting`` and ``ending`` name the option that gave an end of the range as a number; None
    where the end comes from the broker and so is a message boundary for certain. ``floor`` is what the
    brokers offered then: one that offers less is not read from.
    """

    range: OffsetRange
    leader: Leader
    starting: str | None = None
    ending: str | None = None
    floor: VersionFloor = NO_FLOOR


class TopicMadeAnew(UnknownTopicError):
    """The topic that was planned is gone: another one has its name. Fatal."""


class Fetcher:
    """One read of one range.

    The connection is one of ``connections``, and goes back to them after a read without failure.
    """

    def __init__(
        self,
        task: FetchTask,
        cluster: Cluster,
        options: FetchOptions,
        net: NetOptions,
        *,
        wanted: Container[str] = COLUMNS,
        connections: Pool = POOL,
    ) -> None:
        self._task = task
        self._cluster = cluster
        self._options = options
        self._connection = replace(net.connection, floor=task.floor)
        self._connections = connections
        self._attempts = Attempts(replace(net.retry, patience_s=options.patience_s))
        self._leader: Leader | None = task.leader
        #: Where compaction explained last that nothing comes, and who led the log.
        self._gap: tuple[int, Leader | None] | None = None
        self._client: Client | None = None
        self._generation = net.connection.generation
        self._feed = FEEDS[self._generation](task.range, options, wanted)

    @property
    def bytes_received(self) -> int:
        """Record bytes that came over the network."""
        return self._feed.bytes_received

    def columns(self) -> Iterator[Columns]:
        """All messages of the range, in order.

        Raises ``CorruptDataError``, ``LimitError``, ``DataLossError``, ``BrokerError`` (fatal) or
        the last ``TransportError`` once the retries are used up.
        """
        reached = self._feed.next_offset
        try:
            while True:
                try:
                    yield from self._feed.columns()
                    if self._feed.next_offset > reached:
                        reached = self._feed.next_offset
                        self._attempts.progressed()
                    if self._feed.done:
                        break
                    self._exchange()
                except KafkaWireError as error:
                    self._recover(error)
            self._give_back()
        finally:
            self._disconnect()

    def _exchange(self) -> None:
        """Ask for what may be asked for, take one reply, and ask on before it is decoded."""
        client, leader = self._connected()
        for request in self._feed.requests(leader):
            client.send(request)
        self._feed.answered(client.receive())
        for request in self._feed.requests(leader):
            client.send(request)

    def _recover(self, error: KafkaWireError) -> None:
        """Make ready for another try, or raise."""
        log = self._task.range.log
        if isinstance(error, CorruptDataError | LimitError):
            raise self._explained(error) from error
        if not isinstance(error, NothingCame):
            self._disconnect()
        self._feed.restart()
        if isinstance(error, UnknownTopicError):
            self._miss_the_topic(error)
        elif error.action is Action.DATA_LOSS:
            self._go_on_where_the_log_does()
        elif isinstance(error, NothingCame):
            self._look_for_a_gap(error)
        else:
            offset = self._feed.next_offset
            # An error of the connection names the broker itself.
            place = self._place(offset) if isinstance(error, BrokerError) else f"{log} at offset {offset}"
            if error.action in (Action.REFRESH, Action.RECONNECT):
                self._forget_leader()
            self._attempts.failed(error.located(place))

    def _miss_the_topic(self, error: UnknownTopicError) -> None:
        """Brokers that start may not know a topic yet: rows are given up only after the last try."""
        if not (self._options.fail_on_data_loss or isinstance(error, TopicMadeAnew)):
            try:
                self._attempts.failed(BrokerError(str(error), action=Action.REFRESH))
                return
            except BrokerError as last:
                error = UnknownTopicError(str(last))
        self._lose(self._task.range.stop_offset, f"the topic is gone: {error}")

    def _go_on_where_the_log_does(self) -> None:
        """The broker says that it has not got the next offset."""
        if self._found_here() is not None:
            place = self._place(self._feed.next_offset)
            self._forget_leader()
            self._attempts.failed(_gone_and_back(place))

    def _look_for_a_gap(self, error: NothingCame) -> None:
        """Nothing came: wait, or step over what the log's leader proves to be gone."""
        offset, stop_offset = self._feed.next_offset, self._task.range.stop_offset
        place, failure, seen = self._place(offset), error, (offset, self._leader)
        if error.may_be_compacted:
            self._forget_leader()
            found = self._found_here()
            if found is None:
                return
            doubt = gaps.doubt(self._cluster, found, offset, stop_offset)
            if doubt is not None:
                failure = error.advised(doubt)
            elif self._gap == seen:
                _log.warning("%s: no record is left up to %d, which compaction explains", place, stop_offset)
                self._feed.restart(stop_offset)
                return
            else:
                # Once more, from who leads the log by now, and on another connection.
                self._gap = seen
        try:
            self._attempts.failed(failure.located(place))
        except NothingCame:
            if self._found_here() is not None:
                raise

    def _found_here(self) -> LogBounds | None:
        """The log's bounds, around the next offset; None where it is not inside: then it is lost, and the
        read goes on behind it or has failed."""
        log, offset, stop_offset = self._task.range.log, self._feed.next_offset, self._task.range.stop_offset
        try:
            found = self._cluster.bounds((log,))[log]
        except UnknownTopicError as error:
            self._lose(stop_offset, f"the topic is gone: {error}")
            return None
        if found.earliest <= offset < found.latest:
            return found
        resume_offset = min(found.earliest, stop_offset) if found.earliest > offset else stop_offset
        self._lose(resume_offset, f"the log now holds [{found.earliest}, {found.latest})")
        return None

    def _lose(self, resume_offset: int, why: str) -> None:
        """Fail, or go on at ``resume_offset``."""
        place = self._place(self._feed.offset)
        loss = f"{place}: {self._generation.offset_unit.value} up to {resume_offset} are gone; {why}"
        if self._options.fail_on_data_loss:
            raise DataLossError(f"{loss}; to read what is left, set failOnDataLoss=false")
        _log.warning("%s; reading on because failOnDataLoss=false", loss)
        self._feed.restart(resume_offset)

    def _connected(self) -> tuple[Client, Leader]:
        if self._leader is None:
            self._leader = self._found_leader()
        if self._client is None:
            self._client = self._connections.take(self._leader.broker, self._connection)
        return self._client, self._leader

    def _found_leader(self) -> Leader:
        log, planned_id = self._task.range.log, self._task.leader.topic_id
        planned_epoch, leader = self._task.leader.epoch, self._cluster.leaders_of((log,))[log]
        if None is not leader.topic_id != planned_id is not None:
            raise TopicMadeAnew(f"{quoted(log.topic)} was deleted, and another topic has its name now")
        if leader.topic_id is None and 0 <= leader.epoch < planned_epoch:
            raise BrokerError(
                f"{leader.broker} leads in epoch {leader.epoch}, after {planned_epoch} when the read was "
                "planned: the topic was made anew, or brokers are behind",
                action=Action.REFRESH,
            )
        return leader

    def _forget_leader(self) -> None:
        self._disconnect()
        self._leader = None
        self._cluster.forget(self._task.range.log)

    def _give_back(self) -> None:
        if self._client is not None:
            self._connections.give_back(self._client)
            self._client = None

    def _disconnect(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def _place(self, offset: int) -> str:
        leader = self._leader or self._task.leader
        return f"{self._task.range.log} at offset {offset} on {leader.broker}"

    def _explained(self, error: CorruptDataError | LimitError) -> KafkaWireError:
        """Damage at a place that an option named is most likely no message boundary."""
        task, log_range = self._task, self._task.range
        at_start = self._feed.offset == log_range.start_offset
        for option, offset, suspect in (
            (task.starting, log_range.start_offset, at_start),
            (task.ending, log_range.stop_offset, isinstance(error, MessageCrossesStop)),
        ):
            if option is not None and suspect:
                place = f"{log_range.log} on {task.leader.broker}"
                return OptionError(f"option {option}: {offset} is not a message boundary of {place}: {error}")
        return error.located(f"{log_range.log} on {task.leader.broker}")


def _gone_and_back(place: str) -> BrokerError:
    """A broker that restarts may serve less than it has, for a moment."""
    return BrokerError(f"{place}: a fetch found nothing where the log has data", action=Action.RETRY)
