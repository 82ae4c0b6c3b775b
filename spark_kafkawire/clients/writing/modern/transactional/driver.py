"""Driver's side of an exactly-once write to modern Kafka: finish earlier writes, commit or abort this one.

    committer = WriteCommitter.begin(options)    # on the driver, before the tasks
    committer.commit(write)                      # after them; or committer.abort(write)

``DriverTransaction`` is the state machine, without I/O:

    take over ─► read ─┬─► ready ─► check ─► record the decision ─► commit tasks ─► await completion
                       │                                                    ─► record that it is done ─► done
                       └─► commit tasks of an earlier decision ─► await completion
                                                               ─► record that it is done ─► take over

``abort`` ends the transactions of a failed write. It first reads whether the write was decided after all, and
then commits it.
"""

from __future__ import annotations

import contextlib
import enum
import time
from dataclasses import dataclass, replace
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
    list_some,
    quote,
)
from spark_kafkawire.net.transport import Deadline
from spark_kafkawire.options import NetOptions, WriteOptions
from spark_kafkawire.protocol.modern.error_codes import ErrorCode
from spark_kafkawire.protocol.modern.transactions import (
    COMPLETE_ABORT,
    EMPTY,
    ONGOING,
    PREPARE_ABORT,
    DescribedTransaction,
)

from .requests import (
    FENCED_TIMEOUT_MS,
    Answer,
    AwaitCompletion,
    CommitOffset,
    EndTransaction,
    FenceIfCurrent,
    FenceProducer,
    FetchOffsets,
    InitProducerId,
    IsOngoing,
    Refused,
    Request,
    TransactionOutcome,
    TransactionRequests,
    attempt_timeout_ms,
    fencing_deadline,
)
from .write_state import (
    TOPIC_COUNT_MAX,
    BatchId,
    Decision,
    OffsetAndMetadata,
    attempt_ids,
    decision_groups,
    driver_id,
    part_count,
)

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
    of the write in seconds since 1970. ``driver`` is the state. It travels to the process in which Spark
    commits."""

    def __init__(self, options: WriteOptions, driver: DriverTransaction, timeout_ms: int) -> None:
        self._options = options
        self.driver = driver
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
            timeout_ms = timeout_ms_of(options, Transactions(metadata, options.net))
        except BrokerError as error:
            if error.code != ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
                raise
            raise transactional_id_denied(prefix, error) from error
        committer = cls(options, DriverTransaction.begin(prefix), timeout_ms)
        committer._run(committer._requests(metadata))
        # An earlier write of this name to the same topic had the ACLs.
        if (last := committer.driver.last) is None or options.topic not in last.topics:
            check_acls(metadata, options.net, prefix, options.topic)
        if committer.driver.step is DriverStep.FAILED:
            raise DeliveryError(committer.driver.failure)
        if batch is not None and (fault := committer.driver.fault_of(batch)):
            raise OptionError(f"option batch: {fault}")
        if batch is not None and committer.fence_old_attempts(metadata):
            committer._over = attempt_ids(prefix, committer.run_name)
        return committer

    @property
    def run_name(self) -> str:
        """Name of this run, which no other run with the same kafka.transactional.id has."""
        transaction = self.driver.transaction
        assert transaction is not None
        return f"{transaction.producer_id}.{transaction.epoch}"

    def commit(self, write: WriteSummary) -> None:
        """Commit the transactions of all tasks. Raises ``DeliveryError`` (fatal) unless all are known to be
        committed."""
        began_s = time.monotonic()
        self.driver = self.driver.commit(write)
        metadata = self._run_again()
        step, failure = self.driver.step, self.driver.failure
        if step is DriverStep.ABORTED:
            raise DeliveryError(f"{failure}; nothing of this run is committed, so write again")
        if step is not DriverStep.DONE:
            until = f", which should come within {self.timeout_ms / 1000:g} s"
            raise DeliveryError(
                f"{failure}; it is not known whether all, a part or none of the write is committed; "
                f"the next run with kafka.transactional.id={self.driver.prefix} settles"
                f"{until if self.timeout_ms != NO_TIMEOUT_MS else ''}"
            )
        if failure:
            LOG.warning("the write is committed; its end could not be recorded: %s", failure)
        if write.busy:
            # Needed even if all was committed before: a late attempt may have left a transaction open.
            self.fence_old_attempts(metadata)
        if write.open:
            name, elapsed_s = quote(self.driver.prefix), time.monotonic() - began_s
            LOG.info("committed %d transaction(s) of %s in %.3f s", len(write.open), name, elapsed_s)

    def abort(self, write: WriteSummary) -> str:
        """Abort the transactions of all tasks, or commit them if that was decided; return the outcome in
        words."""
        self.driver = self.driver.abort(write)
        metadata = self._run_again()
        if self.driver.step in (DriverStep.ABORTED, DriverStep.DONE):
            self.fence_old_attempts(metadata)
        if self.driver.step is DriverStep.ABORTED:
            return "nothing of this run is committed"
        if self.driver.step is DriverStep.DONE:
            return "it had been decided, and all of it is there"
        name = f"kafka.transactional.id={self.driver.prefix}"
        return f"{self.driver.failure}; the next run with {name} settles it"

    def _run_again(self) -> Metadata:
        metadata = Metadata(self._options.discovery.bootstrap_servers, self._options.net)
        self._run(self._requests(metadata))
        return metadata

    def _requests(self, metadata: Metadata, within: Deadline | None = None) -> TransactionRequests:
        options, timeout_ms = self._options, min(self.timeout_ms, DRIVER_TIMEOUT_MS_MAX)
        return TransactionRequests(metadata, options.net, timeout_ms, options.topic, within=within)

    def _run(self, requests: TransactionRequests) -> None:
        while due := self.driver.requests():
            step = self.driver.step
            for request, answer in zip(due, requests.send_all(due), strict=True):
                if self.driver.step is not step:  # the answer before has made the others needless
                    break
                self.driver = self.driver.answered(request, answer)

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
        known = zip(ids, answers, strict=True)
        refused = {id_: answer.message for id_, answer in known if isinstance(answer, Refused)}
        if refused:
            LOG.warning(
                "%s of attempts that are over are not fenced: %s; what they have open, or open later, %s: %s",
                counted(len(refused), "transactional id"),
                list_some(refused, _NAMED_MAX, quote),
                self._open_until(),
                next(iter(refused.values())),
            )
        return not refused

    def _open_until(self) -> str:
        """The consequence of an open transaction that no driver ends, and what ends it."""
        timeout_s = self.timeout_ms / 1000
        timeout = "" if self.timeout_ms == NO_TIMEOUT_MS else f" or for {timeout_s:g} s (its timeout)"
        name = f"kafka.transactional.id={self.driver.prefix}"
        return f"keeps readers of read_committed waiting until the next run with {name}{timeout}"

    def _ids_to_fence(self, transactions: Transactions, within: Deadline) -> list[str]:
        """List ids of attempts that are over under which a transaction is ongoing, or may still begin."""
        listed = transactions.listed(_MAY_OPEN, self._over, within)
        empty = [item.transactional_id for item in listed if item.transaction_state == EMPTY]
        result: dict[str, DescribedTransaction] = {}
        # Not retried: fencing an id twice changes nothing.
        with contextlib.suppress(KafkaWireError):
            result = transactions.described(empty, within) if empty else {}
        fenced = {id_ for id_, item in result.items() if item.transaction_timeout_ms == FENCED_TIMEOUT_MS}
        return [item.transactional_id for item in listed if item.transactional_id not in fenced]


def timeout_ms_of(options: WriteOptions, transactions: Transactions) -> int:
    """Choose the timeout that the user sets, or the longest one of a list that the brokers accept. Raises
    ``OptionError`` (fatal) if they do not accept the user's."""
    assert options.transactions is not None
    id_ = driver_id(options.transactions.prefix)
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
    try:
        is_denied = may_do_to_group(metadata, driver_id(prefix), AclOperation.READ, net) is False
    except BrokerError as error:  # FindCoordinator refuses, too
        if error.code != ErrorCode.GROUP_AUTHORIZATION_FAILED:
            raise
        is_denied = True
    if is_denied:
        raise _describe_denial(f"Read on groups that begin with {quote(prefix)}")
    for operation in (AclOperation.WRITE, AclOperation.READ):
        if topic is not None and may_do_to_topic(metadata, topic, operation) is False:
            raise _describe_denial(f"{operation.name.title()} on topic {quote(topic)}")


def transactional_id_denied(prefix: str, error: BrokerError) -> OptionError:
    """Make the error of a broker that denies the transactional id name the missing ACL."""
    return _describe_denial(f"Write on transactional ids that begin with {quote(prefix)}", f": {error}")


def _describe_denial(what: str, reason: str = "") -> OptionError:
    return OptionError(
        f"option delivery: exactly-once needs the right {what}, which this user lacks; have an administrator "
        f"grant it, or log in as another user (kafka.sasl.jaas.config){reason}"
    )


class DriverStep(enum.Enum):
    """Step of the driver."""

    TAKE_OVER = "take over the transactional id, which fences the driver before"
    READ = "fetch the last decision"
    READ_PARTS = "fetch the other parts of the last decision"
    COMMIT_TASKS = "commit the transactions of a decision"
    AWAIT_COMPLETION = "wait until all partitions have the markers"
    RECORD_DONE = "commit an offset that says that the write is done"
    COMMIT_DONE = "commit the transaction of that offset"
    READY = "let the tasks begin, or continue"
    CHECK = "ask whether the transactions of all tasks are ongoing"
    RECORD_DECISION = "commit the offsets that hold the decision"
    COMMIT_DECISION = "commit the transaction of the decision, which counts from then on"
    FENCE_SELF = "fence its own id: nothing is decided after that, and attempts find that out"
    ABORT_TASKS = "abort the transactions of all tasks"
    DONE = "end: all transactions are committed"
    ABORTED = "end: none of the rows is committed"
    FAILED = "end: the outcome is unknown or partial, and the next run with the name settles it"


class Phase(enum.Enum):
    """Phase of a write, which determines what follows after reading and finishing."""

    OPEN = "to begin a write"
    COMMIT = "to commit it"
    ABORT = "to abort it"


@dataclass(frozen=True, slots=True)
class WriteSummary:
    """Summary of the commit messages of all tasks.

    It has the batch, None without messages; the number of tasks, and of tasks with rows; the transactions of
    tasks that sent rows, sorted, so that two processes have the same first one; and the topics of all rows,
    sorted."""

    batch: BatchId | None
    tasks: int
    busy: int
    open: tuple[Transaction, ...]
    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Due:
    """Requests without an answer yet: all but the first ``answered`` ones.

    Answers come in the order of the requests. So the cost of an answer does not grow with the number of
    requests."""

    requests: tuple[Request, ...] = ()
    answered: int = 0

    def __bool__(self) -> bool:
        return self.answered < len(self.requests)

    def left(self) -> tuple[Request, ...]:
        """Return the requests, in order."""
        return self.requests[self.answered :]

    def without(self, request: Request) -> Due:
        """Return what is due after the answer to a request."""
        at = self.requests.index(request, self.answered)
        if at == self.answered:
            return Due(self.requests, at + 1)
        return Due(self.requests[:at] + self.requests[at + 1 :], self.answered)


@dataclass(frozen=True, slots=True)
class DriverTransaction:
    """Driver of the writes of one prefix. ``last`` is the decision that counts now, ``earlier`` that of an
    interrupted write whose transactions this driver has committed; None without one."""

    prefix: str
    step: DriverStep = DriverStep.TAKE_OVER
    phase: Phase = Phase.OPEN
    transaction: Transaction | None = None
    last: Decision | None = None
    earlier: Decision | None = None
    write: WriteSummary | None = None
    due: Due = Due()
    #: Parts of the last decision that were fetched.
    parts: tuple[tuple[str, OffsetAndMetadata], ...] = ()
    #: Topics that keep them.
    topics: tuple[str, ...] = ()
    lost: int = 0
    failure: str = ""

    @classmethod
    def begin(cls, prefix: str) -> DriverTransaction:
        """Return a driver that takes over the name: the previous driver can decide nothing any more."""
        return cls(prefix, due=Due((InitProducerId(driver_id(prefix)),)))

    @property
    def id(self) -> str:
        """Transactional id of the driver, and the group of its decisions."""
        return driver_id(self.prefix)

    @property
    def next_serial(self) -> int:
        """Serial of the decision after the last one."""
        return self.last.serial + 1 if self.last else 1

    def requests(self) -> tuple[Request, ...]:
        """Requests to send now, in any order or at the same time; none while the caller has to act."""
        return self.due.left()

    def fault_of(self, batch: BatchId | None) -> str | None:
        """Reason why a batch must not follow the last decision; None if it may."""
        return self.last.fault_before(batch) if self.last else None

    def _fault(self, write: WriteSummary) -> str | None:
        last = self.last
        if last is None or last.batch != write.batch:
            return self.fault_of(write.batch)
        return last.fault_again(write.tasks, write.busy, len(write.open), write.topics)

    def may_be_committed(self, batch: BatchId) -> bool:
        """Return whether rows of a batch may be committed already."""
        return self.last is not None and self.last.may_be_committed(batch)

    def commit(self, write: WriteSummary) -> DriverTransaction:
        """Commit the transactions of all tasks, which are done."""
        assert self.step is DriverStep.READY
        committing = replace(self, phase=Phase.COMMIT, write=write)
        if fault := self._fault(write):
            return committing._abort_tasks(fault)
        if not write.open:
            return committing._end(DriverStep.DONE)
        return replace(committing, step=DriverStep.CHECK, due=Due(tuple(map(IsOngoing, write.open))))

    def abort(self, write: WriteSummary) -> DriverTransaction:
        """Abort a write that failed, unless it was decided."""
        aborting = replace(self, phase=Phase.ABORT, write=write)
        if self.transaction is None:
            return aborting
        return replace(aborting, step=DriverStep.FENCE_SELF, due=Due((FenceIfCurrent(self.transaction),)))

    def answered(self, request: Request, answer: Answer) -> DriverTransaction:
        """Return the driver after the answer to a request. Raises ``OptionError`` for records of another
        program."""
        return replace(self, due=self.due.without(request))._after(request, answer)

    def _after(self, request: Request, answer: Answer) -> DriverTransaction:
        match self.step, answer:
            case DriverStep.COMMIT_TASKS, Refused(
                TransactionOutcome.GONE | TransactionOutcome.FENCED, message
            ):
                # It was decided, and cannot be committed any more.
                lost = replace(self, lost=self.lost + 1, failure=self.failure or message)
                return lost if lost.due else lost._await_completion()
            case DriverStep.COMMIT_TASKS, Refused(_, message):
                return self._fail(message)
            case DriverStep.AWAIT_COMPLETION, Refused(
                TransactionOutcome.UNKNOWN | TransactionOutcome.FATAL, message
            ):
                return self._fail(message)
            case DriverStep.AWAIT_COMPLETION, _:
                return self if self.due else self._record_done()
            case DriverStep.ABORT_TASKS, _:
                return self if self.due else self._end(DriverStep.ABORTED)
            case DriverStep.FENCE_SELF, _:
                # A refusal changes nothing: another driver took over, or the transaction was ongoing.
                return self._read_last()
            case DriverStep.CHECK, False:
                assert isinstance(request, IsOngoing)
                return self._abort_tasks(
                    f"the transaction {quote(request.transaction.id)} is not open any more: it took longer "
                    "than kafka.transaction.timeout.ms, or another attempt or write began it again"
                )
            case ((DriverStep.RECORD_DONE | DriverStep.COMMIT_DONE), Refused(_, message)) if (
                self.phase is Phase.COMMIT
            ):
                # The next driver commits all again, which changes nothing.
                return self._finish() if self.lost else replace(self, failure=message)._end(DriverStep.DONE)
            case ((DriverStep.CHECK | DriverStep.RECORD_DECISION), Refused(outcome, message)):
                return self._abort_tasks(_blame(outcome, message))
            case _, Refused(outcome, message):
                return self._fail(_blame(outcome, message))
        return self._next(request, answer)

    def _next(self, request: Request, answer: Answer) -> DriverTransaction:
        match self.step, answer:
            case DriverStep.TAKE_OVER, Transaction():
                return replace(self, transaction=answer)._read_last()
            case DriverStep.READ, tuple():
                return self._read(answer)
            case DriverStep.READ_PARTS, tuple():
                assert isinstance(request, FetchOffsets)
                return self._read_part(request.group, answer)
            case DriverStep.COMMIT_TASKS, _:
                return self if self.due else self._await_completion()
            case DriverStep.RECORD_DONE, None:
                return self._commit_own(DriverStep.COMMIT_DONE)
            case DriverStep.COMMIT_DONE, Transaction():
                return self._finish_recorded(answer)
            case DriverStep.CHECK, True | None:
                return self if self.due else self._record_decision()
            case DriverStep.RECORD_DECISION, None:
                return self if self.due else self._commit_own(DriverStep.COMMIT_DECISION)
            case DriverStep.COMMIT_DECISION, Transaction():
                return replace(self, transaction=answer)._commit_tasks()
        raise AssertionError(f"{self.step}: {answer}")

    def _read_last(self) -> DriverTransaction:
        return replace(self, step=DriverStep.READ, due=Due((FetchOffsets(self.id, is_stable=True),)))

    def _read(self, records: tuple[OffsetAndMetadata, ...]) -> DriverTransaction:
        record = max(records, default=None)
        if record is None:
            return self._last_known(None)
        count = part_count(record, self.id)
        groups = tuple(decision_groups(self.id, count))
        topics = tuple(sorted(item.topic for item in records if item.offset == record.offset))
        if count == 1:
            return self._last_known(Decision.of((record,), self.prefix, self.id, topics))
        due = Due(tuple(FetchOffsets(group, is_stable=True) for group in groups[1:]))
        known = replace(self, parts=((self.id, record),), topics=topics)
        return replace(known, step=DriverStep.READ_PARTS, due=due)

    def _read_part(self, group: str, records: tuple[OffsetAndMetadata, ...]) -> DriverTransaction:
        record = max(records, default=None)
        serial = self.parts[0][1].offset
        if record is None or record.offset != serial:
            return self._fail(
                f"group {quote(group)} lacks a part of decision {serial} of {quote(self.prefix)}"
            )
        read = replace(self, parts=(*self.parts, (group, record)))
        if read.due:
            return read
        texts = tuple(item for _, item in sorted(read.parts))
        return replace(read, parts=())._last_known(Decision.of(texts, self.prefix, self.id, self.topics))

    def _last_known(self, last: Decision | None) -> DriverTransaction:
        """Continue with the last decision, which is known now."""
        known = replace(self, last=last)
        if self.phase is Phase.ABORT:
            assert self.write is not None
            return known._abort_unless_decided(last, self.write)
        if last is not None and last.open:
            return replace(known, earlier=last)._commit_tasks()
        return replace(known, step=DriverStep.READY, due=Due())

    def _abort_unless_decided(self, last: Decision | None, write: WriteSummary) -> DriverTransaction:
        # Other batches of a stream use the same ids.
        is_decided = last is not None and write.open and last.batch == write.batch
        if last is None or not is_decided or last.first != write.open[0].id:
            return self._abort_tasks(self.failure or "the write failed")
        if last.lost:
            return replace(self, lost=last.lost)._finish()
        return self._commit_tasks()

    def _record_decision(self) -> DriverTransaction:
        write = self.write
        assert write is not None
        assert write.batch is not None
        # A stable read sees that an offset is pending where the group has one already.
        known = self.last.topics if self.last else ()
        kept = sorted(write.topics, key=lambda topic: topic not in known)[:TOPIC_COUNT_MAX]
        decision = Decision(
            serial=self.next_serial,
            batch=write.batch,
            tasks=write.tasks,
            busy=write.busy,
            open=write.open,
            topics=tuple(sorted(kept)),
            topic_count=len(write.topics),
            first=write.open[0].id,
        )
        return replace(self, last=decision)._record(DriverStep.RECORD_DECISION)

    def _record(self, step: DriverStep) -> DriverTransaction:
        """Commit the offsets that hold the last decision, as it is now."""
        assert self.last is not None
        assert self.transaction is not None
        records = self.last.records(self.prefix)
        commits = (
            CommitOffset(
                self.transaction, group, tuple(replace(record, topic=item) for item in self.last.topics)
            )
            for group, record in zip(decision_groups(self.id, len(records)), records, strict=True)
        )
        return replace(self, step=step, due=Due(tuple(commits)))

    def _commit_own(self, step: DriverStep) -> DriverTransaction:
        assert self.transaction is not None
        return replace(self, step=step, due=Due((EndTransaction(self.transaction, committed=True),)))

    def _commit_tasks(self) -> DriverTransaction:
        assert self.last is not None
        ends = tuple(EndTransaction(item, committed=True) for item in self.last.open)
        return replace(self, step=DriverStep.COMMIT_TASKS, due=Due(ends)) if ends else self._finish()

    def _await_completion(self) -> DriverTransaction:
        """Wait for completion before it is recorded: the next tasks that read must find these offsets."""
        assert self.last is not None
        due = Due(tuple(map(AwaitCompletion, self.last.open)))
        return replace(self, step=DriverStep.AWAIT_COMPLETION, due=due)

    def _record_done(self) -> DriverTransaction:
        assert self.last is not None
        finished = replace(self, last=self.last.finished(self.lost))
        if self.phase is Phase.ABORT:
            # The next driver commits it again, and records that.
            return finished._finish()
        return finished._record(DriverStep.RECORD_DONE)

    def _finish_recorded(self, transaction: Transaction) -> DriverTransaction:
        marked = replace(self, transaction=transaction)
        if self.phase is Phase.OPEN:
            # A new epoch: the state of the id shows whether the driver decided (see ``IsDriverWaiting``).
            again = replace(marked, step=DriverStep.TAKE_OVER, lost=0, failure="")
            return replace(again, due=Due((InitProducerId(self.id),)))
        return marked._finish()

    def _finish(self) -> DriverTransaction:
        if not self.lost:
            return self._end(DriverStep.DONE)
        busy = self.last.busy if self.last is not None else self.lost
        lost = "the only transaction" if self.lost == 1 else f"all {counted(self.lost, 'transaction')}"
        if self.lost < busy:
            lost = f"{self.lost} of {busy} transactions"
        return self._fail(f"{lost} could not be committed any more: {self.failure}")

    def _fail(self, message: str) -> DriverTransaction:
        return replace(self, failure=message)._end(DriverStep.FAILED)

    def _end(self, step: DriverStep) -> DriverTransaction:
        return replace(self, step=step, due=Due())

    def _abort_tasks(self, message: str) -> DriverTransaction:
        assert self.write is not None
        ends = tuple(EndTransaction(item, committed=False) for item in self.write.open)
        if self.step is DriverStep.RECORD_DECISION and self.transaction is not None:
            ends += (EndTransaction(self.transaction, committed=False),)
        aborting = replace(self, step=DriverStep.ABORT_TASKS, due=Due(ends), failure=message)
        return aborting if ends else aborting._end(DriverStep.ABORTED)


def _blame(outcome: TransactionOutcome, message: str) -> str:
    """Add to an error who may have caused it."""
    if outcome is TransactionOutcome.FENCED:
        return f"{message}; another run with this kafka.transactional.id began, and this one gives way"
    return message
