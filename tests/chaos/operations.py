"""Operations on a cluster through a proxy: a read or a write each, judged when it has ended.

Each has a proxy of its own, on ports that nobody has used, so that nothing but the process's kernels is
left over from the one before.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from spark_kafkawire.errors import KafkaWireError
from spark_kafkawire.net.pool import POOL
from spark_kafkawire.protocol.modern import DIALECT

from . import reading, v07, writing
from .frames import Spoken
from .operation import EXACT, SECRET, attempt
from .proxy import HOST, NO_FAULTS, Plan, Proxy, Upstream
from .truth import Ledger, Truth, difference

T = TypeVar("T")
#: Every so many operations one is a write.
WRITE_EVERY: Final = 3
#: Operations without faults at a worker's start, which tell the versions that are spoken.
_CALM: Final = 24
#: The deadlines of operations, and what they are without faults.
_DEADLINES: Final = {"kafkaConsumer.pollTimeoutMs", *writing.QUICK} - {"retryBackoff"}
_LONG: Final = "60000"


@dataclass(frozen=True, slots=True)
class Target:
    """A cluster, and what its logs hold. Plain data that travels to the workers.

    ``servers`` is its address without a proxy. ``logs_in`` are the folders of brokers of Kafka 0.7 by id;
    what is there is written to ``topics``, one of each worker.
    """

    kind: str
    upstreams: tuple[Upstream, ...]
    truth: Truth
    topics: tuple[str, ...]
    servers: str = ""
    logs_in: Mapping[int, Path] | None = None


@contextmanager
def on_cluster(target: Target, seed: int, index: int) -> Iterator[Operations]:
    """Operations of one worker, which writes to a topic of its own."""
    operations = Operations(target, target.topics[index], seed)
    operations.learn_versions(range(-1 - index, -1 - index - _CALM * len(target.topics), -len(target.topics)))
    yield operations
    operations.close()


class Operations:
    """Reads and writes of a cluster by number, each with the faults that belong to it."""

    def __init__(self, target: Target, topic: str, seed: int) -> None:
        self._target, self._topic, self._seed = target, topic, seed
        self._ledger: Ledger = Ledger()
        self._reader: Any = (
            v07.FileReader(target.logs_in, topic)
            if target.logs_in
            else writing.LogReader(target.servers, topic)
        )
        #: The lowest version of each API that operations without faults speak.
        self.lowest: dict[int, int] = {}

    def __call__(self, number: int) -> Counter[str]:
        """Do one of them."""
        plan = Plan.drawn(self._text(number))
        return (self.write if is_a_write(number) else self.read)(number, plan)

    def _text(self, number: int) -> str:
        return f"{self._seed} {self._target.kind} {number}"

    def chance(self, number: int) -> random.Random:
        """Source of all that an operation draws besides its faults."""
        return random.Random(f"{self._text(number)} operation")

    def learn_versions(self, numbers: range) -> None:
        """Do operations without faults, which no other operation has the numbers of."""
        for number in numbers:
            result = (self.write if is_a_write(number) else self.read)(number, NO_FAULTS)
            assert any(EXACT in outcome for outcome in result), f"without any fault {number} ends in {result}"

    def read(self, number: int, plan: Plan) -> Counter[str]:
        """One read, whose rows are the truth's or which fails."""
        chance = self.chance(number)
        with Proxy(self._target.upstreams, plan) as proxy:
            finding, is_07 = self._finding(chance, proxy), bool(self._target.logs_in)
            drawn = reading.draw(chance, self._target.truth, finding, is_07=is_07)
            ended = self._done(lambda: reading.read(_given(plan, drawn.options)))
        if not isinstance(ended, KafkaWireError):
            fault = difference(ended, drawn.expected)
            assert fault is None, f"a read: {fault}"
        return self._counted("read", ended, proxy, plan)

    def write(self, number: int, plan: Plan) -> Counter[str]:
        """One write, after which the log has what it promised."""
        chance = self.chance(number)
        with Proxy(self._target.upstreams, plan) as proxy:
            draw = v07.draw_write if self._target.logs_in else writing.draw
            drawn = draw(chance, self._topic, number, self._finding(chance, proxy))
            self._ledger.begin(number, drawn.rows, drawn.logs)
            ended = self._done(lambda: writing.write(_given(plan, drawn.options), drawn.batches))
        has_failed = isinstance(ended, KafkaWireError)
        self._ledger.end(number, drawn.error if has_failed else drawn.success)
        fault = self._ledger.judge(self._reader.found(), number)
        assert fault is None, fault
        assert has_failed or ended == len(drawn.rows), f"receipts tell of {ended} rows: {len(drawn.rows)}"
        return self._counted("write", ended, proxy, plan)

    def close(self) -> None:
        """Look at rows that came late."""
        fault = self._ledger.judge(self._reader.found())
        assert fault is None, fault

    def _done(self, call: Callable[[], T]) -> T | KafkaWireError:
        ended = attempt(call)
        POOL.close_idle()
        return ended

    def _finding(self, chance: random.Random, proxy: Proxy) -> reading.Options:
        """Options by which the proxies are found: now and then with a login, where it has a listener."""
        if self._target.logs_in:
            brokers = {broker: proxy.port(f"broker {broker}") for broker in self._target.logs_in}
            return v07.finding(chance, proxy.port("zookeeper"), brokers)
        logs_in = any(item.name == "sasl" for item in self._target.upstreams) and chance.random() < 0.2
        login = _login(*chance.choice(_MECHANISMS)) if logs_in else {}
        return {"kafka.bootstrap.servers": f"{HOST}:{proxy.port('sasl' if logs_in else 'broker')}", **login}

    def _counted(self, what: str, ended: object, proxy: Proxy, plan: Plan) -> Counter[str]:
        """Outcomes of an operation. Raises if a modern broker was spoken to as an older one."""
        if plan is NO_FAULTS:
            for key, version in proxy.spoken:
                self.lowest[key] = min(version, self.lowest.get(key, version))
        fault = version_fault(proxy.spoken, self.lowest)
        assert fault is None, fault
        how = type(ended).__name__ if isinstance(ended, KafkaWireError) else EXACT
        broken = {f"connections {kind.name.lower()}": count for kind, count in proxy.broken.items()}
        return Counter({f"{what}s {how}": 1, "connections": proxy.made, **broken})


_MECHANISMS: Final = (("PLAIN", "plain.PlainLoginModule"), ("SCRAM-SHA-512", "scram.ScramLoginModule"))


def _login(mechanism: str, module: str) -> reading.Options:
    return {
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": mechanism,
        "kafka.sasl.jaas.config": f"org.apache.kafka.common.security.{module} required "
        f'username="alice" password="{SECRET}";',
    }


def is_a_write(number: int) -> bool:
    """True if operation ``number`` is a write, False if it is a read."""
    return number % WRITE_EVERY == WRITE_EVERY - 1


def _given(plan: Plan, options: reading.Options) -> reading.Options:
    """The options of an operation; one without faults must succeed, however busy the machine is."""
    return options | dict.fromkeys(_DEADLINES & options.keys(), _LONG) if plan is NO_FAULTS else options


def version_fault(spoken: Spoken, lowest: Mapping[int, int]) -> str | None:
    """Report of APIs that were spoken in versions below the lowest of operations without faults; None
    if none was."""
    names = {api.key: api.name for api in DIALECT.apis}
    fallen = [
        f"{names.get(key, key)} in version {version} instead of {lowest[key]}"
        for key, version in sorted(spoken)
        if version < lowest.get(key, version)
    ]
    return f"a modern broker was spoken to as an older one: {', '.join(fallen)}" if fallen else None
