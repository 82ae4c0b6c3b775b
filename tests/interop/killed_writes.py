"""Exactly-once writes on which a fault strikes at a drawn moment; each is run again until it ends, and all
that readers see is checked after each.

    with KilledWrites("4.1.1", folder, nodes=1, seed=1) as writes:
        writes.run(100)
        writes.check_by_spark()

With one node its process is killed and started again; of three the one that is asked at that moment, the
coordinator of the transaction or of its group, is killed or stopped while the others go on.
"""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.chaos.proxy import Upstream
from tests.support.exactly_once import WAITING_MAX_S, await_readers, committed
from tests.support.polling import poll
from tests.support.write_process import ForkedWrites, SparkWrites, WriteProcess

from .apache_cluster import ApacheCluster
from .drawn_faults import KILLS_WEIGHTS, SPARK_WEIGHTS, TOPIC, WEIGHTS, Kind, Run, Strike, Write, drawn
from .exchange_steps import Cut, Phase, Place, Stage, StagedProxy, Step
from .jars import connector_jars

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
        self._spark = SparkWrites(folder / "spark", {**SETTINGS, "spark.jars": _jars()})
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


def _jars() -> str:
    return ",".join(map(str, connector_jars()))
