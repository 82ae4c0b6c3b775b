"""Reads one range of one log: fetches ahead, decodes, and retries.

    for columns in Fetcher(task, cluster, options, net).columns():
        ...

A connection that fails is replaced, a leader that moved is followed, and the read goes on at the
first offset that has not come, so nothing is read twice. Where the log has lost offsets of the
range, ``failOnDataLoss`` decides.
"""

from __future__ import annotations

import logging
from collections.abc import Container, Iterator
from dataclasses import replace

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
)
from ...model import Leader, LogBounds
from ...net.pool import POOL, Pool
from ...net.retry import Attempts
from ...options import FetchOptions, NetOptions
from ...records.columns import Columns
from ...records.record_log import COLUMNS
from . import gaps
from .feed import FEEDS
from .leader_connection import LeaderConnection, TopicRecreated
from .modern.batch_feed import EmptyFetch
from .task import FetchTask, MessageCrossesStop

_log = logging.getLogger("spark_kafkawire")


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
        self._log = task.range.log
        self._stop_offset = task.range.stop_offset
        settings = replace(net.connection, floor=task.floor, wire_format=options.wire_format)
        self._connection = LeaderConnection(self._log, task.leader, cluster, settings, connections)
        self._attempts = Attempts(replace(net.retry, patience_s=options.patience_s))
        #: The offset and leader of the last empty fetch that compaction explained.
        self._suspect: tuple[int, Leader | None] | None = None
        self._generation = net.connection.generation
        self._feed = FEEDS[settings.spoken](task.range, options, wanted)

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
            self._connection.give_back()
        finally:
            self._connection.close()

    @property
    def _rest(self) -> tuple[int, int]:
        """The offsets that have not been fetched."""
        return self._feed.next_offset, self._stop_offset

    def _exchange(self) -> None:
        """Send requests, receive one reply, and send the next requests before it is decoded."""
        client, leader = self._connection.open()
        for request in self._feed.requests(leader):
            client.send(request)
        self._feed.received(client.receive())
        for request in self._feed.requests(leader):
            client.send(request)

    def _recover(self, error: KafkaWireError) -> None:
        """Make ready for another try, or raise."""
        if isinstance(error, CorruptDataError | LimitError):
            raise self._explained(error) from error
        if not isinstance(error, EmptyFetch):
            self._connection.close()
        self._feed.restart()
        if isinstance(error, UnknownTopicError):
            self._on_unknown_topic(error)
        elif error.action is Action.DATA_LOSS:
            self._on_offset_out_of_range()
        elif isinstance(error, EmptyFetch):
            self._on_empty_fetch(error)
        else:
            self._retry(error)

    def _retry(self, error: KafkaWireError) -> None:
        # An error of the connection names the broker itself.
        offset = self._feed.next_offset
        place = f"{self._log} at offset {offset}"
        if isinstance(error, BrokerError):
            place = self._connection.place(offset)
        if error.action in (Action.REFRESH, Action.RECONNECT):
            self._connection.forget_leader()
        self._attempts.failed(error.located(place))

    def _on_unknown_topic(self, error: UnknownTopicError) -> None:
        """Brokers that start may not know a topic yet: rows are given up only after the last try."""
        if not (self._options.fail_on_data_loss or isinstance(error, TopicRecreated)):
            try:
                self._attempts.failed(BrokerError(str(error), action=Action.REFRESH))
                return
            except BrokerError as last:
                error = UnknownTopicError(str(last))
        self._report_loss(self._stop_offset, f"the topic is gone: {error}")

    def _on_offset_out_of_range(self) -> None:
        """The leader says that it has not got the next offset."""
        if self._bounds_with_next_offset() is not None:
            # A broker that restarts may serve less than it has, for a moment.
            place = self._connection.place(self._feed.next_offset)
            self._connection.forget_leader()
            error = f"{place}: a fetch found nothing where the log has data"
            self._attempts.failed(BrokerError(error, action=Action.RETRY))

    def _on_empty_fetch(self, error: EmptyFetch) -> None:
        """Wait, unless the log's leader tells that the records are gone."""
        place, failure = self._connection.place(self._feed.next_offset), error
        if error.may_be_compacted:
            unexplained = self._unexplained(error, place)
            if unexplained is None:
                return
            failure = unexplained
        try:
            self._attempts.failed(failure.located(place))
        except EmptyFetch:
            if self._bounds_with_next_offset() is not None:
                raise

    def _unexplained(self, error: EmptyFetch, place: str) -> EmptyFetch | None:
        """The error, with what speaks against compaction; None where the read goes on behind the gap."""
        suspect = (self._feed.next_offset, self._connection.leader)
        self._connection.forget_leader()
        bounds = self._bounds_with_next_offset()
        if bounds is None:
            return None
        reason = gaps.reason_against_compaction(self._cluster, bounds, *self._rest)
        if reason is not None:
            return error.advised(reason)
        if self._suspect != suspect:
            # Once more, from who leads the log by now, and on another connection.
            self._suspect = suspect
            return error
        _log.warning("%s: no record is left up to %d, which compaction explains", place, self._stop_offset)
        self._feed.restart(self._stop_offset)
        return None

    def _bounds_with_next_offset(self) -> LogBounds | None:
        """The log's bounds now; None where the next offset is not inside: then its loss was reported, and
        the read goes on behind it."""
        offset, stop_offset = self._rest
        try:
            bounds = self._cluster.bounds((self._log,))[self._log]
        except UnknownTopicError as error:
            self._report_loss(stop_offset, f"the topic is gone: {error}")
            return None
        if bounds.earliest <= offset < bounds.latest:
            return bounds
        resume_offset = min(bounds.earliest, stop_offset) if bounds.earliest > offset else stop_offset
        self._report_loss(resume_offset, f"the log now holds [{bounds.earliest}, {bounds.latest})")
        return None

    def _report_loss(self, resume_offset: int, why: str) -> None:
        """Fail, or go on at ``resume_offset`` with a warning."""
        unit = self._generation.offset_unit.value
        loss = f"{self._connection.place(self._feed.offset)}: {unit} up to {resume_offset} are gone; {why}"
        if self._options.fail_on_data_loss:
            raise DataLossError(f"{loss}; to read what is left, set failOnDataLoss=false")
        _log.warning("%s; reading on because failOnDataLoss=false", loss)
        self._feed.restart(resume_offset)

    def _explained(self, error: CorruptDataError | LimitError) -> KafkaWireError:
        """Damage at an offset that an option gave: it is most likely no message boundary."""
        task, log_range = self._task, self._task.range
        at_start = self._feed.offset == log_range.start_offset
        for option, offset, suspect in (
            (task.start_option, log_range.start_offset, at_start),
            (task.stop_option, log_range.stop_offset, isinstance(error, MessageCrossesStop)),
        ):
            if option is not None and suspect:
                place = f"{log_range.log} on {task.leader.broker}"
                return OptionError(f"option {option}: {offset} is not a message boundary of {place}: {error}")
        return error.located(f"{log_range.log} on {task.leader.broker}")
