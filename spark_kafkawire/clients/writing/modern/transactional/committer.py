"""Driver's side of an exactly-once write to modern Kafka: finish earlier writes, commit or abort this one.

committer = WriteCommitter.begin(options)    # on the driver, before the tasks
committer.commit(write)                      # after them; or committer.abort(write)
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from typing import Final

from spark_kafkawire.cluster.modern.acls import AclOperation, may_do_to_group, may_do_to_topic
from spark_kafkawire.cluster.modern.metadata import Metadata
from spark_kafkawire.cluster.modern.transactions import Transaction, Transactions
from spark_kafkawire.errors import (
    LOG,
    BrokerError,
    DeliveryError,
    KafkaWireError,
    OptionError,
    UnsupportedVersionError,
    counted,
    listed_some,
    quoted,
)
from spark_kafkawire.net.transport import Deadline
from spark_kafkawire.options import NetOptions, WriteOptions
from spark_kafkawire.protocol.modern.error_codes import ErrorCode
from spark_kafkawire.protocol.modern.list_transactions import (
    COMPLETE_ABORT,
    EMPTY,
    ONGOING,
    PREPARE_ABORT,
    DescribedTransaction,
)

from .driver import DriverStep, DriverTransaction, WriteSummary
from .requests import (
    FENCED_TIMEOUT_MS,
    FenceProducer,
    Refused,
    TransactionRequests,
    attempt_timeout_ms,
    fencing_deadline,
)
from .write_state import BatchId, Decision, attempt_ids, driver_id

#: States of ids under which a transaction is ongoing, or may begin by a late request. CompleteCommit is no
#: such state: the attempt had received the responses to all its requests.
_MAY_OPEN: Final = (ONGOING, EMPTY, PREPARE_ABORT, COMPLETE_ABORT)
#: Timeouts to try if the user sets none, ms: brokers allow 15 min by default, and a longer one would let a
#: dead write keep readers waiting.
_TIMEOUTS_MS: Final = (900_000, 600_000, 300_000, 120_000, 60_000, 30_000, 10_000, 5_000)
#: Ids that a warning names.
_NAMED_MAX: Final = 3
#: Timeout of transactions without one, as brokers report it.
NO_TIMEOUT_MS: Final = (1 << 31) - 1
#: Longest timeout of the driver's own transaction, ms: it is ongoing for a few requests only.
DRIVER_TIMEOUT_MS_MAX: Final = 60_000


class WriteCommitter:
    """Committer of one write. ``timeout_ms`` is the timeout of the tasks' transactions, ``began_s`` the start
    of the write in seconds since 1970. It travels to the process in which Spark commits."""

    def __init__(self, options: WriteOptions, driver: DriverTransaction, timeout_ms: int) -> None:
        self._options = options
        self._driver = driver
        self.timeout_ms = timeout_ms
        self.began_s = time.time()
        #: Pattern of the ids of attempts that are over once this write is over. In a stream it matches all
        #: ids of the name: a stream takes over its name twice a batch, the second time while tasks wait to be
        #: committed. It does so, too, if those of earlier runs could not be fenced when the write began.
        self._over = attempt_ids(driver.prefix)

    @classmethod
    def begin(cls, options: WriteOptions, batch: BatchId | None = None) -> WriteCommitter:
        """Take over the name, finish an earlier decision, and fence what was never decided. ``batch`` is None
        for streams, which fence when a batch is done.

        Raises ``OptionError`` (fatal) for brokers without transactions, ACLs that the user lacks, a timeout
        that is too long, records of another program, and a batch that must not be written now;
        ``DeliveryError`` if brokers fail.
        """
        assert options.transactions is not None
        prefix = options.transactions.prefix
        metadata = Metadata(options.discovery.bootstrap_servers, options.net)
        try:
            timeout_ms = timeout_ms_of(options, Transactions(metadata, options.net), driver_id(prefix))
        except BrokerError as error:
            if error.code != ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
                raise
            raise transactional_id_denied(prefix, error) from error
        committer = cls(options, DriverTransaction.begin(prefix), timeout_ms)
        committer._run(committer._requests(metadata))
        # An earlier write of this name to the same topic had the ACLs.
        if committer.last is None or options.topic not in committer.last.topics:
            check_acls(metadata, options.net, prefix, options.topic)
        if committer._driver.step is DriverStep.FAILED:
            raise DeliveryError(committer._driver.failure)
        if batch is not None and (fault := committer._driver.fault_of(batch)):
            raise OptionError(f"option batch: {fault}")
        if batch is not None and committer.fence_old_attempts(metadata):
            committer._over = attempt_ids(prefix, committer.run_name)
        return committer

    @property
    def last(self) -> Decision | None:
        """Last decision of the name."""
        return self._driver.last

    @property
    def earlier(self) -> Decision | None:
        """Decision of an interrupted write that ``begin`` has finished; None without one."""
        return self._driver.earlier

    @property
    def next_serial(self) -> int:
        """Serial of the decision about this write, if it is one of a batch."""
        return self._driver.next_serial

    @property
    def driver_transaction(self) -> Transaction:
        """Transaction of the driver while it waits for its tasks."""
        assert self._driver.transaction is not None
        return self._driver.transaction

    @property
    def run_name(self) -> str:
        """Name of this run, which no other run with the same kafka.transactional.id has."""
        transaction = self.driver_transaction
        return f"{transaction.producer_id}.{transaction.epoch}"

    def may_be_committed(self, batch: BatchId) -> bool:
        """Return whether rows of a batch may be committed already."""
        return self._driver.may_be_committed(batch)

    def commit(self, write: WriteSummary) -> None:
        """Commit the transactions of all tasks. Raises ``DeliveryError`` (fatal) unless all are known to be
        committed."""
        began_s = time.monotonic()
        self._driver = self._driver.commit(write)
        metadata = self._run_again()
        step, failure = self._driver.step, self._driver.failure
        if step is DriverStep.ABORTED:
            raise DeliveryError(f"{failure}; nothing of this run is committed, so write again")
        if step is not DriverStep.DONE:
            raise DeliveryError(
                f"{failure}; it is not known whether all, a part or none of the write is committed; "
                f"the next run with kafka.transactional.id={self._driver.prefix} settles{self._until()}"
            )
        if failure:
            LOG.warning("the write is committed; its end could not be recorded: %s", failure)
        if write.busy:
            # Needed even if all was committed before: a late attempt may have left a transaction open.
            self.fence_old_attempts(metadata)
        if write.open:
            LOG.info(
                "committed %d transaction(s) of %s in %.3f s",
                *(len(write.open), quoted(self._driver.prefix), time.monotonic() - began_s),
            )

    def abort(self, write: WriteSummary) -> str:
        """Abort the transactions of all tasks, or commit them if that was decided; return the outcome in
        words."""
        self._driver = self._driver.abort(write)
        metadata = self._run_again()
        if self._driver.step in (DriverStep.ABORTED, DriverStep.DONE):
            self.fence_old_attempts(metadata)
        if self._driver.step is DriverStep.ABORTED:
            return "nothing of this run is committed"
        if self._driver.step is DriverStep.DONE:
            return "it had been decided, and all of it is there"
        name = f"kafka.transactional.id={self._driver.prefix}"
        return f"{self._driver.failure}; the next run with {name} settles it"

    def _until(self) -> str:
        """Time within which the next run has to begin."""
        if self.timeout_ms == NO_TIMEOUT_MS:
            return ""
        return f", which should come within {self.timeout_ms / 1000:g} s"

    def _run_again(self) -> Metadata:
        metadata = Metadata(self._options.discovery.bootstrap_servers, self._options.net)
        self._run(self._requests(metadata))
        return metadata

    def _requests(self, metadata: Metadata, within: Deadline | None = None) -> TransactionRequests:
        timeout_ms = min(self.timeout_ms, DRIVER_TIMEOUT_MS_MAX)
        return TransactionRequests(
            metadata, self._options.net, timeout_ms, self._options.topic, within=within
        )

    def _run(self, requests: TransactionRequests) -> None:
        while due := self._driver.requests():
            step = self._driver.step
            for request, answer in zip(due, requests.send_all(due), strict=True):
                if self._driver.step is not step:  # the answer before has made the others needless
                    break
                self._driver = self._driver.answered(request, answer)

    def fence_old_attempts(self, metadata: Metadata | None = None) -> bool:
        """Fence the ids of attempts of earlier runs, and of this run once it is over. Returns whether all are
        fenced.

        No driver decides about their transactions any more. Fencing aborts ongoing transactions, which keep
        readers waiting. It also makes brokers refuse late requests, which would begin transactions without an
        end. Brokers before 3.0 cannot list ids: there the transactions time out. All of it has one deadline,
        after which one warning names what is not fenced."""
        metadata = metadata or Metadata(self._options.discovery.bootstrap_servers, self._options.net)
        within = fencing_deadline(self._options.net)
        try:
            ids = self._ids_to_fence(Transactions(metadata, self._options.net), within)
        except UnsupportedVersionError:
            return True
        except KafkaWireError as error:
            LOG.warning(
                "transactional ids of earlier attempts could not be listed; what they left open %s: %s",
                *(self._open_until(), error),
            )
            return False
        answers = self._requests(metadata, within).send_all([FenceProducer(id_) for id_ in ids])
        refused = {
            id_: answer.message
            for id_, answer in zip(ids, answers, strict=True)
            if isinstance(answer, Refused)
        }
        if refused:
            LOG.warning(
                "%s of attempts that are over are not fenced: %s; what they have open, or open later, %s: %s",
                counted(len(refused), "transactional id"),
                listed_some(refused, _NAMED_MAX, quoted),
                self._open_until(),
                next(iter(refused.values())),
            )
        return not refused

    def _open_until(self) -> str:
        """The consequence of an open transaction that no driver ends, and what ends it."""
        timeout_s = self.timeout_ms / 1000
        timeout = "" if self.timeout_ms == NO_TIMEOUT_MS else f" or for {timeout_s:g} s (its timeout)"
        name = f"kafka.transactional.id={self._driver.prefix}"
        return f"keeps readers of read_committed waiting until the next run with {name}{timeout}"

    def _ids_to_fence(self, transactions: Transactions, within: Deadline) -> list[str]:
        """List ids of attempts that are over under which a transaction is ongoing, or may still begin."""
        listed = transactions.listed(_MAY_OPEN, self._over, within)
        empty = [each.transactional_id for each in listed if each.transaction_state == EMPTY]
        found: dict[str, DescribedTransaction] = {}
        # Not retried: fencing an id twice changes nothing.
        with contextlib.suppress(KafkaWireError):
            found = transactions.described(empty, within) if empty else {}
        fenced = {id_ for id_, each in found.items() if each.transaction_timeout_ms == FENCED_TIMEOUT_MS}
        return [each.transactional_id for each in listed if each.transactional_id not in fenced]


def open_transactions(messages: Sequence[Transaction | None]) -> tuple[Transaction, ...]:
    """Sort the transactions that tasks left open, so that two processes have the same first one."""
    return tuple(sorted(each for each in messages if each is not None))


def timeout_ms_of(options: WriteOptions, transactions: Transactions, id_: str) -> int:
    """Choose the timeout that the user sets, or the longest one of a list that the brokers accept. Raises
    ``OptionError`` (fatal) if they do not accept the user's."""
    assert options.transactions is not None
    if options.transactions.two_phase_commit:
        _try_two_phase_commit(transactions, id_)
        return NO_TIMEOUT_MS
    wanted = options.transactions.timeout_ms
    for timeout_ms in _TIMEOUTS_MS if wanted is None else (attempt_timeout_ms(wanted),):
        try:
            transactions.begin(id_, timeout_ms)
        except BrokerError as error:
            if error.code != ErrorCode.INVALID_TRANSACTION_TIMEOUT:
                raise
            refused = error
        except UnsupportedVersionError as error:
            raise OptionError(
                f"option delivery: exactly-once needs transactions, which Kafka has from 0.11 on; "
                f"leave the option out: {error}"
            ) from error
        else:
            return timeout_ms
    raise OptionError(f"option kafka.transaction.timeout.ms: {refused}") from refused


def _try_two_phase_commit(transactions: Transactions, id_: str) -> None:
    """Raise ``OptionError`` (fatal) if the brokers have no transactions without a timeout."""
    # A user without any ACL on the id gets that error first: the code is the same.
    transactions.begin(id_, DRIVER_TIMEOUT_MS_MAX)
    try:
        transactions.begin(id_, DRIVER_TIMEOUT_MS_MAX, two_phase_commit=True)
    except UnsupportedVersionError as error:
        raise OptionError(
            "option twoPhaseCommit: brokers need InitProducerId 6, which Kafka from 4.1 on serves with "
            f"unstable.api.versions.enable=true; leave the option out, or set that: {error}"
        ) from error
    except BrokerError as error:
        if error.code != ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
            raise
        raise OptionError(
            "option twoPhaseCommit: give the brokers transaction.two.phase.commit.enable=true, and the user "
            f"the right TwoPhaseCommit on transactional ids that begin with this one: {error}"
        ) from error


def check_acls(metadata: Metadata, net: NetOptions, prefix: str, topic: str | None) -> None:
    """Check that the user has the ACLs of an exactly-once write before rows are sent, as far as brokers
    report them.

    The topic needs Read for the offsets of batches, which groups commit for a partition of it. ``topic`` is
    None if rows name their topics. Raises ``OptionError`` (fatal) that names the missing operation.
    """
    if not _may_read_group(metadata, net, driver_id(prefix)):
        raise _denied(f"Read on groups that begin with {quoted(prefix)}")
    for operation in (AclOperation.WRITE, AclOperation.READ) if topic is not None else ():
        assert topic is not None
        if may_do_to_topic(metadata, topic, operation) is False:
            raise _denied(f"{operation.name.title()} on topic {quoted(topic)}")


def transactional_id_denied(prefix: str, error: BrokerError) -> OptionError:
    """Make the error of a broker that denies the transactional id name the missing ACL."""
    return _denied(f"Write on transactional ids that begin with {quoted(prefix)}", f": {error}")


def _may_read_group(metadata: Metadata, net: NetOptions, group: str) -> bool:
    try:
        return may_do_to_group(metadata, group, AclOperation.READ, net) is not False
    except BrokerError as error:  # FindCoordinator refuses, too
        if error.code != ErrorCode.GROUP_AUTHORIZATION_FAILED:
            raise
        return False


def _denied(what: str, reason: str = "") -> OptionError:
    return OptionError(
        f"option delivery: exactly-once needs the right {what}, which this user lacks; have an administrator "
        f"grant it, or log in as another user (kafka.sasl.jaas.config){reason}"
    )
