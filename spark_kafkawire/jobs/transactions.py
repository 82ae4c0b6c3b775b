"""The open transactions of a modern cluster: their writes and decisions, the readers that wait for
them, and the end of those that an interrupted write left, as the next run of its name would end them
before its rows.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from ..clients.writing.modern.transactional.driver import WriteCommitter
from ..clients.writing.modern.transactional.write_state import (
    Decision,
    driver_id,
    last_decision,
    partitions_of_offsets,
    write_of_id,
)
from ..cluster.modern.list_offsets import end_offsets
from ..cluster.modern.metadata import Metadata
from ..cluster.modern.transactions import Transactions
from ..errors import LOG, DeliveryError, KafkaWireError, OptionError, UnsupportedVersionError, one_line, quote
from ..model import Broker, TopicPartition
from ..options import WriteOptions
from ..protocol.modern.limits import READ_COMMITTED, READ_UNCOMMITTED
from ..protocol.modern.transactions import ONGOING, DescribedTransaction, ListedTransaction
from ..tables import Row
from ..tables.groups import structs
from .arguments import arg, check_needs, connection_args, flag
from .progress import Progress, align_rows, format_duration

#: States of transactions that readers wait for: the others have ended.
_OPEN: Final = (ONGOING, "PrepareCommit", "PrepareAbort", "PrepareEpochFence")
#: Transactions by their coordinators.
Listed = Mapping[Broker, Sequence[ListedTransaction]]


@dataclass(frozen=True, slots=True)
class TransactionsSurvey:
    """All transactions that are open, or those of one ``name``, and the last decision of each write.

    A transaction is open until its end is in all its partitions. ``waiting`` are the partitions whose readers
    do not see records from the last stable offset on. ``is_listed`` is false if brokers cannot list
    transactions.
    """

    name: str | None
    transactions: tuple[Row, ...]
    waiting: tuple[Row, ...]
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
            None
            if known is None
            else {item.transactional_id: item.transaction_state for own in known.values() for item in own}
        )
        decisions = asking.decision_of(name, states) if name is not None else asking.decisions(states or {})
        if name is not None and not states and name not in decisions:
            raise OptionError(
                f"argument --transactional-id: brokers know no transaction of {quote(name)}, and no "
                "decision; check its spelling, and whether this user has the right Describe on "
                "transactional ids and groups that begin so"
            )
        result = asking.described(known or {}, decisions)
        return cls(name, result, asking.waiting(result), decisions, known is not None)


class _Asking:
    def __init__(self, options: WriteOptions) -> None:
        self._net = options.net
        self._metadata = Metadata(options.discovery.bootstrap_servers, options.net)
        self._transactions = Transactions(self._metadata, options.net)

    @cached_property
    def _partitions_of_offsets(self) -> tuple[TopicPartition, ...]:
        return partitions_of_offsets(self._metadata)

    def known(self, name: str | None) -> Listed:
        """Of a name all transactions that brokers remember, else those that are open."""
        listed = self._transactions.list_by_coordinator(_OPEN if name is None else ())
        return {
            coordinator: [item for item in own if name is None or write_of_id(item.transactional_id) == name]
            for coordinator, own in listed.items()
        }

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
        result: dict[str, Decision] = {}
        for name in sorted({name for name in map(write_of_id, states) if name is not None}):
            try:
                result |= self.decision_of(name, states)
            except KafkaWireError as error:
                LOG.warning("the decision of %s cannot be read: %s", quote(name), error)
        return result

    def described(self, known: Listed, decisions: Mapping[str, Decision]) -> tuple[Row, ...]:
        """The open ones, the oldest first."""
        decided = {
            (item.id, item.producer_id, item.epoch)
            for decision in decisions.values()
            for item in decision.open
        }
        listed = {
            coordinator: [item for item in own if item.transaction_state in _OPEN]
            for coordinator, own in known.items()
        }
        described = self._transactions.describe_listed(listed).values()
        result = [transaction_row(item, decided) for item in described if item.transaction_state in _OPEN]
        return tuple(sorted(result, key=lambda row: (row["began_ms"], row["id"])))

    def waiting(self, found: Sequence[Row]) -> tuple[Row, ...]:
        """The partitions with open transactions, without those of deleted or internal topics."""
        there = {topic.name for topic in self._metadata.topics() if topic.leaders and not topic.is_internal}
        ids: dict[TopicPartition, list[str]] = {}
        for row in found:
            for partition in row["partitions"]:
                if partition["topic"] in there:
                    ids.setdefault(TopicPartition(**partition), []).append(row["id"])
        partitions = sorted(ids)
        stable = end_offsets(self._metadata, partitions, self._net, READ_COMMITTED)
        ends = end_offsets(self._metadata, partitions, self._net, READ_UNCOMMITTED)
        return tuple(waiting_row(tp, stable[tp], ends[tp], ids[tp]) for tp in partitions)


def transaction_row(described: DescribedTransaction, decided: set[tuple[str, int, int]]) -> Row:
    """The row of an open transaction. ``write`` is the name of its write, None for other programs;
    ``is_decided`` is true if a decision says to commit it."""
    id_, began_ms = described.transactional_id, described.transaction_start_time_ms
    partitions = [
        TopicPartition(topic.topic, item) for topic in described.topics for item in topic.partitions
    ]
    return {
        "id": id_,
        "write": write_of_id(id_),
        "state": described.transaction_state,
        "producer_id": described.producer_id,
        "epoch": described.producer_epoch,
        "began_ms": began_ms,
        # By the clocks of the broker and of this machine.
        "age_s": round(max(time.time() - began_ms / 1000, 0.0), 1),
        "timeout_ms": described.transaction_timeout_ms,
        "partitions": structs(partitions),
        "is_decided": (id_, described.producer_id, described.producer_epoch) in decided,
    }


def waiting_row(partition: TopicPartition, stable: int, end: int, ids: Sequence[str]) -> Row:
    """The row of a partition. Readers wait for its records after ``stable``, and markers between them;
    ``ids`` are the transactions that are open there."""
    return {
        "topic": partition.topic,
        "partition": partition.partition,
        "last_stable_offset": stable,
        "end_offset": end,
        "offsets_waiting": end - stable,
        "transactions": [*ids],
    }


_HEAD: Final = ("id", "state", "producer", "epoch", "age", "partitions", "decided")
_WAITING_HEAD: Final = ("topic", "partition", "readers wait at", "for", "transaction", "others")
_FOREIGN: Final = "not a write of kafkawire"


def table_of(found: TransactionsSurvey) -> Iterator[str]:
    """The lines of a report."""
    if found.transactions:
        yield from align_rows([_HEAD, *map(_row, found.transactions)])
    else:
        yield "no transaction is open"
    held = [item for item in found.waiting if item["offsets_waiting"]]
    if held:
        yield ""
        yield from align_rows([_WAITING_HEAD, *map(_waiting_row, held)])
    if found.decisions:
        yield ""
    for name, decision in found.decisions.items():
        yield f"{name}: {describe_decision(decision)}"


def json_of(found: TransactionsSurvey) -> dict[str, Any]:
    """The report as one object."""
    return {
        "transactional_id": found.name,
        "transactions": [*found.transactions],
        "waiting": [*found.waiting],
        "decisions": [
            {
                "name": name,
                "serial": decision.serial,
                "batch": decision.batch.name,
                "number": decision.batch.number,
                "tasks": decision.tasks,
                "to_commit": [item.id for item in decision.open],
                "lost": decision.lost,
            }
            for name, decision in found.decisions.items()
        ],
    }


def describe_decision(decision: Decision) -> str:
    """A decision in a sentence."""
    what = f"batch {decision.batch}, {decision.tasks} task(s),"
    if decision.open:
        return f"{what} is decided, and {len(decision.open)} transaction(s) are to be committed"
    if decision.lost:
        return f"{what} {decision.loss}"
    return f"{what} is committed"


def _row(each: Row) -> tuple[str, ...]:
    decision = _FOREIGN if each["write"] is None else "to be committed" if each["is_decided"] else "no"
    numbers = f"{each['producer_id']}", f"{each['epoch']}", format_duration(each["age_s"])
    return each["id"], each["state"], *numbers, f"{len(each['partitions'])}", decision


def _waiting_row(each: Row) -> tuple[str, ...]:
    first, *others = each["transactions"]
    location = each["topic"], f"{each['partition']}", f"{each['last_stable_offset']}"
    return *location, f"{each['offsets_waiting']:,} offset(s)", first, f"{len(others)}"


#: Ids that an error names.
_NAMED_MAX: Final = 3
#: Interval between looks at transactions that are ending, seconds: brokers take about 50 ms.
_ENDING_POLL_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class FinishPlan:
    """Actions for the write of a name. ``commit`` are the ids that its decision names and that are not known
    to be committed, ``abort`` those without a decision."""

    name: str
    commit: tuple[str, ...]
    abort: tuple[Row, ...]

    @classmethod
    def of(cls, found: TransactionsSurvey) -> FinishPlan:
        """The plan that follows from the survey of a name."""
        assert found.name is not None
        decision = found.decisions.get(found.name)
        commit = tuple(item.id for item in decision.open) if decision else ()
        abort = (item for item in found.transactions if item["state"] == ONGOING and not item["is_decided"])
        return cls(found.name, commit, tuple(abort))

    def ends(self, committed: Sequence[str]) -> dict[str, list[str]]:
        """The ids of transactions that end, as the summary has them, if these are ``committed``."""
        aborted = [item["id"] for item in self.abort if item["id"] not in committed]
        return {"committed": [*committed], "aborted": aborted}

    def check(self) -> None:
        """Raise ``OptionError`` (fatal) if finishing may end a write that is running.

        While the last decision of the name is not done, finishing can end no running write: a new write
        finishes that decision before it begins.
        """
        if not self.abort or self.commit:
            return
        youngest_s = min(item["age_s"] for item in self.abort)
        raise OptionError(
            f"argument --finish: {len(self.abort)} transaction(s) of {quote(self.name)} are open without a "
            f"decision, the youngest for {format_duration(youngest_s)}: aborting them makes a write that "
            "still runs fail, and brokers cannot say whether one runs; check that none does, and add --force"
        )


def finish(options: WriteOptions, plan: FinishPlan) -> dict[str, list[str]]:
    """Commit what was decided, and abort the rest; ``options`` are those of a write of the name. Returns what
    has ended.

    A driver may decide after the plan was made: then the transactions to abort are committed. If there is
    nothing to do, the name is not taken over. Returns when readers wait for none of these transactions.
    Raises ``DeliveryError`` (fatal) if a part can no longer be committed, or is still open after
    ``requestTimeout``, and as ``WriteCommitter.begin``.
    """
    committed: list[str] = []
    if plan.commit or plan.abort:
        committer = WriteCommitter.begin(options)
        committer.fence_old_attempts()
        earlier = committer.driver.earlier
        committed = [item.id for item in earlier.open] if earlier else []
    ends = plan.ends(committed)
    result = _without_ending(options, plan.name)
    ended = {*ends["committed"], *ends["aborted"]}
    if left := [item["id"] for item in result.transactions if item["id"] in ended]:
        named = ", ".join(map(quote, left[:_NAMED_MAX]))
        raise DeliveryError(f"{len(left)} transaction(s) are still open, {named} first; run again")
    last = result.decisions.get(plan.name)
    if last is not None and last.lost:
        raise DeliveryError(
            f"batch {last.batch} of {quote(plan.name)} {last.loss}; run that write again, with the same "
            "rows and name: what is there is not written twice"
        )
    return ends


def _without_ending(options: WriteOptions, name: str) -> TransactionsSurvey:
    """Survey a name once none of its transactions is ending, or after ``requestTimeout``: another write of
    the name may run, and end one after the other."""
    stop_s = time.monotonic() + options.net.request_timeout_s
    while True:
        result = TransactionsSurvey.of(options, name, needs_list=False)
        if all(item["state"] == ONGOING for item in result.transactions) or time.monotonic() >= stop_s:
            return result
        time.sleep(_ENDING_POLL_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionsOptions:
    """Options of a report or of ``--finish``. Raises ``OptionError`` (fatal) for arguments that contradict
    each other."""

    name: str | None = arg(
        "--transactional-id",
        "the kafka.transactional.id of a write (default: show all transactions)",
        metavar="NAME",
        group="transactions",
    )
    finish: bool = flag("--finish", "commit what the write decided to commit, and abort the rest")
    force: bool = flag(
        "--force",
        "also abort transactions without a decision: a running write with that name fails",
        needs=("finish",),
    )
    dry_run: bool = flag("--dry-run", "show what --finish would end, and change nothing", needs=("finish",))
    connection: Mapping[str, str] = connection_args(
        example="kafka.bootstrap.servers=HOST:PORT",
        refuses=dict.fromkeys(
            ("delivery", "kafka.transactional.id", "batch"), "is set by --transactional-id; leave it out"
        ),
    )

    def __post_init__(self) -> None:
        check_needs(self)
        if self.finish and self.name is None:
            raise OptionError("argument --finish needs --transactional-id, the name of the write; add it")

    def write(self) -> WriteOptions:
        """The options of a write of that name. Raises ``OptionError`` (fatal)."""
        named = {} if self.name is None else {"kafka.transactional.id": self.name}
        return WriteOptions.parse({**self.connection, "delivery": "exactly-once", **named})


def run_transactions(options: TransactionsOptions, progress: Progress, as_json: bool) -> dict[str, Any]:
    """The summary that is still to be printed: unless ``as_json`` a report is printed here.

    Raises ``OptionError`` (fatal), and as ``finish``.
    """
    write = options.write()
    progress.step("asking the brokers")
    result = TransactionsSurvey.of(write, options.name, needs_list=not options.finish)
    if options.finish:
        return _finish_transactions(options, write, result, progress)
    if as_json:
        return json_of(result)
    for line in table_of(result):
        print(one_line(line))
    return {}


def _finish_transactions(
    options: TransactionsOptions, write: WriteOptions, result: TransactionsSurvey, progress: Progress
) -> dict[str, Any]:
    plan = FinishPlan.of(result)
    if not (options.force or options.dry_run):
        plan.check()
    ends = plan.ends(plan.commit)
    if not options.dry_run:
        progress.step(f"committing {len(plan.commit)} transaction(s), aborting {len(plan.abort)}")
        ends = finish(write, plan)
    not_listed = {"not_listed": "brokers before 3.0: transactions without a decision time out"}
    return {
        **({"dry_run": True} if options.dry_run else {}),
        **ends,
        **({} if result.is_listed else not_listed),
    }
