"""Pieces in transactions of the target: each is there with its note, or nothing of it is.

    clusters = begin(clusters)                                  # on the driver, before anything else
    check_topic_rights(clusters, topics)                        # once they are there
    with LogTransaction(clusters, route) as transaction:        # in a task
        note = transaction.note()
        producer = transaction.producer()
        ...
        transaction.commit(mark)

To begin the transaction of a log aborts what is open of it, waits until one that was committed is complete,
and fences whoever began it: nothing of theirs arrives after that.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Final

from ...clients.writing.modern.producer import Producer
from ...clients.writing.modern.transactional.attempt import membership_of
from ...clients.writing.modern.transactional.meanings import Meaning, meaning_of
from ...clients.writing.modern.transactional.names import driver_id
from ...clients.writing.modern.transactional.requests import Record, newest
from ...clients.writing.modern.transactional.rights import check_rights, refused_id
from ...clients.writing.modern.transactional.timeouts import timeout_ms_of
from ...cluster.modern.group_offsets import committed_texts
from ...cluster.modern.transactions import Transaction, Transactions
from ...errors import BrokerError, DeliveryError, KafkaWireError, OptionError
from ...protocol.modern.error_codes import ErrorCode
from .clusters import Clusters
from .notes import Note, log_id
from .routes import Route
from .state import Mark

#: What follows from a failure in the middle.
_RUN_AGAIN: Final = (
    "a piece is there wholly or not at all: run the migration again, which asks the target how far it is"
)
#: What a user may do whose target has no transactions, or none so long.
_ADVICE: Final = "or leave it out: then a run that goes on compares what is there"
_FENCED: Final = (
    "another run of this migration began the same log, or the transaction took longer than "
    "kafka.transaction.timeout.ms (a --target-option), for which a smaller --piece-bytes helps"
)


def begin(clusters: Clusters) -> Clusters:
    """The clusters with a timeout that the target takes.

    Raises ``OptionError`` (fatal) where its brokers have no transactions, do not take the user's timeout, or
    the user may not use the ids; and what asking raises.
    """
    options = clusters.write
    assert options.transactions is not None
    prefix = options.transactions.prefix
    transactions = Transactions(clusters.metadata, options.net)
    try:
        timeout_ms = timeout_ms_of(options, transactions, driver_id(prefix))
    except BrokerError as error:
        if error.code != ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
            raise
        raise refused_id(prefix, error) from error
    except OptionError as error:
        raise error.located("argument --exactly-once").advised(_ADVICE) from error
    return clusters.in_transactions(timeout_ms=timeout_ms)


def check_topic_rights(clusters: Clusters, topics: Iterable[str]) -> None:
    """Raise ``OptionError`` (fatal) that names a right which the user lacks on these topics of the target, or
    on groups, as far as brokers tell."""
    options = clusters.write
    assert options.transactions is not None
    for topic in sorted(set(topics)):
        check_rights(clusters.metadata, options.net, options.transactions.prefix, topic)


class LogTransaction:
    """A transaction of one log, begun with the block, and aborted with it unless it is committed by then.

    All methods raise ``DeliveryError`` (fatal) that tells what to do.
    """

    def __init__(self, clusters: Clusters, route: Route) -> None:
        options = clusters.write.transactions
        assert options is not None
        assert options.timeout_ms is not None
        self._clusters = clusters
        self._route = route
        self._id = log_id(options.prefix, route)
        self._timeout_ms = options.timeout_ms
        self._transactions = Transactions(clusters.metadata, clusters.write.net)
        self._transaction: Transaction | None = None
        #: Whether something was put into it: else it cannot be ended, and need not be.
        self._is_open = False

    def __enter__(self) -> LogTransaction:
        with explained():
            self._transactions.locate([self._id], [self._id])
            self._transaction = self._transactions.begin(self._id, self._timeout_ms)
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._is_open and self._transaction is not None:
            # What fails here times out, or ends when the log's next transaction begins.
            with contextlib.suppress(KafkaWireError):
                self._transactions.end(self._transaction, committed=False)

    def note(self) -> Note | None:
        """What the brokers keep of the log; None where that is nothing, or forgotten."""
        with explained():
            texts = committed_texts(
                self._clusters.metadata, self._id, self._clusters.write.net, require_stable=True
            )
        record = newest(Record(number, text) for number, text in texts)
        return None if record is None else Note.of(record, self._route, self._id)

    def producer(self) -> Producer:
        """What sends messages in the transaction."""
        assert self._transaction is not None
        self._is_open = True
        return self._clusters.member(membership_of(self._transactions, self._transaction))

    def commit(self, mark: Mark) -> None:
        """Commit what was sent, and the mark behind it; readers see it when this returns."""
        transaction, record = self._transaction, Note(self._route, mark).record()
        assert transaction is not None
        self._is_open = True
        with explained():
            self._transactions.commit_offset(
                transaction, self._id, self._route.target, record.number, record.text
            )
            self._transactions.end(transaction, committed=True)
            # Answered when its marker is in all logs.
            self._transactions.end(transaction, committed=True)
        self._is_open = False


@contextlib.contextmanager
def explained() -> Iterator[None]:
    """An error in the middle of a piece, with who may be behind it, and what follows."""
    try:
        yield
    except OptionError:
        raise
    except KafkaWireError as error:
        is_over = meaning_of(error) in (Meaning.FENCED, Meaning.GONE)
        line = f"{error}; {_FENCED}" if is_over else str(error)
        raise DeliveryError(f"{line}; {_RUN_AGAIN}") from error
