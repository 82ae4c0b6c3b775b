"""A small cluster, a small Spark and the transactions of a write, run through all that can happen to them.

Two tasks write one row each, or none. A stream writes one batch after the other, and again each that is not
done; of other writes each is of a batch of its own. A broker answers as Apache Kafka 3.9 to 4.4 do, found by
experiment. Whoever has a request that is due may be next: the tasks' attempts, zombies among them, the
driver, a driver that died and is begun anew, the markers of a transaction. ``explore`` visits every world
that can be reached once, and ``Fault`` tells the first that must not be, with the way to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from spark_kafkawire.clients.writing.modern.transactional.driver import (
    DriverStep,
    DriverTransaction,
    WriteSummary,
)
from spark_kafkawire.clients.writing.modern.transactional.requests import (
    Answer,
    AwaitCompletion,
    CommitOffset,
    EndTransaction,
    FenceIfCurrent,
    FetchOffsets,
    InitProducerId,
    IsDriverWaiting,
    IsOngoing,
    Refused,
    Request,
    TransactionOutcome,
)
from spark_kafkawire.clients.writing.modern.transactional.task import (
    TaskStep,
    TaskTransaction,
)
from spark_kafkawire.clients.writing.modern.transactional.write_state import (
    BatchId,
    OffsetAndMetadata,
    attempt_id,
    task_group,
)
from spark_kafkawire.cluster.modern.transactions import Transaction

PREFIX: Final = "x"
#: A row of 1 byte, its content, and its topic with an id.
WRITTEN: Final = (1, 1, 1, (("t", "1"),))
TASKS: Final = (0, 1)
#: Runs that are looked at, and after how many one must succeed, where one thing went wrong.
RUNS_MAX: Final = 4
RUNS_ENOUGH: Final = 2
_PRODUCER_ID: Final = 7
_WORKING: Final = frozenset(
    (
        TaskStep.INIT_PRODUCER_ID,
        TaskStep.CHECK_DRIVER,
        TaskStep.READ,
        TaskStep.WRITE,
        TaskStep.COMMIT_OFFSET,
        TaskStep.COMPARE,
    )
)
#: States of ids that a sweep fences.
_SWEPT: Final = ("Empty", "Ongoing", "CompleteAbort")
_OVER: Final = frozenset((DriverStep.DONE, DriverStep.ABORTED, DriverStep.FAILED))

#: A row: its batch, its task, and the run that sent it.
Row = tuple[str, int, int]
_QUERY: Final = "q"


class Fault(AssertionError):
    """A world that must not be."""


@dataclass(frozen=True, slots=True)
class Open:
    """State of a transactional id in a broker. ``state`` is Kafka's."""

    epoch: int = 0
    state: str = "Empty"
    rows: tuple[Row, ...] = ()
    held: tuple[tuple[str, OffsetAndMetadata], ...] = ()

    def begun(self) -> Open:
        return Open(self.epoch + 1)


@dataclass(frozen=True, slots=True)
class Brokers:
    """A cluster that speaks one protocol of transactions. ``visible`` are the rows that are committed."""

    version: int
    ids: tuple[tuple[str, Open], ...] = ()
    groups: tuple[tuple[str, OffsetAndMetadata], ...] = ()
    visible: tuple[Row, ...] = ()

    def of(self, id_: str) -> Open | None:
        return dict(self.ids).get(id_)

    def with_id(self, id_: str, known: Open) -> Brokers:
        return replace(
            self, ids=tuple(sorted({**dict(self.ids), id_: known}.items(), key=lambda item: item[0]))
        )

    def answer(self, request: Request) -> tuple[Brokers, Answer] | None:
        """Brokers and answer after a request; None if it is answered later, once markers are written."""
        match request:
            case InitProducerId(id_):
                known = self.of(id_)
                if known is not None and known.state == "PrepareCommit":
                    return None
                begun = Open() if known is None else known.begun()
                return self.with_id(id_, begun), Transaction(id_, _PRODUCER_ID, begun.epoch, self.version)
            case FetchOffsets(group, is_stable):
                return self._read(group, is_stable)
            case CommitOffset(transaction, group, (record,)):
                return self._added(transaction, held=((group, record),))
            case IsOngoing(transaction):
                known = self.of(transaction.id)
                return self, known is not None and (known.state, known.epoch) == (
                    "Ongoing",
                    transaction.epoch,
                )
            case AwaitCompletion(transaction):
                known = self.of(transaction.id)
                assert known is not None
                if known.state == "PrepareCommit":
                    return None
                return self, None
            case EndTransaction(transaction, committed):
                return self._ended(transaction, committed)
            case FenceIfCurrent(transaction):
                return self._give_up(transaction)
            case IsDriverWaiting(driver):
                known = self.of(driver.id)
                assert known is not None
                return self, (known.state, known.epoch) == ("Empty", driver.epoch)
        raise AssertionError(request)

    def wrote(self, transaction: Transaction, row: Row) -> tuple[Brokers, Answer] | None:
        return self._added(transaction, rows=(row,))

    def _read(self, group: str, is_stable: bool) -> tuple[Brokers, Answer] | None:
        for _, known in self.ids:
            if is_stable and any(name == group for name, _ in known.held):
                if known.state == "PrepareCommit":
                    return None
                if known.state == "Ongoing":
                    return self, Refused(TransactionOutcome.UNKNOWN, "unstable")
        return self, tuple(record for name, record in self.groups if name == group)

    def _added(
        self,
        transaction: Transaction,
        rows: tuple[Row, ...] = (),
        held: tuple[tuple[str, OffsetAndMetadata], ...] = (),
    ) -> tuple[Brokers, Answer] | None:
        known = self.of(transaction.id)
        assert known is not None
        if known.epoch != transaction.epoch:
            return self, Refused(TransactionOutcome.FENCED, "fenced")
        if known.state == "PrepareCommit":
            return None
        before = known if known.state == "Ongoing" else Open(known.epoch)
        added = Open(known.epoch, "Ongoing", before.rows + rows, before.held + held)
        return self.with_id(transaction.id, added), None

    def _ended(self, transaction: Transaction, committed: bool) -> tuple[Brokers, Answer] | None:
        known = self.of(transaction.id)
        assert known is not None
        ends = "Commit" if committed else "Abort"
        is_repeated = known.state in (f"Prepare{ends}", f"Complete{ends}")
        rises = self.version - 1
        if is_repeated and known.epoch == transaction.epoch + rises:
            if known.state == "PrepareCommit":
                return None
            return self, replace(transaction, epoch=known.epoch)
        if known.epoch != transaction.epoch:
            return self, Refused(TransactionOutcome.FENCED, "fenced")
        if known.state != "Ongoing":
            return self, Refused(TransactionOutcome.GONE, "invalid state")
        after = replace(known, state=f"Prepare{ends}", epoch=known.epoch + rises)
        brokers = self.with_id(transaction.id, after)
        if committed:
            # Readers see the rows a little later than here, and never without what was decided.
            brokers = replace(brokers, visible=tuple(sorted((*self.visible, *known.rows))))
        else:
            brokers = brokers.completed(transaction.id)
        return brokers, replace(transaction, epoch=after.epoch)

    def _give_up(self, transaction: Transaction) -> tuple[Brokers, Answer] | None:
        known = self.of(transaction.id)
        assert known is not None
        if known.state == "PrepareCommit":
            return None
        if known.epoch != transaction.epoch:
            return self, Refused(TransactionOutcome.FENCED, "fenced")
        return self.with_id(transaction.id, known.begun()), None

    def swept(self) -> Brokers:
        """After the ids of all attempts were fenced, but for those that were committed."""
        brokers = self
        for id_, known in self.ids:
            if known.state in _SWEPT and not id_.endswith("driver"):
                brokers = brokers.with_id(id_, known.begun())
        return brokers

    def completed(self, id_: str) -> Brokers:
        """The markers of a transaction that was ended are written."""
        known = self.of(id_)
        assert known is not None
        state = known.state.replace("Prepare", "Complete")
        brokers = self.with_id(id_, Open(known.epoch, state))
        if state == "CompleteCommit":
            groups = {**dict(self.groups), **dict(known.held)}
            brokers = replace(brokers, groups=tuple(sorted(groups.items())))
        return brokers

    def timed_out(self, id_: str) -> Brokers:
        known = self.of(id_)
        assert known is not None
        return self.with_id(id_, Open(known.epoch + 1, "CompleteAbort"))


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt of a task of a run."""

    run: int
    task: int
    number: int
    machine: TaskTransaction


@dataclass(frozen=True, slots=True)
class World:
    """All there is. ``winners`` are the tasks of the run that is on whose attempts told Spark, with what they
    told; ``ends`` how each run ended: done, aborted, failed, or died; of a stream each batch is one. Tasks
    have no rows of a batch where ``empty`` says so."""

    brokers: Brokers
    batches: tuple[str, ...]
    is_stream: bool
    driver: DriverTransaction | None
    empty: frozenset[tuple[str, int]] = frozenset()
    attempts: tuple[Attempt, ...] = ()
    winners: tuple[tuple[int, Transaction | None], ...] = ()
    ends: tuple[str, ...] = ()
    #: What may still happen: crashes, attempts beside others, and timeouts of transactions.
    crashes: int = 0
    twins: int = 0
    timeouts: int = 0
    has_timed_out: bool = False
    phase: str = "open"
    #: Runs before this one are over, and the ids of their attempts fenced.
    swept: int = 0

    @property
    def run(self) -> int:
        return len(self.ends)

    @property
    def done_count(self) -> int:
        """Batches of a stream that Spark has noted to be done."""
        return self.ends.count("done") if self.is_stream else 0

    @property
    def number(self) -> int:
        """The place of the batch that the run is of."""
        return min(self.done_count if self.is_stream else self.run, len(self.batches) - 1)

    @property
    def batch(self) -> BatchId:
        if self.is_stream:
            return BatchId(_QUERY, self.number, is_stream=True)
        return BatchId(self.batches[self.number])

    @property
    def attempts_name(self) -> str:
        """Name part of the ids of the run's attempts: that of a stream changes when a run failed."""
        if not self.is_stream:
            return f"{self.run}"
        begun = self.run - self.done_count + (self.done_count >= len(self.batches))
        return f"{begun}.{self.number % 2}"

    def tasks_of(self, batch: str) -> set[int]:
        """Tasks that have rows of the batch."""
        return {task for task in TASKS if (batch, task) not in self.empty}

    def steps(self) -> Iterator[tuple[str, World]]:
        """Everything that can happen next."""
        yield from self._of_brokers()
        for index, attempt in enumerate(self.attempts):
            yield from self._of_attempt(index, attempt)
        if self.driver is not None:
            yield from self._of_driver(self.driver)
            yield from self._of_spark(self.driver)
        elif self.crashes:
            forgetful = replace(self, crashes=self.crashes - 1)
            yield "Spark forgets that it is done", forgetful._again()

    def _of_brokers(self) -> Iterator[tuple[str, World]]:
        for id_, known in self.brokers.ids:
            if known.state == "PrepareCommit":
                yield f"markers of {id_}", replace(self, brokers=self.brokers.completed(id_))
            if self.timeouts and known.state == "Ongoing" and not id_.endswith("driver"):
                late = replace(self, timeouts=self.timeouts - 1, has_timed_out=True)
                yield f"{id_} times out", replace(late, brokers=self.brokers.timed_out(id_))

    def _of_attempt(self, index: int, attempt: Attempt) -> Iterator[tuple[str, World]]:
        machine, name = attempt.machine, f"run {attempt.run} task {attempt.task}.{attempt.number}"
        batch = self.batches[machine.batch.number] if self.is_stream else machine.batch.name
        row = (batch, attempt.task, attempt.run)
        if machine.step is TaskStep.WRITE:
            assert machine.transaction is not None
            wrote = self.brokers.wrote(machine.transaction, row)
            assert wrote is not None
            brokers, refused = wrote
            after = machine.fail("fenced") if refused else machine.wrote(*WRITTEN)
            yield f"{name} writes", self._moved(index, after, brokers)
        elif machine.step is TaskStep.COMPARE:
            yield f"{name} compares", self._moved(index, machine.wrote(*WRITTEN), self.brokers)
        elif (request := machine.request()) is not None:
            answered = self.brokers.answer(request)
            if answered is not None:
                brokers, answer = answered
                yield (
                    f"{name} {type(request).__name__}",
                    self._moved(index, machine.answered(answer), brokers),
                )
        if self.crashes and machine.step in _WORKING and attempt.run == self.run:
            crashed = replace(self, crashes=self.crashes - 1)
            yield f"{name} crashes", crashed._failed(index)

    def _moved(self, index: int, machine: TaskTransaction, brokers: Brokers) -> World:
        attempt = replace(self.attempts[index], machine=machine)
        attempts = (*self.attempts[:index], attempt, *self.attempts[index + 1 :])
        moved = replace(self, brokers=brokers, attempts=attempts)
        if machine.step is TaskStep.FAILED:
            return moved._failed(index)
        if machine.step is TaskStep.DONE:
            return moved._reported(index, attempt)
        return moved

    def _failed(self, index: int) -> World:
        """An attempt is gone; Spark begins another one where none is left, twice in all."""
        attempt = self.attempts[index]
        left = (*self.attempts[:index], *self.attempts[index + 1 :])
        world = replace(self, attempts=left)
        needs = attempt.run == self.run and self.phase == "tasks" and attempt.task not in dict(self.winners)
        if needs and not any((item.run, item.task) == (self.run, attempt.task) for item in left):
            if attempt.number < 2:
                return world._with_attempt(attempt.task, attempt.number + 1)
            return world._aborting()
        return world

    def _reported(self, index: int, attempt: Attempt) -> World:
        """An attempt is done; the first of its task counts."""
        left = (*self.attempts[:index], *self.attempts[index + 1 :])
        world = replace(self, attempts=left)
        if attempt.run != self.run or self.phase != "tasks" or attempt.task in dict(self.winners):
            return world
        winners = (*self.winners, (attempt.task, attempt.machine.transaction))
        return replace(world, winners=tuple(sorted(winners, key=lambda item: item[0])))

    def _with_attempt(self, task: int, number: int) -> World:
        driver = self.driver
        assert driver is not None
        assert driver.transaction is not None
        knows = self.batch, driver.transaction, driver.may_be_committed(self.batch), driver.next_serial
        machine = _machine(self.attempts_name, task, number, *knows)
        return replace(self, attempts=(*self.attempts, Attempt(self.run, task, number, machine)))

    def _of_driver(self, driver: DriverTransaction) -> Iterator[tuple[str, World]]:
        for request in driver.requests():
            answered = self.brokers.answer(request)
            if answered is not None:
                brokers, answer = answered
                after = driver.answered(request, answer)
                world = replace(self, brokers=brokers, driver=after)
                yield f"run {self.run} driver {type(request).__name__}", world._after_driver(after)
        if self.crashes:
            died = replace(self, crashes=self.crashes - 1)
            yield f"run {self.run} driver dies", died._ended("died")

    def _after_driver(self, driver: DriverTransaction) -> World:
        if self.phase == "open":
            if driver.step is DriverStep.FAILED:
                return self._ended("failed")
            if driver.step is DriverStep.READY:
                return self._with_tasks()
        elif self.phase == "taking over" and driver.step is DriverStep.READY:
            after = driver.commit(self._write())
            return replace(self, phase="commit", driver=after)._after_commit(after)
        elif self.phase in ("commit", "taking over"):
            if driver.step is DriverStep.DONE:
                return self._ended("done")
            if driver.step in _OVER:
                return self._aborting()
        elif self.phase == "abort" and driver.step in _OVER:
            return self._ended(
                driver.step.name.lower() if driver.step is not DriverStep.DONE else "done late"
            )
        return self

    def _swept(self, runs: int) -> World:
        return replace(self, brokers=self.brokers.swept(), swept=runs)

    def _with_tasks(self) -> World:
        world = replace(self, phase="tasks", winners=())
        if not self.is_stream:  # which may have tasks that wait to be committed
            world = world._swept(self.run)
        for task in TASKS:
            if task in self.tasks_of(self.batches[self.number]):
                world = world._with_attempt(task, 0)
            else:
                world = replace(world, winners=(*world.winners, (task, None)))
        return world

    def _of_spark(self, driver: DriverTransaction) -> Iterator[tuple[str, World]]:
        if self.phase != "tasks":
            return
        if len(self.winners) == len(TASKS):
            if self.is_stream:
                yield "commit", replace(self, phase="taking over", driver=DriverTransaction.begin(PREFIX))
            else:
                after = driver.commit(self._write())
                yield "commit", replace(self, phase="commit", driver=after)._after_commit(after)
        if self.twins and 0 not in dict(self.winners):
            yield "a twin of task 0", replace(self, twins=self.twins - 1)._with_attempt(0, 1)

    def _after_commit(self, driver: DriverTransaction) -> World:
        return self._ended("done") if driver.step is DriverStep.DONE else self._after_driver(driver)

    def _write(self) -> WriteSummary:
        open_ = tuple(item for _, item in self.winners if item is not None)
        return WriteSummary(self.batch, len(TASKS), self._busy(), open_, ("t",))

    def _busy(self) -> int:
        with_rows = self.tasks_of(self.batches[self.number])
        return sum(1 for task, _ in self.winners if task in with_rows)

    def _aborting(self) -> World:
        """Spark calls abort in another process, which knows what the first one knew when it was planned."""
        assert self.driver is not None
        begun = self.driver.transaction if not self.is_stream else None
        first = replace(DriverTransaction.begin(PREFIX), transaction=begun, last=None)
        return replace(self, phase="abort", driver=first.abort(self._write()))

    def _ended(self, how: str) -> World:
        ended = replace(self, ends=(*self.ends, how), driver=None, winners=(), phase="open")
        if how in ("done", "done late", "aborted"):
            ended = ended._swept(ended.run)
        ended.check_end(self.batches[self.number])
        is_over = ended.done_count if self.is_stream else ended.run
        if how in ("done", "done late")[: 1 if self.is_stream else 2] and is_over >= len(self.batches):
            return ended
        return ended._again()

    def _again(self) -> World:
        """The next run, of the next batch where the one before may be given up, else of the same."""
        return replace(self, driver=DriverTransaction.begin(PREFIX))

    def check(self) -> None:
        """Raise ``Fault`` if what must always hold does not."""
        kinds = [row[:2] for row in self.brokers.visible]
        if len(set(kinds)) < len(kinds):
            raise Fault(f"a row is there twice: {self.brokers.visible}")
        aborted = {run for run, how in enumerate(self.ends) if how == "aborted"}
        if any(run in aborted for _, _, run in self.brokers.visible):
            raise Fault(f"a row of a write that was given up is there: {self.brokers.visible}")
        for id_, known in self.brokers.ids:
            if known.state == "Ongoing" and any(run < self.swept for _, _, run in known.rows):
                raise Fault(f"readers wait for {id_}, which no attempt ends: {known.rows}")

    def check_end(self, batch: str) -> None:
        """Raise ``Fault`` if what must hold after a run of a batch does not."""
        run, how = self.run - 1, self.ends[-1]
        is_done = how in ("done", "done late")
        tasks = {item: {row[1] for row in self.brokers.visible if row[0] == item} for item in self.batches}
        if is_done and tasks[batch] != self.tasks_of(batch):
            raise Fault(f"run {run} is done, and of its rows only {self.brokers.visible} are there")
        # What was decided and then timed out stays in part until the same batch is written again: others are
        # refused so long.
        is_refused = how == "aborted" and self.has_timed_out
        if self.run - self.done_count > RUNS_ENOUGH and not is_done and not is_refused:
            raise Fault(f"run {run} is not done either: {', '.join(self.ends)}")
        if run and (is_done or how == "aborted") and not is_refused:
            for item, there in tasks.items():
                if there and there != self.tasks_of(item):
                    raise Fault(f"run {run} has ended, and a part of {item} is there: {self.brokers.visible}")


def _machine(
    run: str, task: int, number: int, batch: BatchId, driver: Transaction, may_be_committed: bool, serial: int
) -> TaskTransaction:
    names = attempt_id(PREFIX, task, f"{run}.{number}"), task_group(PREFIX, task)
    return TaskTransaction(*names, batch, driver, may_be_committed, serial=serial)


def explore(begin: World, worlds_max: int = 400_000) -> int:
    """Visit every world that can be reached; how many there are. Raises ``Fault`` with the way there."""
    came_from: dict[World, tuple[World, str] | None] = {begin: None}
    waiting = [begin]
    runs_max = RUNS_MAX + (len(begin.batches) - 1 if begin.is_stream else 0)
    while waiting:
        world = waiting.pop()
        try:
            world.check()
            steps = list(world.steps())
        except Fault as fault:
            raise Fault(f"{fault}, by: {'; '.join(_way(world, came_from))}") from None
        if not steps and (world.driver is not None or world.run > runs_max):
            raise Fault(f"nothing goes on in {world.phase}, by: {'; '.join(_way(world, came_from))}")
        for step, after in steps:
            if after not in came_from and after.run <= runs_max:
                came_from[after] = world, step
                waiting.append(after)
        assert len(came_from) < worlds_max, "more worlds than the test is for"
    return len(came_from)


def _way(world: World, came_from: dict[World, tuple[World, str] | None]) -> list[str]:
    steps: list[str] = []
    while (before := came_from[world]) is not None:
        world, step = before
        steps.append(step)
    return steps[::-1]
