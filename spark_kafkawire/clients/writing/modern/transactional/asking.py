"""Requests of tasks and the driver, sent to the brokers; several at a time."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from .....cluster.modern.group_offsets import committed_texts
from .....cluster.modern.metadata import Metadata
from .....cluster.modern.transactions import Transaction, Transactions
from .....errors import KafkaWireError, UnsupportedVersionError
from .....model import TopicPartition
from .....options import NetOptions
from .....protocol.modern.list_transactions import (
    COMPLETE_COMMIT,
    ONGOING,
    PREPARE_COMMIT,
    DescribedTransaction,
)
from .meanings import meaning_of
from .requests import Answer, Begin, End, Hold, IsOpen, Read, Record, Refused, Request, Settle

#: Requests that are sent side by side: more make brokers no faster.
_THREADS: Final = 8
#: Requests of one kind from which on they are asked together.
_TOGETHER_MIN: Final = 4
#: How often transactions are looked at that are becoming complete, seconds: that takes brokers some 50 ms.
_SETTLING_POLL_S: Final = 0.02


class Asker:
    """Asks the brokers of one cluster. ``timeout_ms`` is that of the transactions that it begins; with
    ``two_phase_commit`` none ends them."""

    def __init__(
        self, metadata: Metadata, net: NetOptions, timeout_ms: int, *, two_phase_commit: bool = False
    ) -> None:
        self.transactions = Transactions(metadata, net)
        self._metadata = metadata
        self._net = net
        self._timeout_ms = timeout_ms
        self._two_phase_commit = two_phase_commit

    def answer(self, request: Request) -> Answer:
        """What comes of a request; errors that are left when all was tried are answers, too."""
        try:
            return self._asked(request)
        except KafkaWireError as error:
            return Refused(meaning_of(error), str(error))

    def answers(self, requests: Sequence[Request]) -> list[Answer]:
        """What comes of several requests, in their order."""
        answers: dict[Request, Answer] = {}
        if len(requests) >= _TOGETHER_MIN:
            # What fails here fails again where it is asked for alone.
            with contextlib.suppress(KafkaWireError):
                answers = self._together(requests)
        left = [each for each in requests if each not in answers]
        with ThreadPoolExecutor(max(1, min(_THREADS, len(left))), "kafkawire-transactions") as threads:
            answers.update(zip(left, threads.map(self.answer, left), strict=True))
        return [answers[each] for each in requests]

    def _together(self, requests: Sequence[Request]) -> dict[Request, Answer]:
        """The answers to many requests of one kind, where there are quicker ways; what is not answered
        plainly is left out."""
        match requests[0]:
            case End(_, committed):
                ends = {each.transaction: each for each in requests if isinstance(each, End)}
                ended = self.transactions.end_many(list(ends), committed=committed)
                return {ends[each]: after for each, after in ended.items()}
            case IsOpen():
                return self._all_open([each for each in requests if isinstance(each, IsOpen)])
            case Settle():
                return self._all_settled([each for each in requests if isinstance(each, Settle)])
        return {}

    def _asked(self, request: Request) -> Answer:
        match request:
            case Begin(id_):
                return self.transactions.begin(id_, self._timeout_ms, two_phase_commit=self._two_phase_commit)
            case Read(group, is_stable):
                texts = committed_texts(self._metadata, group, self._net, require_stable=is_stable)
                return tuple(Record(number, text) for number, text in texts)
            case Hold(transaction, group, topic, record):
                log = TopicPartition(topic, 0)
                self.transactions.commit_offset(transaction, group, log, record.number, record.text)
                return None
            case End(transaction, committed):
                return self.transactions.end(transaction, committed=committed)
            case IsOpen(transaction):
                return self._is_open(transaction)
            case Settle(transaction):
                # Refused while it is not complete, and tried again.
                self.transactions.end(transaction, committed=True)
                return None

    def _is_open(self, transaction: Transaction) -> bool | None:
        try:
            found = self.transactions.describe(transaction.id)
        except UnsupportedVersionError:
            return None  # brokers before 3.0
        return _is_of(transaction, found)

    def _all_open(self, requests: Sequence[IsOpen]) -> dict[Request, Answer]:
        """The same of many, by one question to each coordinator."""
        try:
            found = self.transactions.described([each.transaction.id for each in requests])
        except UnsupportedVersionError:
            return dict.fromkeys(requests)  # brokers before 3.0
        return {each: _is_of(each.transaction, found[each.transaction.id]) for each in requests}

    def _all_settled(self, requests: Sequence[Settle]) -> dict[Request, Answer]:
        """Those that are complete, looked at again while others may become so."""
        settled: dict[Request, Answer] = {}
        waiting, stop_s = list(requests), time.monotonic() + self._net.request_timeout_s
        while waiting and time.monotonic() < stop_s:
            found = self.transactions.described([each.transaction.id for each in waiting])
            settled |= {each: None for each in waiting if _is_complete(each, found[each.transaction.id])}
            states = {id_: each.transaction_state for id_, each in found.items()}
            waiting = [each for each in waiting if states[each.transaction.id] == PREPARE_COMMIT]
            if waiting:
                time.sleep(_SETTLING_POLL_S)
        return settled


def _is_complete(request: Settle, found: DescribedTransaction) -> bool:
    """Whether the last transaction of an id is the one that was committed, or a later one of its producer:
    that begins when this one is complete."""
    committed = request.transaction
    is_later = found.producer_id == committed.producer_id and found.producer_epoch >= committed.epoch
    return is_later and found.transaction_state == COMPLETE_COMMIT


def _is_of(transaction: Transaction, found: DescribedTransaction) -> bool:
    """Whether the transaction that a coordinator knows is this one, and open."""
    identity = found.transaction_state, found.producer_id, found.producer_epoch
    return identity == (ONGOING, transaction.producer_id, transaction.epoch)
