"""What brokers know of transactions that are open, of who waits for them, and of what was decided."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from ...clients.writing.modern.transactional.decisions import last_decision
from ...clients.writing.modern.transactional.names import name_of
from ...clients.writing.modern.transactional.records import Decision
from ...cluster.modern.list_offsets import all_bounds
from ...cluster.modern.metadata import Metadata
from ...cluster.modern.transactions import Transactions
from ...errors import BrokerError, KafkaWireError, OptionError, UnsupportedVersionError, quoted
from ...model import TopicPartition
from ...options import WriteOptions
from ...protocol.modern.error_codes import ErrorCode
from ...protocol.modern.isolation import READ_COMMITTED
from ...protocol.modern.list_transactions import ONGOING, DescribedTransaction

_log = logging.getLogger("spark_kafkawire")

#: States of transactions that readers wait for: the others have ended.
_OPEN: Final = (ONGOING, "PrepareCommit", "PrepareAbort", "PrepareEpochFence")


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction that was begun and whose end is not in all its logs. ``write`` is the name of the write
    that it is of, None of other programs; ``is_decided`` tells that it is to be committed."""

    id: str
    state: str
    producer_id: int
    epoch: int
    began_ms: int
    age_s: float
    timeout_ms: int
    logs: tuple[TopicPartition, ...]
    write: str | None
    is_decided: bool

    @property
    def is_ongoing(self) -> bool:
        """Whether it is to be ended yet."""
        return self.state == ONGOING


@dataclass(frozen=True, slots=True)
class Waiting:
    """A log whose readers wait: what is there from its last stable offset on they do not see. ``ids`` are the
    transactions that are open there."""

    log: TopicPartition
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

    ``is_listed`` is false where brokers tell none.
    """

    name: str | None
    transactions: tuple[OpenTransaction, ...]
    waiting: tuple[Waiting, ...]
    decisions: Mapping[str, Decision] = field(default_factory=dict)
    is_listed: bool = True

    @classmethod
    def of(cls, options: WriteOptions, name: str | None, *, needs_list: bool = True) -> TransactionsSurvey:
        """Ask the brokers. Raises ``OptionError`` (fatal) where they know nothing of the name, or, if that
        ``needs_list``, tell no transactions."""
        asking = _Asking(options)
        try:
            known = asking.known(name)
        except UnsupportedVersionError as error:
            if needs_list:
                raise OptionError(
                    "Kafka tells what transactions are open from 3.0 on; before, each ends by its timeout, "
                    f"or when the next write of its name begins: {error}"
                ) from error
            known = None
        decisions = asking.decision_of(name) if name is not None else asking.decisions(known or ())
        if name is not None and not known and name not in decisions:
            raise OptionError(
                f"argument --transactional-id: brokers know no transaction of {quoted(name)}, and no "
                "decision; look at how it is spelt, and whether this user has the right Describe on "
                "transactional ids and groups that begin so"
            )
        found = asking.described(known or {}, decisions)
        return cls(name, found, asking.waiting(found), decisions, known is not None)


class _Asking:
    def __init__(self, options: WriteOptions) -> None:
        self._net = options.net
        self._metadata = Metadata(options.discovery.bootstrap_servers, options.net)
        self._transactions = Transactions(self._metadata, options.net)

    def known(self, name: str | None) -> dict[str, str] | None:
        """Ids with their states: of a name all that brokers remember, else those that are open."""
        listed = self._transactions.listed(_OPEN if name is None else ())
        return {
            each.transactional_id: each.transaction_state
            for each in listed
            if name is None or name_of(each.transactional_id) == name
        }

    def decision_of(self, name: str) -> dict[str, Decision]:
        """The last one of a name; nothing where there is none."""
        decision = last_decision(self._metadata, self._net, name)
        return {} if decision is None else {name: decision}

    def decisions(self, ids: Iterable[str]) -> dict[str, Decision]:
        """The last ones of all names that ids look like being of: they may be other programs'."""
        found: dict[str, Decision] = {}
        for name in sorted({name for name in map(name_of, ids) if name is not None}):
            try:
                found |= self.decision_of(name)
            except KafkaWireError as error:
                _log.warning("what was decided of %s is not told: %s", quoted(name), error)
        return found

    def described(
        self, known: Mapping[str, str], decisions: Mapping[str, Decision]
    ) -> tuple[OpenTransaction, ...]:
        """Those that are open, the oldest first."""
        ids = [id_ for id_, state in known.items() if state in _OPEN]
        self._transactions.locate(ids)
        decided = {
            (each.id, each.producer_id, each.epoch)
            for decision in decisions.values()
            for each in decision.open
        }
        found = [self._described(id_, decided) for id_ in ids]
        return tuple(sorted((each for each in found if each), key=lambda each: (each.began_ms, each.id)))

    def _described(self, id_: str, decided: set[tuple[str, int, int]]) -> OpenTransaction | None:
        try:
            told = self._transactions.describe(id_)
        except BrokerError as error:
            if error.code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:  # forgotten since it was listed
                return None
            raise
        if told.transaction_state not in _OPEN:
            return None
        return OpenTransaction(
            id=id_,
            state=told.transaction_state,
            producer_id=told.producer_id,
            epoch=told.producer_epoch,
            began_ms=told.transaction_start_time_ms,
            # By the clocks of the broker and of this machine.
            age_s=max(time.time() - told.transaction_start_time_ms / 1000, 0.0),
            timeout_ms=told.transaction_timeout_ms,
            logs=_logs_of(told),
            write=name_of(id_),
            is_decided=(id_, told.producer_id, told.producer_epoch) in decided,
        )

    def waiting(self, found: Sequence[OpenTransaction]) -> tuple[Waiting, ...]:
        """The logs that transactions are open in; of a topic that was deleted or is internal none."""
        there = {topic.name for topic in self._metadata.topics() if topic.leaders and not topic.is_internal}
        ids: dict[TopicPartition, list[str]] = {}
        for each in found:
            for log in each.logs:
                if log.topic in there:
                    ids.setdefault(log, []).append(each.id)
        logs = sorted(ids)
        stable = all_bounds(self._metadata, logs, self._net, READ_COMMITTED)
        ends = all_bounds(self._metadata, logs, self._net)
        return tuple(Waiting(log, stable[log].latest, ends[log].latest, tuple(ids[log])) for log in logs)


def _logs_of(told: DescribedTransaction) -> tuple[TopicPartition, ...]:
    return tuple(
        TopicPartition(topic.topic, partition)
        for topic in sorted(told.topics, key=lambda topic: topic.topic)
        for partition in sorted(topic.partitions)
    )
