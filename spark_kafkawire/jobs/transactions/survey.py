"""Open transactions of a cluster, the readers that wait for them, and the decisions of writes."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from spark_kafkawire.clients.writing.modern.transactional.write_state import (
    Decision,
    driver_id,
    last_decision,
    partitions_of_offsets,
    write_of_id,
)
from spark_kafkawire.cluster.modern.list_offsets import end_offsets
from spark_kafkawire.cluster.modern.metadata import Metadata
from spark_kafkawire.cluster.modern.transactions import Transactions
from spark_kafkawire.errors import (
    LOG,
    KafkaWireError,
    OptionError,
    UnsupportedVersionError,
    quoted,
)
from spark_kafkawire.model import Broker, TopicPartition
from spark_kafkawire.options import WriteOptions
from spark_kafkawire.protocol.modern.limits import READ_COMMITTED, READ_UNCOMMITTED
from spark_kafkawire.protocol.modern.list_transactions import ONGOING, DescribedTransaction, ListedTransaction

#: States of transactions that readers wait for: the others have ended.
_OPEN: Final = (ONGOING, "PrepareCommit", "PrepareAbort", "PrepareEpochFence")


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """An open transaction: its end is not in all its partitions yet. ``write`` is the name of its write, None
    for other programs; ``is_decided`` is true if a decision says to commit it."""

    id: str
    state: str
    producer_id: int
    epoch: int
    began_ms: int
    age_s: float
    timeout_ms: int
    partitions: tuple[TopicPartition, ...]
    write: str | None
    is_decided: bool

    @property
    def is_ongoing(self) -> bool:
        """True if it is still to be ended."""
        return self.state == ONGOING


@dataclass(frozen=True, slots=True)
class Waiting:
    """A partition whose readers wait: they do not see records from its last stable offset on. ``ids`` are the
    transactions that are open there."""

    topic_partition: TopicPartition
    stable_offset: int
    end_offset: int
    ids: tuple[str, ...]

    @property
    def count(self) -> int:
        """Records that readers wait for, and markers between them."""
        return self.end_offset - self.stable_offset


@dataclass(frozen=True, slots=True)
class TransactionsSurvey:
    """All transactions that are open, or those of one ``name``, and the last decision of each write.

    ``is_listed`` is false if brokers cannot list transactions.
    """

    name: str | None
    transactions: tuple[OpenTransaction, ...]
    waiting: tuple[Waiting, ...]
    decisions: Mapping[str, Decision] = field(default_factory=dict)
    is_listed: bool = True

    @classmethod
    def of(cls, options: WriteOptions, name: str | None, *, needs_list: bool = True) -> TransactionsSurvey:
        """Ask the brokers. Raises ``OptionError`` (fatal) if they do not know the name, or if they cannot
        list transactions and the call ``needs_list``."""
        asking = _Asking(options)
        try:
            known = asking.known(name)
        except UnsupportedVersionError as error:
            if needs_list:
                raise OptionError(
                    "Kafka lists open transactions from 3.0 on; with earlier versions each ends by its "
                    f"timeout, or when the next write of its name begins: {error}"
                ) from error
            known = None
        states = (
            None if known is None else {each.transactional_id: each.transaction_state for _, each in known}
        )
        decisions = asking.decision_of(name, states) if name is not None else asking.decisions(states or {})
        if name is not None and not known and name not in decisions:
            raise OptionError(
                f"argument --transactional-id: brokers know no transaction of {quoted(name)}, and no "
                "decision; check its spelling, and whether this user has the right Describe on "
                "transactional ids and groups that begin so"
            )
        found = asking.described(known or (), decisions)
        return cls(name, found, asking.waiting(found), decisions, known is not None)


class _Asking:
    def __init__(self, options: WriteOptions) -> None:
        self._net = options.net
        self._metadata = Metadata(options.discovery.bootstrap_servers, options.net)
        self._transactions = Transactions(self._metadata, options.net)

    @cached_property
    def _partitions_of_offsets(self) -> tuple[TopicPartition, ...]:
        return partitions_of_offsets(self._metadata)

    def known(self, name: str | None) -> list[tuple[Broker, ListedTransaction]]:
        """Transactions with their coordinators: of a name all that brokers remember, else those that are
        open."""
        listed = self._transactions.listed_by_coordinator(_OPEN if name is None else ())
        return [
            (coordinator, each)
            for coordinator, own in listed.items()
            for each in own
            if name is None or write_of_id(each.transactional_id) == name
        ]

    def decision_of(self, name: str, states: Mapping[str, str] | None) -> dict[str, Decision]:
        """The last decision of a name; empty without any. ``states`` are those of transactional ids, None if
        brokers cannot list them."""
        # A decision counts as soon as its transaction is to be committed. Brokers show it a little later.
        is_stable = states is not None and states.get(driver_id(name)) != ONGOING
        stable_in = self._partitions_of_offsets if is_stable else None
        decision = last_decision(self._metadata, self._net, name, stable_in)
        return {} if decision is None else {name: decision}

    def decisions(self, states: Mapping[str, str]) -> dict[str, Decision]:
        """The last decisions of all names that the ids seem to belong to; an id may be of another program."""
        found: dict[str, Decision] = {}
        for name in sorted({name for name in map(write_of_id, states) if name is not None}):
            try:
                found |= self.decision_of(name, states)
            except KafkaWireError as error:
                LOG.warning("the decision of %s cannot be read: %s", quoted(name), error)
        return found

    def described(
        self, known: Iterable[tuple[Broker, ListedTransaction]], decisions: Mapping[str, Decision]
    ) -> tuple[OpenTransaction, ...]:
        """The open ones, the oldest first."""
        listed: dict[Broker, list[ListedTransaction]] = {}
        for coordinator, each in known:
            if each.transaction_state in _OPEN:
                listed.setdefault(coordinator, []).append(each)
        decided = {
            (each.id, each.producer_id, each.epoch)
            for decision in decisions.values()
            for each in decision.open
        }
        described = self._transactions.described_by(listed).values()
        found = [_open(each, decided) for each in described if each.transaction_state in _OPEN]
        return tuple(sorted(found, key=lambda each: (each.began_ms, each.id)))

    def waiting(self, found: Sequence[OpenTransaction]) -> tuple[Waiting, ...]:
        """The partitions with open transactions, without those of deleted or internal topics."""
        there = {topic.name for topic in self._metadata.topics() if topic.leaders and not topic.is_internal}
        ids: dict[TopicPartition, list[str]] = {}
        for each in found:
            for partition in each.partitions:
                if partition.topic in there:
                    ids.setdefault(partition, []).append(each.id)
        partitions = sorted(ids)
        stable = end_offsets(self._metadata, partitions, self._net, READ_COMMITTED)
        ends = end_offsets(self._metadata, partitions, self._net, READ_UNCOMMITTED)
        return tuple(Waiting(tp, stable[tp], ends[tp], tuple(ids[tp])) for tp in partitions)


def _open(described: DescribedTransaction, decided: set[tuple[str, int, int]]) -> OpenTransaction:
    id_ = described.transactional_id
    return OpenTransaction(
        id=id_,
        state=described.transaction_state,
        producer_id=described.producer_id,
        epoch=described.producer_epoch,
        began_ms=described.transaction_start_time_ms,
        # By the clocks of the broker and of this machine.
        age_s=max(time.time() - described.transaction_start_time_ms / 1000, 0.0),
        timeout_ms=described.transaction_timeout_ms,
        partitions=_partitions_of(described),
        write=write_of_id(id_),
        is_decided=(id_, described.producer_id, described.producer_epoch) in decided,
    )


def _partitions_of(described: DescribedTransaction) -> tuple[TopicPartition, ...]:
    return tuple(
        TopicPartition(topic.topic, partition)
        for topic in sorted(described.topics, key=lambda topic: topic.topic)
        for partition in sorted(topic.partitions)
    )
