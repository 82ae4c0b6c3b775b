"""One process of the chaos: does the operations that fall to it, one after the other.

Each has a proxy of its own, on ports that nobody has used, so that nothing but the process's kernels is
left over from the one before.
"""

from __future__ import annotations

import faulthandler
import itertools
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from multiprocessing import Queue
from pathlib import Path
from typing import Any, Final, Protocol

import pyarrow as pa

from spark_kafkawire.net.pool import POOL
from spark_kafkawire.protocol.modern import DIALECT

from . import reading, v07_operations, writing
from .faults import NO_FAULTS, Plan
from .frames import Spoken
from .ledger import Promise
from .operation import EXACT, HANG_S, SECRET, Ended, Outcome, Seed, attempt
from .proxy import HOST, Proxy, Upstream
from .truth import Row, Truth, difference
from .v07_operations import Addresses

#: Every so many operations one is a write.
WRITE_EVERY: Final = 3
#: Operations without faults at a worker's start, which tell the versions that are spoken.
_CALM: Final = 24
#: The deadlines of operations, and what they are without faults.
_DEADLINES: Final = (reading.QUICK.keys() | writing.QUICK.keys()) - {"retryBackoff"}
_LONG: Final = "60000"
_LOGIN: Final = {
    "kafka.security.protocol": "SASL_PLAINTEXT",
    "kafka.sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required "
    f'username="alice" password="{SECRET}";',
}


@dataclass(frozen=True, slots=True)
class Target:
    """A cluster, and what its logs hold. Plain data that travels to the workers.

    ``servers`` is its address without a proxy. ``logs_in`` are folders by upstream, of Kafka 0.7 alone;
    what is there is written to ``topics``, one of each worker.
    """

    kind: str
    upstreams: tuple[Upstream, ...]
    truth: Truth
    topics: tuple[str, ...]
    servers: str = ""
    logs_in: Mapping[str, Path] | None = None


@dataclass(frozen=True, slots=True)
class Work:
    """What a worker does: the operations from ``index`` on, each ``step``-th, or those of ``only``."""

    seed: str
    index: int
    step: int
    reads: int
    writes: int
    until_s: float
    only: tuple[int, ...] = ()

    def numbers(self) -> Iterator[int]:
        """The numbers of operations that are due, until time is over."""
        for number in self.only or itertools.count(self.index, self.step):
            is_write = is_a_write(number)
            place = number // WRITE_EVERY if is_write else number - number // WRITE_EVERY
            if time.monotonic() >= self.until_s:
                return
            if not self.only and number // WRITE_EVERY >= max(self.writes, self.reads):
                return
            if place < (self.writes if is_write else self.reads):
                yield number


def is_a_write(number: int) -> bool:
    """Whether operation ``number`` is a write, or a read."""
    return number % WRITE_EVERY == WRITE_EVERY - 1


class Operations(Protocol):
    """What is done to a cluster, through a proxy with the faults of a plan."""

    def read(self, seed: Seed, plan: Plan) -> tuple[Outcome, Spoken]: ...

    def write(self, seed: Seed, plan: Plan) -> tuple[Outcome, Spoken]: ...

    def last_look(self) -> str | None: ...


class ModernOperations:
    """Reads and writes of a broker from 0.8 on."""

    def __init__(self, target: Target, topic: str) -> None:
        self._target, self._topic = target, topic
        self._judge = writing.Judge(target.servers, topic)

    def read(self, seed: Seed, plan: Plan) -> tuple[Outcome, Spoken]:
        """One read, whose rows are the truth's or which fails."""
        chance = seed.chance()
        drawn = reading.draw(chance, self._target.truth)
        how = self._connecting(chance)
        ended, proxy = _through(
            self._target, plan, lambda proxy: reading.read(_given(plan, drawn.options, how(proxy)))
        )
        return _outcome(seed, "read", ended, proxy, _rows_fault(ended, drawn.expected)), proxy.spoken

    def write(self, seed: Seed, plan: Plan) -> tuple[Outcome, Spoken]:
        """One write, after which the log has what it promised."""
        chance = seed.chance()
        drawn = writing.draw(chance, self._topic, seed.number)
        how = self._connecting(chance)
        self._judge.ledger.begin(seed.number, drawn.rows, drawn.logs)
        ended, proxy = _through(
            self._target,
            plan,
            lambda proxy: writing.write(_given(plan, drawn.options, how(proxy)), drawn.batches),
        )
        fault = _written_fault(ended, len(drawn.rows))
        self._judge.ledger.end(seed.number, _promise(ended, drawn.success, drawn.error))
        fault = fault or self._judge.ledger.judge(seed.number, self._judge.found())
        return _outcome(seed, "write", ended, proxy, fault), proxy.spoken

    def last_look(self) -> str | None:
        """What came late, and what is wrong with it."""
        with self._judge:
            return self._judge.ledger.recheck(self._judge.found())

    def _connecting(self, chance: Any) -> Callable[[Proxy], reading.Options]:
        """How to connect: with a login, where there is a listener for that, now and then."""
        names = [upstream.name for upstream in self._target.upstreams]
        logs_in = "sasl" in names and chance.random() < 0.2
        mechanism = chance.choice(("PLAIN", "SCRAM-SHA-512"))
        login = dict(_LOGIN) | {"kafka.sasl.mechanism": mechanism} if logs_in else {}
        if logs_in and mechanism != "PLAIN":
            login["kafka.sasl.jaas.config"] = login["kafka.sasl.jaas.config"].replace(
                "plain.PlainLoginModule", "scram.ScramLoginModule"
            )
        name = "sasl" if logs_in else "broker"
        return lambda proxy: {"kafka.bootstrap.servers": f"{HOST}:{proxy.port(name)}", **login}


class V07Operations:
    """Reads and writes of Kafka 0.7."""

    def __init__(self, target: Target, topic: str) -> None:
        assert target.logs_in is not None
        self._target, self._topic = target, topic
        folders = {_broker(name): folder for name, folder in target.logs_in.items()}
        self._judge = v07_operations.Judge(folders, topic)

    def read(self, seed: Seed, plan: Plan) -> tuple[Outcome, Spoken]:
        """One read, whose rows are the truth's or which fails."""
        expected: list[Row] = []

        def read(proxy: Proxy) -> list[Row]:
            drawn = v07_operations.draw_read(
                seed.chance(), self._target.truth, _addresses(proxy, self._target)
            )
            expected.extend(drawn.expected)
            return reading.read(_given(plan, drawn.options))

        ended, proxy = _through(self._target, plan, read)
        return _outcome(seed, "read", ended, proxy, _rows_fault(ended, expected)), proxy.spoken

    def write(self, seed: Seed, plan: Plan) -> tuple[Outcome, Spoken]:
        """One write, after which the logs have what it promised."""
        promises: list[Promise] = []
        counts: list[int] = []

        def write(proxy: Proxy) -> int:
            addresses = _addresses(proxy, self._target)
            drawn = v07_operations.draw_write(seed.chance(), self._topic, seed.number, addresses)
            self._judge.ledger.begin(seed.number, drawn.rows, drawn.logs)
            promises.extend((drawn.success, drawn.error))
            counts.append(len(drawn.rows))
            batches: Sequence[pa.RecordBatch] = drawn.batches
            return writing.write(_given(plan, drawn.options), batches, v07_operations.SCHEMA)

        ended, proxy = _through(self._target, plan, write)
        fault = _written_fault(ended, counts[0])
        self._judge.ledger.end(seed.number, _promise(ended, promises[0], promises[1]))
        fault = fault or self._judge.ledger.judge(seed.number, self._judge.found())
        return _outcome(seed, "write", ended, proxy, fault), proxy.spoken

    def last_look(self) -> str | None:
        """What came late, and what is wrong with it."""
        return self._judge.ledger.recheck(self._judge.found())


def _given(plan: Plan, *parts: reading.Options) -> reading.Options:
    """The options of an operation; one without faults must succeed, however busy the machine is."""
    options = {name: value for part in parts for name, value in part.items()}
    return options | dict.fromkeys(_DEADLINES & options.keys(), _LONG) if plan is NO_FAULTS else options


def _broker(upstream: str) -> int:
    return int(upstream.removeprefix("broker "))


def _addresses(proxy: Proxy, target: Target) -> Addresses:
    assert target.logs_in is not None
    brokers = {_broker(name): proxy.port(name) for name in target.logs_in}
    return Addresses(proxy.port("zookeeper"), brokers)


def _through(target: Target, plan: Plan, call: Callable[[Proxy], object]) -> tuple[Ended, Proxy]:
    with Proxy(target.upstreams, plan) as proxy:
        ended = attempt(lambda: call(proxy))
        POOL.close_idle()
    return ended, proxy


def _rows_fault(ended: Ended, expected: list[Row]) -> str | None:
    if ended.failure or ended.error is not None:
        return ended.failure
    assert isinstance(ended.result, list)
    return difference(ended.result, expected)


def _written_fault(ended: Ended, count: int) -> str | None:
    if ended.failure or ended.error is not None or ended.result == count:
        return ended.failure
    return f"receipts tell of {ended.result} rows instead of {count}"


def _promise(ended: Ended, success: Promise, error: Promise) -> Promise:
    return success if ended.error is None and not ended.failure else error


def _outcome(seed: Seed, what: str, ended: Ended, proxy: Proxy, fault: str | None) -> Outcome:
    return Outcome(
        seed.number, what, ended.name, failure=fault, made=proxy.made, broken=Counter(proxy.broken)
    )


def run(target: Target, work: Work, told: Queue[Outcome | None], at: Any) -> None:
    """Do the work; tell of each operation. ``at`` holds the number of the one under way, of each worker."""
    # What retries log is not judged, and there are thousands of lines of it.
    logging.disable(logging.CRITICAL)
    kind: type[ModernOperations] | type[V07Operations] = V07Operations if target.logs_in else ModernOperations
    operations: Operations = kind(target, target.topics[work.index % len(target.topics)])
    lowest = _versions_without_faults(operations, work, target.kind)
    number = -1
    for number in work.numbers():
        at[work.index] = number
        faulthandler.dump_traceback_later(HANG_S, exit=True)
        told.put(_done(operations, Seed(work.seed, target.kind, number), lowest))
        faulthandler.cancel_dump_traceback_later()
    if fault := operations.last_look():
        told.put(Outcome(number, "write", "late", failure=fault))
    told.put(None)


def _done(operations: Operations, seed: Seed, lowest: Mapping[int, int]) -> Outcome:
    began_s = time.monotonic()
    do = operations.write if is_a_write(seed.number) else operations.read
    outcome, spoken = do(seed, seed.plan)
    fallen = version_fault(spoken, lowest)
    return replace(outcome, failure=outcome.failure or fallen, seconds=time.monotonic() - began_s)


def _versions_without_faults(operations: Operations, work: Work, kind: str) -> dict[int, int]:
    """The lowest version of each API that operations without faults speak."""
    lowest: dict[int, int] = {}
    for number in range(_CALM):
        # Numbers that no operation has.
        seed = Seed(work.seed, kind, -1 - (number * work.step + work.index))
        do = operations.write if number % WRITE_EVERY == 0 else operations.read
        outcome, spoken = do(seed, NO_FAULTS)
        wrong = outcome.failure or (outcome.ended != EXACT and outcome.ended)
        assert not wrong, f"without any fault: {outcome.what} {seed}: {wrong}"
        for key, version in spoken:
            lowest[key] = min(version, lowest.get(key, version))
    return lowest


def version_fault(spoken: Spoken, lowest: Mapping[int, int]) -> str | None:
    """Which APIs were spoken in versions below the lowest of operations without faults."""
    names = {api.key: api.name for api in DIALECT.apis}
    fallen = [
        f"{names.get(key, key)} in version {version} instead of {lowest[key]}"
        for key, version in sorted(spoken)
        if version < lowest.get(key, version)
    ]
    return f"a modern broker was spoken to as an older one: {', '.join(fallen)}" if fallen else None
