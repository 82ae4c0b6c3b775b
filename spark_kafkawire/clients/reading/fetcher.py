"""Fetch loop of a read task, for both generations: it reads one range of one partition from the leader.

    for columns in Fetcher(task, cluster, options, net).columns():
        ...

The loop fetches ahead, decodes and retries. It replaces a failed connection, and follows a leader that moved.
The read continues at the first offset that was not received, so nothing is read twice. If the log has lost
offsets of the range, ``failOnDataLoss`` decides. A ``PartitionReader`` makes the requests of the generation
and decodes their responses.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import replace
from typing import Final

from spark_kafkawire.cluster.cluster import Cluster
from spark_kafkawire.errors import (
    LOG,
    Action,
    BrokerError,
    CorruptDataError,
    DataLossError,
    KafkaWireError,
    LimitError,
    OptionError,
    UnknownTopicError,
)
from spark_kafkawire.model import Leader, PartitionBounds
from spark_kafkawire.net.pool import POOL, Pool
from spark_kafkawire.net.retry import Attempts
from spark_kafkawire.net.settings import ConnectionSettings
from spark_kafkawire.options import FetchOptions, NetOptions
from spark_kafkawire.protocol.connection import Response
from spark_kafkawire.records.columns import Columns
from spark_kafkawire.records.record_log import COLUMNS

from .damaged_records import SuspectedDamage, advised
from .data_loss import Loss, loss_by, reason_against_compaction, topic_loss
from .gap_watch import GapWatch
from .leader_connection import LeaderConnection, TopicRecreated
from .partition_reader import READERS
from .task import Contradiction, EmptyFetch, FetchTask, MessageCrossesStop

#: Fetches of damaged bytes in a row that differ, after which the read fails.
_DAMAGE_RETRIES: Final = 3


def settings_of(task: FetchTask, options: FetchOptions, net: NetOptions) -> ConnectionSettings:
    """The settings of connections to the leader of a task."""
    return replace(net.connection, minimum_versions=task.minimum_versions, wire_format=options.wire_format)


class Fetcher:
    """Read of one range.

    The connection comes from ``connections`` and returns there after a read without failure.
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
        self.task = task
        self._cluster = cluster
        self._options = options
        self._partition = task.range.topic_partition
        self._stop_offset = task.range.stop_offset
        settings = settings_of(task, options, net)
        self._connection = LeaderConnection(self._partition, task.leader, cluster, settings, connections)
        self._attempts = Attempts(replace(net.retry, retry_timeout_s=options.retry_timeout_s))
        # A response contradicts itself only briefly, or for ever: long retries do not help.
        self._doubts = Attempts(net.retry.impatient)
        # Damage of the log needs a second fetch, whatever ``retries`` is.
        retries = max(net.retry.retries, _DAMAGE_RETRIES)
        self._suspicions = Attempts(replace(net.retry.impatient, retries=retries))
        self._gaps = GapWatch(task.range, cluster)
        #: The offset and leader of the last empty fetch that compaction explained.
        self._suspect: tuple[int, Leader | None] | None = None
        self._generation = net.connection.generation
        self._reader = READERS[settings.spoken](task.range, options, wanted)

    @property
    def bytes_received(self) -> int:
        """Record bytes that came over the network."""
        return self._reader.bytes_received

    def columns(self, failed: KafkaWireError | None = None) -> Iterator[Columns]:
        """All records of the range, in order; the rest of them if a pack has read some and then ``failed``.

        Raises ``CorruptDataError``, ``LimitError``, ``DataLossError``, ``BrokerError`` (fatal), or the last
        ``TransportError`` after the retries are used up.
        """
        reached = self._reader.next_offset
        try:
            if failed is not None:
                self._recover(failed)
            while True:
                try:
                    yield from self._reader.columns()
                    if self._reader.next_offset > reached:
                        reached = self._reader.next_offset
                        self._attempts.progressed()
                        self._doubts.progressed()
                        self._suspicions.progressed()
                    if self._reader.done:
                        break
                    self._exchange()
                except KafkaWireError as error:
                    self._recover(error)
            self._gaps.report(self.task.leader.broker)
            self._connection.give_back()
        finally:
            self._connection.close()
            self._reader.report()

    # The steps of a pack, which asks for several ranges at once.

    @property
    def is_done(self) -> bool:
        """True after all records of the range were given."""
        return self._reader.done

    @property
    def is_led(self) -> bool:
        """True if the leader is known."""
        return self._connection.leader is not None

    def leader(self) -> Leader:
        """The leader, from the cluster if it is not known. Raises the errors of ``Cluster``, and
        ``TopicRecreated``."""
        return self._connection.look_up()

    def requests(self) -> Sequence[object]:
        """The requests that are due."""
        return tuple(self._reader.requests(self.leader()))

    def taken(self, responses: Sequence[Response]) -> Iterator[Columns]:
        """The records of responses to ``requests``. An error is one for ``columns``, or for ``put_back``."""
        for response in responses:
            self._reader.received(response)
        self._check_gaps()
        yield from self._reader.columns()

    def put_back(self, *, forget_leader: bool = False) -> None:
        """Request again what was requested, from a leader that is looked up again with ``forget_leader``."""
        self._reader.restart()
        if forget_leader:
            self._connection.forget_leader()

    def finish(self) -> None:
        """Log what the read has left out."""
        self._gaps.report(self.task.leader.broker)
        self._reader.report()

    @property
    def _rest(self) -> tuple[int, int]:
        """The offsets that are not fetched yet: the next one and the end."""
        return self._reader.next_offset, self._stop_offset

    def _exchange(self) -> None:
        """Send requests, receive one response, and send the next requests before it is decoded."""
        client, leader = self._connection.open()
        for request in self._reader.requests(leader):
            client.send(request)
        self._reader.received(client.receive())
        self._check_gaps()
        for request in self._reader.requests(leader):
            client.send(request)

    def _check_gaps(self) -> None:
        """Check the gaps of a response before its rows are used."""
        if (gaps := self._reader.gaps) is not None:
            try:
                self._gaps.check(gaps)
            except KafkaWireError:
                self._reader.restart(gaps.offset)
                raise

    def _recover(self, error: KafkaWireError) -> None:
        """Prepare the next attempt, or raise.

        Every branch of the recovery is here. The methods below it look something up or do one thing.
        """
        if isinstance(error, CorruptDataError | LimitError):
            raise self._explained(error) from error
        cause = error.cause if isinstance(error, SuspectedDamage) else None
        if cause is not None and (wrong := self._wrong_option(cause)) is not None:
            raise wrong from error
        if not isinstance(error, EmptyFetch):
            self._connection.close()
        self._reader.restart()
        place = self._connection.place(self._reader.next_offset)
        if isinstance(error, UnknownTopicError):
            last: KafkaWireError | None = error
            if not (self._options.fail_on_data_loss or isinstance(error, TopicRecreated)):
                # A broker that starts may not know the topic yet: rows are given up after the last attempt.
                last = self._attempts.last(BrokerError(str(error), action=Action.REFRESH))
            if last is not None:
                self._skip(topic_loss(last, self._stop_offset))
        elif error.action is Action.DATA_LOSS:
            if isinstance(found := self._bounds(), Loss):
                self._skip(found)
                return
            # A broker that restarts may serve less than it has, for a moment.
            self._connection.forget_leader()
            message = (
                f"{place}: Fetch returned no record where the log has data; see the broker's log about this "
                "partition, and run again"
            )
            self._attempts.failed(BrokerError(message, action=Action.RETRY))
        elif isinstance(error, EmptyFetch):
            failure = error
            if error.may_be_compacted:
                suspect = (self._reader.next_offset, self._connection.leader)
                self._connection.forget_leader()
                if isinstance(found := self._bounds(), Loss):
                    self._skip(found)
                    return
                reason = reason_against_compaction(self._cluster, found, *self._rest)
                if reason is not None:
                    failure = error.advised(reason)
                elif self._suspect == suspect:
                    self._skip_compacted(place)
                    return
                else:
                    # Ask the current leader once more, on another connection.
                    self._suspect = suspect
            last = self._attempts.last(failure.located(place))
            if last is not None:
                if not isinstance(found := self._bounds(), Loss):
                    raise last
                self._skip(found)
        else:
            attempts = self._doubts if isinstance(error, Contradiction) else self._attempts
            if isinstance(error, SuspectedDamage):
                attempts = self._suspicions
            located = error.located(self._place_of(error))
            if error.action in (Action.REFRESH, Action.RECONNECT):
                self._connection.forget_leader()
            attempts.failed(located)

    def _place_of(self, error: KafkaWireError) -> str:
        offset = error.offset if isinstance(error, Contradiction) else self._reader.next_offset
        if isinstance(error, BrokerError):
            return self._connection.place(offset)
        # An error of the connection names the broker itself.
        return f"{self._partition} at offset {offset}"

    def _bounds(self) -> PartitionBounds | Loss:
        """The current bounds of the log, or the loss that they prove."""
        try:
            bounds = self._cluster.bounds((self._partition,))[self._partition]
        except UnknownTopicError as error:
            return topic_loss(error, self._stop_offset)
        return loss_by(bounds, *self._rest) or bounds

    def _skip(self, loss: Loss) -> None:
        """Raise ``DataLossError``, or warn and continue after the loss, as ``failOnDataLoss`` says."""
        unit = self._generation.offset_unit.value
        place = self._connection.place(self._reader.offset)
        message = f"{place}: {unit} up to {loss.resume_offset} are gone; {loss.reason}"
        if self._options.fail_on_data_loss:
            raise DataLossError(f"{message}; to read what is left, set failOnDataLoss=false")
        LOG.warning("%s; continuing because failOnDataLoss=false", message)
        self._reader.restart(loss.resume_offset)

    def _skip_compacted(self, place: str) -> None:
        """Continue at the end of the range: compaction removed the records before it."""
        LOG.warning("%s: compaction removed all records up to offset %d", place, self._stop_offset)
        self._reader.restart(self._stop_offset)

    def _explained(self, error: CorruptDataError | LimitError) -> KafkaWireError:
        """The error, as an ``OptionError`` if an option gave the offset."""
        if (wrong := self._wrong_option(error)) is not None:
            return wrong
        located = error.located(f"{self._partition} on {self.task.leader.broker}")
        return advised(located, self._options, "the log is damaged there, or the network is")

    def _wrong_option(self, error: CorruptDataError | LimitError) -> OptionError | None:
        """The error for an option that gave the offset, which is likely no message boundary; None without
        one."""
        task, offset_range = self.task, self.task.range
        at_start = self._reader.offset == offset_range.start_offset
        for option, offset, suspect in (
            (task.start_option, offset_range.start_offset, at_start),
            (task.stop_option, offset_range.stop_offset, isinstance(error, MessageCrossesStop)),
        ):
            if option is not None and suspect:
                place = f"{offset_range.topic_partition} on {task.leader.broker}"
                return OptionError(
                    f"option {option}: {offset} is not a message boundary of {place}; give earliest, latest, "
                    f"or an offset that a read returned ({error})"
                )
        return None
