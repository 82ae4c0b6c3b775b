"""Requests of tasks and the driver, sent to the brokers; several at a time."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from .....cluster.modern.group_offsets import committed_texts
from .....cluster.modern.metadata import Metadata
from .....cluster.modern.transactions import Transaction, Transactions
from .....errors import KafkaWireError, UnsupportedVersionError
from .....model import TopicPartition
from .....options import NetOptions
from .....protocol.modern.list_transactions import ONGOING, DescribedTransaction
from .meanings import meaning_of
from .requests import Answer, Begin, End, Hold, IsOpen, Read, Record, Refused, Request

#: Requests that are sent side by side: more make brokers no faster.
_THREADS: Final = 8


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
        if len(requests) == 1:
            return [self.answer(requests[0])]
        asked = [each for each in requests if isinstance(each, IsOpen)]
        if len(asked) == len(requests):
            # What fails here fails again where it is asked for one by one.
            with contextlib.suppress(KafkaWireError):
                return self._all_open(asked)
        with ThreadPoolExecutor(min(_THREADS, len(requests)), "kafkawire-transactions") as threads:
            return list(threads.map(self.answer, requests))

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

    def _is_open(self, transaction: Transaction) -> bool | None:
        try:
            found = self.transactions.describe(transaction.id)
        except UnsupportedVersionError:
            return None  # brokers before 3.0
        return _is_of(transaction, found)

    def _all_open(self, requests: Sequence[IsOpen]) -> list[Answer]:
        """The same of many, by one question to each coordinator."""
        ids = [each.transaction.id for each in requests]
        self.transactions.locate(ids)
        found = self.transactions.described(ids)
        return [_is_of(each.transaction, found[each.transaction.id]) for each in requests]


def _is_of(transaction: Transaction, found: DescribedTransaction) -> bool:
    """Whether the transaction that a coordinator knows is this one, and open."""
    identity = found.transaction_state, found.producer_id, found.producer_epoch
    return identity == (ONGOING, transaction.producer_id, transaction.epoch)
