"""Fetch loop of a read task, for both generations: it reads one range of one partition from the leader, or
from a follower in the client's rack.

    for columns in Fetcher(task, cluster, options, net).columns():
        ...

The loop fetches ahead, decodes and retries. It replaces a failed connection, and follows a leader that moved.
The read continues at the first offset that was not received, so nothing is read twice. If the log has lost
offsets of the range, ``failOnDataLoss`` decides.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Protocol

import pyarrow as pa

from spark_kafkawire.cluster import Cluster, cluster_of
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
    quote,
)
from spark_kafkawire.model import Leader, OffsetRange, PartitionBounds, WireFormat, id_text
from spark_kafkawire.net.client import Client
from spark_kafkawire.net.pool import POOL, Pool
from spark_kafkawire.net.retry import Attempts
from spark_kafkawire.net.settings import ConnectionSettings
from spark_kafkawire.options import FetchOptions, NetOptions, TaskOptions
from spark_kafkawire.protocol.connection import Response
from spark_kafkawire.records.arrow import BatchBuilder
from spark_kafkawire.records.columns import Columns
from spark_kafkawire.records.record_log import COLUMNS

from .damaged_records import SuspectedDamage, advise_bad_records
from .data_loss import GapWatch, Loss, loss_by, reason_against_compaction, topic_loss
from .task import Contradiction, EmptyFetch, FetchTask, Gaps, NearerReplica

if TYPE_CHECKING:
    from .key_order import LayoutsOfRows
    from .modern.near_replica import NearReplica
    from .typed_values import TypedTask, TypedValues

#: Fetches of damaged bytes in a row that differ, after which the read fails.
_DAMAGE_RETRIES: Final = 3


def settings_of(task: FetchTask, options: FetchOptions, net: NetOptions) -> ConnectionSettings:
    """The settings of connections to the leader of a task."""
    return replace(net.connection, minimum_versions=task.minimum_versions, wire_format=options.wire_format)


class Fetcher:
    """Read of one range. The connection comes from ``connections`` and returns there without a failure."""

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
        self._connection = LeaderConnection(task, cluster, options, settings, connections)
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
                        self._attempts.note_progress()
                        self._doubts.note_progress()
                        self._suspicions.note_progress()
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
            self._reader.receive(response)
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
        self._reader.receive(client.receive())
        self._check_gaps()
        if (near := self._connection.near) is None or not near.is_over:
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
        if isinstance(error, NearerReplica) and (near := self._connection.near) is not None:
            if near.is_alone:
                self._attempts.failed(error.locate(self._place_of(error)))
            self._connection.follow(error.replica_id)
            self._reader.restart(self._reader.offset)
            return
        is_throttled = isinstance(error, EmptyFetch) and error.is_throttled
        if not is_throttled and self._leaves_follower(error):
            return
        if isinstance(error, CorruptDataError | LimitError):
            raise self._explain(error) from error
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
                self._skip(topic_loss(self._deleted(error) or last, self._stop_offset))
        elif error.action is Action.DATA_LOSS:
            if isinstance(result := self._bounds(), Loss):
                self._skip(result)
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
                if isinstance(result := self._bounds(), Loss):
                    self._skip(result)
                    return
                reason = reason_against_compaction(self._cluster, result, *self._rest)
                if reason is not None:
                    failure = error.advise(reason)
                elif self._suspect == suspect:
                    LOG.warning(
                        "%s: compaction removed all records up to offset %d", place, self._stop_offset
                    )
                    self._reader.restart(self._stop_offset)
                    return
                else:
                    # Ask the current leader once more, on another connection.
                    self._suspect = suspect
            last = self._attempts.last(failure.locate(place))
            if last is not None and not self._leaves_follower(last):
                if not isinstance(result := self._bounds(), Loss):
                    raise last
                self._skip(result)
        else:
            attempts = self._doubts if isinstance(error, Contradiction) else self._attempts
            if isinstance(error, SuspectedDamage):
                attempts = self._suspicions
            located = error.locate(self._place_of(error))
            if error.action in (Action.REFRESH, Action.RECONNECT):
                self._connection.forget_leader()
            attempts.failed(located)

    def _leaves_follower(self, error: KafkaWireError) -> bool:
        """Continue at the leader if a follower was read from, whatever its error is: it proves nothing."""
        if not self._connection.leave_follower(error):
            return False
        self._reader.restart(self._reader.offset)
        return True

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
            return topic_loss(self._deleted(error) or error, self._stop_offset)
        return loss_by(bounds, *self._rest) or bounds

    def _deleted(self, error: UnknownTopicError) -> str:
        """The fate of a planned topic that no broker knows; empty without an id, or if another topic has
        its name."""
        topic_id = self.task.leader.topic_id
        if topic_id is None or isinstance(error, TopicRecreated):
            return ""
        return f"the one with the id {id_text(topic_id)}, which the read has planned, was deleted"

    def _skip(self, loss: Loss) -> None:
        """Raise ``DataLossError``, or warn and continue after the loss, as ``failOnDataLoss`` says."""
        unit = self._generation.offset_unit.value
        location = self._connection.place(self._reader.offset)
        message = f"{location}: {unit} up to {loss.resume_offset} are gone; {loss.reason}"
        if self._options.fail_on_data_loss:
            raise DataLossError(f"{message}; to read what is left, set failOnDataLoss=false")
        LOG.warning("%s; continuing because failOnDataLoss=false", message)
        self._reader.restart(loss.resume_offset)

    def _explain(self, error: CorruptDataError | LimitError) -> KafkaWireError:
        """The error, as an ``OptionError`` if an option gave the offset."""
        if (wrong := self._wrong_option(error)) is not None:
            return wrong
        located = error.locate(f"{self._partition} on {self.task.leader.broker}")
        return advise_bad_records(located, self._options, "the log is damaged there, or the network is")

    def _wrong_option(self, error: CorruptDataError | LimitError) -> OptionError | None:
        if (wrong := self.task.wrong_option(error, self._reader.offset)) is None:
            return None
        return OptionError(
            f"{wrong} on {self.task.leader.broker}; give earliest, latest, or an offset that a read returned "
            f"({error})"
        )


class TopicRecreated(UnknownTopicError):
    """The planned topic was deleted, and another one has its name. Fatal."""


class LeaderConnection:
    """The leader of one partition and a connection to it, both found on demand.

    The leader from planning is tried first. A leader of another topic with the same name, or of an older
    epoch, is refused. ``near`` may choose a follower in place of the leader.
    """

    def __init__(
        self,
        task: FetchTask,
        cluster: Cluster,
        options: FetchOptions,
        settings: ConnectionSettings,
        connections: Pool,
    ) -> None:
        self._partition, self._planned = task.range.topic_partition, task.leader
        self._cluster = cluster
        self._settings = settings
        self._connections = connections
        #: The leader by the last look-up; None if the next request needs another look-up.
        self.leader: Leader | None = task.leader
        self._client: Client | None = None
        #: None if no rack is set, or if it is not known.
        self.near: NearReplica | None = None
        servers = settings.bootstrap_servers
        if options.rack is not None and (rack := options.rack.found(servers, cluster.racks)):
            from .modern.near_replica import NearReplica

            self.near = NearReplica(rack, self._partition, cluster, servers)

    def place(self, offset: int) -> str:
        """An offset of the log and its leader, or the follower that is read from, for messages."""
        follower = self.near.follower if self.near is not None else None
        broker = self._settings.place(follower or (self.leader or self._planned).broker)
        return f"{self._partition} at offset {offset} on {broker}"

    def open(self) -> tuple[Client, Leader]:
        """The connection and the leader, or follower, at its other end. Raises ``TransportError``, the errors
        of ``Cluster`` and ``TopicRecreated``."""
        leader, near = self.look_up(), self.near
        if near is not None:
            if near.is_over and not (self._client is not None and self._client.in_flight):
                self.give_back()
                near.ask_again()
            leader = near.server(leader)
        if self._client is None:
            self._client = self._connections.take(leader.broker, self._settings)
            if near is not None:
                near.connected(self._client)
        return self._client, leader

    def follow(self, replica_id: int) -> None:
        """Read from the replica that the leader names."""
        assert self.near is not None
        self.give_back()
        self.near.follow(replica_id, self.leader or self._planned)

    def leave_follower(self, error: KafkaWireError) -> bool:
        """Read from the leader after an error of a follower; False if no follower was read from."""
        if self.near is None or self.near.follower is None:
            return False
        self.close()
        self.near.leave(error)
        return True

    def look_up(self) -> Leader:
        """The leader, from the cluster if it is not known. Raises the errors of ``Cluster`` and
        ``TopicRecreated``."""
        if self.leader is None:
            self.leader = self._current_leader()
        return self.leader

    def forget_leader(self) -> None:
        """Close the connection, and look up the leader before the next one."""
        self.close()
        self.leader = None
        self._cluster.forget(self._partition)

    def give_back(self) -> None:
        """Return the connection to the pool. No response may be outstanding."""
        if self._client is not None:
            self._connections.give_back(self._client)
            self._client = None

    def close(self) -> None:
        """Close the connection, if there is one."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _current_leader(self) -> Leader:
        leader = self._cluster.leaders_of((self._partition,))[self._partition]
        planned_id, planned_epoch = self._planned.topic_id, self._planned.epoch
        if None is not leader.topic_id != planned_id is not None:
            raise TopicRecreated(
                f"{quote(self._partition.topic)} was deleted, and another topic has its name"
            )
        if leader.topic_id is None and 0 <= leader.epoch < planned_epoch:
            raise BrokerError(
                f"{leader.broker} leads in epoch {leader.epoch}, below {planned_epoch} when the read was "
                "planned: the topic was deleted and created again, or brokers are behind; run again",
                action=Action.REFRESH,
            )
        return leader


class PartitionReader(Protocol):
    """The requests for one range and the rows of their responses. No socket, no waiting.

    ``next_offset`` is the first offset that is not fetched yet, ``offset`` the first one that is not decoded.
    ``bytes_received`` counts record bytes. ``gaps`` are those of the last response.
    """

    @property
    def next_offset(self) -> int: ...

    @property
    def offset(self) -> int: ...

    @property
    def bytes_received(self) -> int: ...

    @property
    def gaps(self) -> Gaps | None: ...

    @property
    def done(self) -> bool:
        """True after the whole range was fetched and decoded."""

    def requests(self, leader: Leader) -> Iterator[object]:
        """Requests to send now; none if enough are in flight."""

    def receive(self, response: Response) -> None:
        """Accept a response. Raises ``BrokerError`` with the action of its error code, and
        ``Contradiction``."""

    def columns(self) -> Iterator[Columns]:
        """The fetched rows, in order. Raises as ``receive``, ``CorruptDataError``, ``LimitError`` (fatal)."""

    def report(self) -> None:
        """Log the damage that ``badRecords`` left out, after the read."""

    def restart(self, offset: int | None = None) -> None:
        """Request the missing bytes again, after the connection was lost. With ``offset``, continue there and
        discard the bytes that are not decoded."""


def _make_v07_reader(*args: Any) -> PartitionReader:
    from .v07 import V07Reader

    return V07Reader(*args)


def _make_proposal_reader(*args: Any) -> PartitionReader:
    from .proposal import ProposalReader

    return ProposalReader(*args)


def _make_modern_reader(*args: Any) -> PartitionReader:
    from .modern.record_batch_reader import RecordBatchReader

    return RecordBatchReader(*args)


READERS: Final[
    Mapping[WireFormat, Callable[[OffsetRange, FetchOptions, Container[str]], PartitionReader]]
] = MappingProxyType(
    {
        WireFormat.V07: _make_v07_reader,
        WireFormat.PROPOSAL: _make_proposal_reader,
        WireFormat.MODERN: _make_modern_reader,
    }
)


def read_range(
    task: FetchTask, options: TaskOptions, schema: pa.Schema, typed: TypedTask | None = None
) -> Iterator[pa.RecordBatch]:
    """The messages of one range, of brokers or of files, as batches of the schema's columns. Raises the
    errors of a read."""
    layouts: LayoutsOfRows | None = None
    if task.layouts is not None:
        from .key_order import LayoutsOfRows

        layouts = LayoutsOfRows(task.range.topic_partition, task.layouts)
    typed_values = typed_values_of(task, schema, typed)
    batches = typed_values or BatchBuilder(task.range.topic_partition, schema)
    wanted = batches.wanted | (layouts.wanted if layouts else frozenset())
    try:
        for columns in _columns(task, options, wanted):
            yield batches.build(layouts.mark_layouts(columns) if layouts else columns)
    finally:
        if layouts:
            layouts.report()
        if typed_values:
            typed_values.report()


def of_planned(options: TaskOptions, task: FetchTask) -> TaskOptions:
    """The options of a task whose plan came from the cluster."""
    return replace(
        options,
        net=options.net.adapt_to_brokers(task.minimum_versions),
        planning_retry=options.planning_retry.known,
    )


def typed_values_of(task: FetchTask, schema: pa.Schema, typed: TypedTask | None) -> TypedValues | None:
    """The builder of batches with typed keys and values, None where both are binary."""
    if typed is None:
        return None
    from .typed_values import TypedValues

    return TypedValues(task.range.topic_partition, typed, schema)


def _columns(task: FetchTask, options: TaskOptions, wanted: Container[str]) -> Iterator[Columns]:
    if task.files:
        from .log_files import LogFiles

        return LogFiles(task, options.fetch, wanted=wanted).columns()
    options = of_planned(options, task)
    cluster = cluster_of(options, (task.leader.broker,))
    return Fetcher(task, cluster, options.fetch, options.net, wanted=wanted).columns()
