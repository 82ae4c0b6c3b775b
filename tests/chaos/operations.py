"""Operations on a cluster through a proxy: a read or a write each, judged when it has ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

import pyarrow as pa

from spark_kafkawire.net.pool import POOL

from . import reading, v07_operations, writing
from .faults import NO_FAULTS, Plan
from .frames import Spoken
from .ledger import Promise
from .operation import SECRET, Ended, Outcome, Seed, attempt
from .proxy import HOST, Proxy, Upstream
from .truth import Row, Truth, difference
from .v07_operations import Addresses

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


class Operations(Protocol):
    """Operations on a cluster, through a proxy with the faults of a plan."""

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
        """Description of what is wrong with rows that came late; None if nothing is."""
        with self._judge:
            return self._judge.ledger.recheck(self._judge.found())

    def _connecting(self, chance: Any) -> Callable[[Proxy], reading.Options]:
        """Connection options: now and then with a login, if the cluster has a listener for that."""
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
        """Description of what is wrong with rows that came late; None if nothing is."""
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


def operations_on(target: Target, topic: str) -> Operations:
    """Operations that a cluster supports; writes go to the topic."""
    return V07Operations(target, topic) if target.logs_in else ModernOperations(target, topic)
