"""Exactly-once writes whose drivers, workers and brokers are killed, and whose connections are cut, at all
steps: two foreign readers see each row once, and nothing of a write that was given up.

``KAFKAWIRE_EXACTLY_ONCE_RUNS=60`` is how many writes there are to one broker of each version by processes in
Spark's order, a quarter of that to three brokers, and again a quarter by Spark itself;
``KAFKAWIRE_EXACTLY_ONCE_SEED`` what is drawn for them. It prints where the faults struck (``pytest -s
-o faulthandler_timeout=0``). ``KAFKAWIRE_EXACTLY_ONCE_KILLS=100`` is how many drivers and workers of writes
to three brokers of two versions, which replicate everything, are killed.
Then the streams of ``tests.source.test_streams_killed`` on Apache Kafka.
"""

from __future__ import annotations

import contextlib
import enum
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.chaos.proxy import Upstream
from tests.support import stream_once
from tests.support.exactly_once import WAITING_MAX_S, await_readers, committed
from tests.support.polling import poll
from tests.support.write_process import ForkedWrites, SparkWrites, WriteProcess

from .apache_kafka import ApacheCluster, ApacheKafka
from .exchange_steps import Cut, Fault, Phase, Place, Stage, StagedProxy, Step
from .versions import NEWEST, needed_connector, needs_broker, newest_replicated

TOPIC: Final = "killed-writes"
#: Names that writes share: each finds what another one has left.
NAMES: Final = 3
_BASE: Final = {
    "topic": TOPIC,
    "delivery": "exactly-once",
    "kafka.transaction.timeout.ms": "60000",
    "requestTimeout": "6s",
    "brokerDownTimeout": "30s",
    # Rows are sent while there are more.
    "batchBytes": "100",
    "kafka.buffer.memory": "200",
}
#: Where the network is gone, that is noticed soon.
_IMPATIENT: Final = {
    "requestTimeout": "1500ms",
    "brokerDownTimeout": "1s",
    "kafka.delivery.timeout.ms": "3s",
    "kafka.max.block.ms": "3s",
}


class Kind(enum.Enum):
    """Kinds of faults."""

    DRIVER = "the driver is killed"
    WORKER = "a Python worker is killed"
    CUT = "a connection is cut"
    GONE = "all connections are cut, for a while or until the write has failed"
    BROKER = "the broker is killed and started again"
    MOVED = "the coordinator's broker is killed or stopped"
    LATE = "a request takes longer than the transaction may"
    FAILING = "tasks fail at random"


#: How often each strikes writes to one node, and to three; those that a real Spark does, and
#: those whose processes only are killed.
WEIGHTS: Final = {
    1: {Kind.DRIVER: 26, Kind.WORKER: 18, Kind.CUT: 18, Kind.GONE: 10, Kind.BROKER: 14, Kind.LATE: 14},
    3: {Kind.MOVED: 14, Kind.DRIVER: 3, Kind.CUT: 3},
}
SPARK_WEIGHTS: Final = {Kind.DRIVER: 4, Kind.WORKER: 6, Kind.CUT: 4, Kind.BROKER: 1, Kind.FAILING: 5}
KILLS_WEIGHTS: Final = {Kind.DRIVER: 2, Kind.WORKER: 1}
#: Where faults strike; what comes once for each task three times as often.
_STEPS: Final = (
    *(Step.TAKE_OVER, Step.READ, Step.SWEEP, Step.TASK_READ, Step.CHECK, Step.DECIDE, Step.MARK, Step.DONE),
    *(Step.BEGIN, Step.AWAITED, Step.ROWS, Step.HOLD, Step.COMPLETE) * 2,
    *(Step.DECISION, Step.FINISH) * 3,
)
#: Where an open transaction can have its time.
_LATE_STEPS: Final = (Step.ROWS, Step.HOLD, Step.CHECK, Step.DECISION, Step.FINISH, Step.COMPLETE)
_OF_EACH_TASK: Final = (
    Step.BEGIN,
    Step.AWAITED,
    Step.ROWS,
    Step.HOLD,
    Step.FINISH,
    Step.COMPLETE,
    Step.TASK_READ,
)
_FOR_EVER_S: Final = 1000.0
#: How many faults strike by chance and not at a step, how many of the second attempts one strikes, too, how
#: many writes are given up when they fail first, and how many are run again when they have ended.
_BY_CHANCE_SHARE, _AGAIN_SHARE, _GIVEN_UP_SHARE, _REPEATED_SHARE = 0.2, 0.3, 0.35, 0.3


@dataclass(frozen=True, slots=True)
class Write:
    """A write of some tasks, each with so many rows."""

    name: str
    mark: str
    tasks: int
    rows: int
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def values(self) -> set[str]:
        """All its rows."""
        return {f"{self.mark} {number}" for number in range(self.tasks * self.rows)}

    def question(self, servers: str) -> dict[str, Any]:
        """Question to the process that writes."""
        named = {"kafka.bootstrap.servers": servers, "kafka.transactional.id": self.name, "batch": self.mark}
        options = {**_BASE, **self.options, **named}
        return {"write": options, "mark": self.mark, "tasks": self.tasks, "rows": self.rows}


@dataclass(frozen=True, slots=True)
class Strike:
    """A fault, and when it strikes."""

    kind: Kind
    fault: Fault
    #: How long a request is held, or the network gone.
    seconds: float = 0.0
    #: Whether a broker is stopped in order.
    in_order: bool = False


@dataclass(frozen=True, slots=True)
class Run:
    """A write, what strikes, and what follows: where the first attempt fails another write may take its
    place, and where it is done at once it may be run once more."""

    write: Write
    strikes: tuple[Strike, ...]
    gives_up: bool
    repeats: bool


def drawn(text: str, number: int, weights: Mapping[Kind, int]) -> Run:
    """The run that belongs to a seed's text."""
    draw = random.Random(text)
    kind = draw.choices(tuple(weights), tuple(weights.values()))[0]
    tasks = draw.choice((1, 2, 3, 3, 3, 5))
    options = {Kind.GONE: _IMPATIENT, Kind.LATE: {"kafka.transaction.timeout.ms": "2500"}}.get(kind, {})
    name = f"{TOPIC}-{draw.randrange(NAMES)}"
    write = Write(name, f"{number}", tasks, draw.choice((1, 7, 20)), options)
    strikes = [_strike_of(kind, tasks, draw)]
    if draw.random() < _AGAIN_SHARE:
        strikes.append(_strike_of(draw.choice((Kind.DRIVER, Kind.CUT)), tasks, draw))
    # One of which a part has had its time may not be given up: its name is refused to others.
    gives_up = kind is not Kind.LATE and draw.random() < _GIVEN_UP_SHARE
    return Run(write, tuple(strikes), gives_up, draw.random() < _REPEATED_SHARE)


def _strike_of(kind: Kind, tasks: int, draw: random.Random) -> Strike:
    if kind is Kind.FAILING:
        return Strike(kind, Fault(None, delay=_FOR_EVER_S), draw.choice((0.3, 0.5, 0.8)))
    if kind is not Kind.LATE and draw.random() < _BY_CHANCE_SHARE:
        fault = Fault(None, delay=draw.random())
    else:
        step = draw.choice(_LATE_STEPS if kind is Kind.LATE else _STEPS)
        nth = draw.randint(1, tasks) if step in _OF_EACH_TASK else 1
        fault = Fault(step, nth, draw.random() < 0.5)
    seconds = {
        Kind.GONE: draw.choice((0.5, _FOR_EVER_S)),
        Kind.LATE: draw.choice((4.0, 5.5)),
        Kind.CUT: 0.05,
    }.get(kind, draw.random())
    return Strike(kind, fault, seconds, draw.random() < 0.4)


PARTITIONS: Final = 3
#: A write that has not ended after so many runs never will.
RUNS_MAX: Final = 8
#: Two cores; an attempt that fails is one of four.
SETTINGS: Final = {"spark.master": "local[2,4]"}
#: What a write takes that is the first of its Spark, seconds.
_COLD_S: Final = 4.0
#: What is kept of an error.
_ERROR_CHARS: Final = 1500


@dataclass(frozen=True, slots=True)
class Struck:
    """Result of an attempt; no phase if it was over before the fault."""

    kind: Kind
    step: Step | None
    after_it: bool
    phase: Phase | None
    is_done: bool

    @property
    def line(self) -> str:
        """The fault, its step and its phase, as text."""
        when = self.step.value if self.step else "a random moment"
        side = "after" if self.after_it else "before"
        return f"{self.kind.value}, {side} {when}, {self.phase.value if self.phase else 'not struck'}"


class KilledWrites:
    """The writes to one cluster, from ``with`` on."""

    def __init__(
        self,
        version: str,
        folder: Path,
        nodes: int,
        seed: int,
        *,
        by_spark: bool = False,
        kills: bool = False,
    ) -> None:
        self._seed = f"{seed} {version} {nodes}{' Spark' * by_spark}{' kills' * kills}"
        self._weights = KILLS_WEIGHTS if kills else SPARK_WEIGHTS if by_spark else WEIGHTS[nodes]
        self._kills = kills
        self._by_spark = by_spark
        self._nodes = nodes
        self._cluster = ApacheCluster(version, folder, nodes)
        self._stage = Stage()
        upstreams = [Upstream(str(node), port, "kafka") for node, port in enumerate(self._cluster.ports)]
        self._proxy = StagedProxy(upstreams, self._stage)
        (folder / "spark").mkdir()
        self._spark = SparkWrites(folder / "spark", {**SETTINGS, "spark.jars": ",".join(needed_connector())})
        self._forks = ForkedWrites(folder)
        self._exits = contextlib.ExitStack()
        self._starting: list[threading.Thread] = []
        self._process: WriteProcess = self._spark if by_spark else self._forks
        self._usual_s = _COLD_S
        #: The rows that are there, as all writes have ended.
        self._there: set[str] = set()
        self.struck: list[Struck] = []
        self.errors: list[str] = []
        self.tally: Counter[str] = Counter()
        #: The longest times that readers waited when a write had ended, and that an attempt without a fault
        #: took, seconds.
        self.waited_s = self.next_s = 0.0

    def __enter__(self) -> KilledWrites:
        with contextlib.ExitStack() as exits:
            exits.enter_context(self._cluster)
            exits.callback(self._join)
            exits.enter_context(self._proxy)
            exits.enter_context(self._spark)
            exits.enter_context(self._forks)
            self._create_topic()
            self._exits = exits.pop_all()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._exits.close()

    def run(self, runs: int, first: int = 0) -> None:
        """So many writes, each with a fault; the same number has the same ones. Raises ``AssertionError``
        with what was heard of the exchange."""
        for number in range(first, first + runs):
            try:
                self._run(drawn(f"{self._seed} {number}", number, self._weights))
            except AssertionError as error:
                heard = "\n".join(self._stage.heard)
                raise AssertionError(
                    f"run {number} of {self._seed}: {error}\n{heard}\n{self.errors[-3:]}"
                ) from error

    def run_until_killed(self, kills: int) -> None:
        """As many writes as it takes to kill so many drivers and workers."""
        number = 0
        while sum(each.phase is not None and each.kind in KILLS_WEIGHTS for each in self.struck) < kills:
            self.run(1, number)
            number += 1

    def check_by_spark(self) -> None:
        """Spark's own connector sees the same as confluent-kafka did after each run, and nothing is open."""
        options = {
            "kafka.bootstrap.servers": self._cluster.bootstrap_servers(),
            "subscribe": TOPIC,
            "startingOffsets": "earliest",
            "kafka.isolation.level": "read_committed",
        }
        await_readers(self._cluster.bootstrap_servers(), TOPIC, PARTITIONS)
        answer = self._spark.ask({"read": options})
        assert answer is not None
        assert sorted(answer["values"]) == sorted(self._there)
        self.tally["rows that both readers see once"] = len(self._there)

    def _run(self, run: Run) -> None:
        write, strikes = run.write, list(run.strikes)
        left: tuple[Write, Phase] | None = None
        may_be_seen, attempts = False, 0
        while not self._attempt(write, strikes.pop(0) if strikes else None):
            attempts += 1
            assert attempts < RUNS_MAX, "it does not end"
            phase = self._stage.phase
            write = replace(write, options={})  # what is short may be too short for a busy machine
            may_be_seen |= phase is not Phase.BEFORE
            if not may_be_seen:
                assert self._seen().isdisjoint(write.values), "rows are there before the decision"
            if run.gives_up and left is None:
                left, may_be_seen = (write, phase), False
                write = replace(write, mark=f"{write.mark}-instead")
        self._there |= write.values
        if left is not None:
            self._settle(*left)
        self._check()
        self.tally["writes that ended"] += 1
        self.tally["runs that were run again"] += attempts
        if run.repeats and not attempts:
            assert self._attempt(write, None), "it cannot be repeated"
            self._check()
            self.tally["writes that were repeated after they had ended"] += 1

    def _settle(self, write: Write, phase: Phase) -> None:
        """A write that was given up is there if it was decided, else not; unless nobody knows, wholly."""
        seen = write.values & self._seen()
        assert len(seen) in (0, len(write.values)), f"a part of {write.mark} is there: {len(seen)} row(s)"
        if phase is not Phase.DECIDING:
            assert bool(seen) is (phase is not Phase.BEFORE), f"{len(seen)} row(s) of {write.mark}, {phase}"
        self._there |= seen
        self.tally[f"writes that were given up {phase.value}"] += 1

    def _seen(self) -> set[str]:
        """The rows that confluent-kafka sees, each once."""
        found = [value.decode() for value in committed(self._cluster.bootstrap_servers(), TOPIC, PARTITIONS)]
        doubled = [value for value, count in Counter(found).items() if count > 1]
        assert not doubled, f"{len(doubled)} row(s) are doubled: {doubled[:5]}"
        return set(found)

    def _check(self) -> None:
        seen = self._seen()
        lost, more = sorted(self._there - seen), sorted(seen - self._there)
        assert not lost, f"{len(lost)} row(s) are not there: {lost[:5]}"
        assert not more, f"{len(more)} row(s) should not be there: {more[:5]}"
        if self._kills:
            waited_s = await_readers(self._cluster.bootstrap_servers(), TOPIC, PARTITIONS, WAITING_MAX_S)
            self.waited_s = max(self.waited_s, waited_s)

    def _attempt(self, write: Write, strike: Strike | None) -> bool:
        """Run the write, struck by ``strike`` if there is one. Returns True if it is done."""
        if not self._process.is_running:
            self._process.start()
            self._usual_s = _COLD_S
        question = write.question(self._proxy.bootstrap_servers)
        if strike and strike.kind is Kind.FAILING:
            question["failing"] = {"seed": f"{self._seed} {write.mark}", "share": strike.seconds, "least": 4}
        began_s = time.monotonic()
        with self._armed(strike):
            answer = self._process.ask(question)
        elapsed_s = time.monotonic() - began_s
        self._restore()
        is_done = answer is not None and answer["error"] is None
        if is_done:
            self._usual_s = elapsed_s
            self.next_s = max(self.next_s, elapsed_s if strike is None else 0.0)
        elif answer is not None:
            self.errors.append(str(answer["error"])[-_ERROR_CHARS:])
        reported = self._noted(strike, is_done) if strike else "no fault"
        print(f"{write.mark} of {write.name}, {reported}, {is_done=}, {elapsed_s:.1f} s", flush=True)
        return is_done

    @contextlib.contextmanager
    def _armed(self, strike: Strike | None) -> Iterator[None]:
        """In here the fault strikes when its moment comes."""
        fault = strike.fault if strike else None
        self._stage.begin(fault, partial(self._strikes, strike))
        timer = threading.Timer(fault.delay * self._usual_s if fault else 0.0, self._stage.strike_by_chance)
        if fault and fault.step is None:
            timer.start()
        yield
        if timer.is_alive():
            timer.cancel()
            timer.join()
        self._stage.cut_off(0.0)

    def _noted(self, strike: Strike, is_done: bool) -> str:
        place, fault = self._stage.struck, strike.fault
        phase = place.phase if place else None
        self.struck.append(Struck(strike.kind, fault.step, fault.after_it, phase, is_done))
        return self.struck[-1].line

    def _strikes(self, strike: Strike | None, place: Place) -> None:
        """Apply the fault at that moment, in the thread of the connection that is asked
        on. Raises ``Cut``."""
        assert strike is not None
        after_it = strike.fault.after_it
        match strike.kind:
            case Kind.DRIVER:
                self._process.kill_driver()
            case Kind.WORKER:
                self._process.kill_worker(place.client_port, random.Random(strike.seconds))
            case Kind.CUT if place.client_port:
                raise Cut("cut here")
            case Kind.CUT | Kind.GONE:
                self._stage.cut_off(strike.seconds)
            case Kind.LATE:
                time.sleep(strike.seconds)
            case Kind.BROKER | Kind.MOVED:
                self._end_broker(int(place.upstream or 0), strike)
        if strike.kind in (Kind.DRIVER, Kind.WORKER) and place.client_port and not after_it:
            raise Cut("who asks is gone")

    def _end_broker(self, node: int, strike: Strike) -> None:
        if strike.in_order:
            self._cluster.stop(node)
        else:
            self._cluster.kill(node)
        if self._nodes == 1:
            starting = threading.Timer(strike.seconds, partial(self._cluster.start, node))
            self._starting.append(starting)
            starting.start()

    def _restore(self) -> None:
        """All nodes run, and have all."""
        self._join()
        for node in range(self._nodes):
            if not self._cluster.is_running(node):
                self._cluster.start(node)
            self._cluster.await_answer(node)
        poll(self._is_whole, "each partition is kept by all nodes")

    def _join(self) -> None:
        while self._starting:
            self._starting.pop().join()

    def _is_whole(self) -> bool:
        admin = AdminClient({"bootstrap.servers": self._cluster.bootstrap_servers(), "log_level": 0})
        try:
            topics = admin.list_topics(timeout=10).topics.values()
        except KafkaException:
            return False
        partitions = [part for topic in topics for part in topic.partitions.values()]
        kept = self._cluster.replicas
        return TOPIC in {topic.topic for topic in topics} and all(
            part.leader >= 0 and len(part.isrs) == kept for part in partitions
        )

    def _create_topic(self) -> None:
        admin = AdminClient({"bootstrap.servers": self._cluster.bootstrap_servers(), "log_level": 0})
        kept = self._cluster.replicas
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, kept)])[TOPIC].result(60)
        poll(self._is_whole, "the topic is there")


RUNS: Final = int(os.environ.get("KAFKAWIRE_EXACTLY_ONCE_RUNS", "4"))
KILLS: Final = int(os.environ.get("KAFKAWIRE_EXACTLY_ONCE_KILLS", "6"))
SEED: Final = int(os.environ.get("KAFKAWIRE_EXACTLY_ONCE_SEED", "1"))
#: The two protocols of transactions, the second one by two releases.
VERSIONS: Final = ("3.9.1", "4.1.1", NEWEST)
#: Versions, each with so many nodes, and whether a real Spark writes; else what there is time for with all
#: other tests.
CASES: Final = (
    [(version, *how) for how in ((1, False), (3, False), (1, True)) for version in VERSIONS]
    if "KAFKAWIRE_EXACTLY_ONCE_RUNS" in os.environ
    else [("3.9.1", 1, False), ("4.1.1", 3, False), (NEWEST, 1, True)]
)
#: Longest time of a run that takes over what a killed one left: it fences for 20 s at most.
NEXT_RUN_MAX_S: Final = 30.0
#: Versions of whose three brokers that many writes are killed each.
KILLS_VERSIONS: Final = VERSIONS[: 2 if "KAFKAWIRE_EXACTLY_ONCE_KILLS" in os.environ else 1]
#: Of the writes to one broker by forks, how many are written to three, and by Spark.
OTHERS_SHARE: Final = 4
TIMEOUT_S: Final = 1200 + 60 * RUNS


def show(writes: KilledWrites, title: str) -> None:
    """Print the faults that struck, and the results of the writes."""
    print(f"\n{title}")
    struck = [each for each in writes.struck if each.phase]
    phases = Counter((each.kind.value, _phase_of(each)) for each in writes.struck)
    steps = Counter(
        ("after it" if each.after_it else "before it", each.step.value if each.step else "a random moment")
        for each in struck
    )
    print(f"{len(struck)} faults struck at a step, or a moment")
    for counted in (phases, steps, writes.tally):
        for key, count in sorted(counted.items()):
            print(count, *((key,) if isinstance(key, str) else key), sep="\t")


def _phase_of(struck: Struck) -> str:
    if struck.kind is Kind.FAILING:
        return "while rows are made"
    return struck.phase.value if struck.phase else "(the write was over before)"


@pytest.mark.timeout(TIMEOUT_S)
@pytest.mark.parametrize(("version", "nodes", "by_spark"), CASES)
def test_writes_that_faults_strike_are_there_once_or_not_at_all(
    version: str, nodes: int, by_spark: bool, tmp_path: Path
) -> None:
    needs_broker(version)
    runs = RUNS if nodes == 1 and not by_spark else -(-RUNS // OTHERS_SHARE)
    title = f"Apache Kafka {version}, {nodes} node(s), {'Spark' if by_spark else 'forks'}, seed {SEED}"
    with KilledWrites(version, tmp_path, nodes, SEED, by_spark=by_spark) as writes:
        try:
            writes.run(runs)
            writes.check_by_spark()
        finally:
            show(writes, title)


@pytest.mark.timeout(1200 + 30 * KILLS)
@pytest.mark.parametrize("version", KILLS_VERSIONS)
def test_kills_on_three_brokers_lose_double_and_hold_up_nothing(version: str, tmp_path: Path) -> None:
    """Runs again what was killed; then nobody who reads what is committed waits for longer than 15 s."""
    needs_broker(version)
    with KilledWrites(version, tmp_path, 3, SEED, kills=True) as writes:
        try:
            writes.run_until_killed(KILLS)
        finally:
            show(writes, f"Apache Kafka {version}, 3 nodes, kills, seed {SEED}")
            print(
                f"readers waited for {writes.waited_s:.1f} s, a next run took {writes.next_s:.1f} s at most"
            )
    assert writes.next_s < NEXT_RUN_MAX_S


@newest_replicated
@pytest.mark.nightly
@pytest.mark.timeout(stream_once.TIMEOUT_S)
def test_kills_neither_lose_nor_double_a_record_of_an_exactly_once_stream(
    kafka: ApacheKafka | ApacheCluster, tmp_path: Path
) -> None:
    stream_once.kill_and_check(kafka.bootstrap_servers(), tmp_path)
