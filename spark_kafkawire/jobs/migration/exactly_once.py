"""Pieces of a migration in transactions of the target: a piece and its note are committed together.

    clusters = begin(clusters)                                  # on the driver, before anything else
    check_topic_acls(clusters, topics)                          # once they exist
    with PartitionTransaction(clusters, route) as transaction:  # in a task
        note = transaction.note()
        producer = transaction.producer()
        ...
        transaction.commit(mark)

A new transaction of a partition aborts an open one, waits until a committed one is complete, and fences
the producer of either: brokers refuse its late requests.

The note is the mark after the last piece of a partition. Each partition has a transactional id of its
own, and a group of the same name. The group's offset is the source offset of the mark. The metadata of
the offset is JSON with the rest of the mark, and with source and target of the copy.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any, Final

from spark_kafkawire.clients.writing.modern.producer import Producer, ProducerTransaction
from spark_kafkawire.clients.writing.modern.transactional.driver import (
    check_acls,
    timeout_ms_of,
    transactional_id_denied,
)
from spark_kafkawire.clients.writing.modern.transactional.requests import (
    InitProducerId,
    TransactionOutcome,
    TransactionRequests,
    outcome_of,
)
from spark_kafkawire.clients.writing.modern.transactional.write_state import (
    OffsetAndMetadata,
    committed_records,
    decode_metadata,
    encode_metadata,
)
from spark_kafkawire.cluster.modern.transactions import Transaction, Transactions
from spark_kafkawire.errors import BrokerError, DeliveryError, KafkaWireError, OptionError, quote
from spark_kafkawire.protocol.modern.error_codes import ErrorCode

from .clusters import Clusters
from .state import Mark, Route


def partition_transactional_id(prefix: str, route: Route) -> str:
    """The transactional id of a partition, and its group. No write of a name has it, whatever the name is:
    theirs end in a number or in "driver"."""
    return f"{prefix}-{route.target.topic}-{route.target.partition}-log"


def encode_note(route: Route, mark: Mark) -> OffsetAndMetadata:
    """The note that a partition is copied up to the mark, as the group stores it."""
    return OffsetAndMetadata(
        mark.source_offset,
        encode_metadata(**_names(route), end=mark.target_offset, messages=mark.message_count),
    )


def decode_note(record: OffsetAndMetadata, route: Route, group: str) -> Mark:
    """The mark of a note. Raises ``OptionError`` (fatal) for a record of another program or of another
    partition."""
    fields = (("source", list), ("target", list), ("end", int), ("messages", int))
    content = decode_metadata(record, group, *fields)
    if {name: content[name] for name in ("source", "target")} != _names(route):
        raise OptionError(
            f"argument --transactional-id: group {quote(group)} holds the note of another copy than "
            f"that of {route.source} to {route.target} ({quote(record.metadata)}); "
            "choose one that nothing else uses"
        )
    return Mark(record.offset, content["end"], content["messages"])


def _names(route: Route) -> dict[str, list[Any]]:
    source, target = route.source, route.target
    return {
        "source": [source.topic, source.broker, source.partition],
        "target": [target.topic, target.partition],
    }


#: Advice for a failure in the middle.
_RUN_AGAIN: Final = (
    "each piece is all or nothing: run the migration again, which asks the target how far it is"
)
#: Advice for a target without transactions, or with a shorter limit of their timeout.
_ADVICE: Final = "or leave it out: then a later run compares what is there"
_FENCED: Final = (
    "another run of this migration began the same partition, or the transaction took longer than "
    "kafka.transaction.timeout.ms (a --target-option), for which a smaller --piece-bytes helps"
)


def begin(clusters: Clusters) -> Clusters:
    """The clusters with a timeout that the target takes.

    Raises ``OptionError`` (fatal) where its brokers have no transactions, do not take the user's timeout, or
    the user may not use the ids; and the errors of asking the brokers.
    """
    options = clusters.write
    assert options.transactions is not None
    prefix = options.transactions.prefix
    transactions = Transactions(clusters.metadata, options.net)
    try:
        timeout_ms = timeout_ms_of(options, transactions)
    except BrokerError as error:
        if error.code != ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
            raise
        raise transactional_id_denied(prefix, error) from error
    except OptionError as error:
        raise error.locate("argument --exactly-once").advise(_ADVICE) from error
    return clusters.copy_in_transactions(timeout_ms=timeout_ms)


def check_topic_acls(clusters: Clusters, topics: Iterable[str]) -> None:
    """Raise ``OptionError`` (fatal) if the user lacks a right on these topics of the target, or on groups, as
    far as brokers report rights. The error names the right."""
    options = clusters.write
    assert options.transactions is not None
    for topic in sorted(set(topics)):
        check_acls(clusters.metadata, options.net, options.transactions.prefix, topic)


def end_open(clusters: Clusters, routes: Iterable[Route]) -> None:
    """Abort the transactions that interrupted tasks left open: a new producer of an id aborts them.

    One that cannot be aborted ends by its timeout, or when the next run begins the partition.
    """
    options = clusters.write.transactions
    assert options is not None
    assert options.timeout_ms is not None
    requests = TransactionRequests(clusters.metadata, clusters.write.net, options.timeout_ms)
    requests.send_all([InitProducerId(partition_transactional_id(options.prefix, item)) for item in routes])


class PartitionTransaction:
    """A transaction of one partition. It begins with the block, and is aborted at its end unless it is
    committed.

    All methods raise ``DeliveryError`` (fatal) that says what to do.
    """

    def __init__(self, clusters: Clusters, route: Route) -> None:
        options = clusters.write.transactions
        assert options is not None
        assert options.timeout_ms is not None
        self._clusters = clusters
        self._route = route
        self._id = partition_transactional_id(options.prefix, route)
        self._timeout_ms = options.timeout_ms
        self._transactions = Transactions(clusters.metadata, clusters.write.net)
        self._transaction: Transaction | None = None
        #: Whether something was put into it: else it cannot be ended, and need not be.
        self._is_open = False

    def __enter__(self) -> PartitionTransaction:
        with explain_errors():
            self._transactions.locate([self._id], [self._id])
            self._transaction = self._transactions.begin(self._id, self._timeout_ms)
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._is_open and self._transaction is not None:
            # A transaction that cannot be aborted times out, or ends when the next one of the partition
            # begins.
            with contextlib.suppress(KafkaWireError):
                self._transactions.end(self._transaction, committed=False)

    def note(self) -> Mark | None:
        """The mark in the note that brokers keep; None before the first piece, or after the note expired."""
        with explain_errors():
            net, target = self._clusters.write.net, self._route.target
            records = committed_records(self._clusters.metadata, net, self._id, [target])
        record = max(records, default=None)
        return None if record is None else decode_note(record, self._route, self._id)

    def producer(self) -> Producer:
        """A producer that sends messages in the transaction."""
        assert self._transaction is not None
        self._is_open = True
        return self._clusters.member(ProducerTransaction(self._transactions, self._transaction))

    def commit(self, mark: Mark) -> None:
        """Commit the messages and the mark after them; readers see both when this returns."""
        transaction, record = self._transaction, encode_note(self._route, mark)
        assert transaction is not None
        self._is_open = True
        with explain_errors():
            offset = {self._route.target: (record.offset, record.metadata)}
            self._transactions.commit_offsets(transaction, self._id, offset)
            self._transactions.end(transaction, committed=True)
            # Answered when its marker is in all partitions.
            self._transactions.end(transaction, committed=True)
        self._is_open = False


@contextlib.contextmanager
def explain_errors() -> Iterator[None]:
    """An error in the middle of a piece, with its possible cause and the next step."""
    try:
        yield
    except OptionError:
        raise
    except KafkaWireError as error:
        is_over = outcome_of(error) in (TransactionOutcome.FENCED, TransactionOutcome.GONE)
        line = f"{error}; {_FENCED}" if is_over else str(error)
        raise DeliveryError(f"{line}; {_RUN_AGAIN}") from error
