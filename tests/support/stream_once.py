"""A stream from a topic to a topic with delivery=exactly-once: its step in a batch, from the requests that
brokers got, and the rows that a foreign reader finds in the end."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from spark_kafkawire.clients.writing.modern.transactional.write_state import (
    Decision,
    committed_records,
    driver_id,
)
from spark_kafkawire.clients.writing.modern.transactional.write_state import (
    OffsetAndMetadata as Noted,
)
from spark_kafkawire.cluster.modern.metadata import Metadata
from spark_kafkawire.cluster.modern.transactions import Transaction, Transactions
from spark_kafkawire.errors import BrokerError
from spark_kafkawire.options import WriteOptions
from spark_kafkawire.protocol.modern.transactions import ONGOING

from . import librdkafka
from .exactly_once import WAITING_MAX_S, await_readers, committed
from .foreign import Record
from .noida import KEPT_FOREVER
from .stream_kills import Killer, Stream, driver

#: Streams of one driver, drivers that are killed, and workers of each stream before each of them.
STREAMS: Final = int(os.environ.get("KAFKAWIRE_ONCE_STREAMS", "1"))
KILLS: Final = int(os.environ.get("KAFKAWIRE_ONCE_KILLS", "1"))
WORKERS: Final = int(os.environ.get("KAFKAWIRE_ONCE_WORKERS", "1"))
SEED: Final = int(os.environ.get("KAFKAWIRE_ONCE_SEED", "1"))
#: The deadline of a test grows with the kills, seconds.
TIMEOUT_S: Final = 1200 + 200 * KILLS
#: Of the source, and of the target.
PARTITIONS: Final = 3

#: The steps of a batch whose offsets are written, told apart by what brokers keep.
BEFORE_ROWS: Final = "planning and starting its tasks"
ROWS: Final = "tasks' transactions open"
DECIDING: Final = "writing the decision"
DECIDED: Final = "decided, nothing committed"
COMMITTING: Final = "decided, a part committed"
COMMITTED: Final = "decided, all committed"
NOTING: Final = "writing that all is committed"
NOTED: Final = "all noted, but by Spark"

#: So that a batch has some tasks, and the same ones when it is run again.
RECORDS_OF_A_TASK: Final = 8
#: Values that are sent again and again, beside those that are there once.
REPEATED: Final = 5
#: Values that are sent where nobody is killed: for some batches.
TROUBLED: Final = 240


class OnceStream:
    """A stream on a cluster, from a topic of its own to another one."""

    def __init__(self, servers: str) -> None:
        self._servers = servers
        self._source, self._target = (
            librdkafka.create_topic(servers, PARTITIONS, None, KEPT_FOREVER) for _ in range(2)
        )
        self._name = f"once-{self._target}"
        options = WriteOptions.parse({"kafka.bootstrap.servers": servers})
        self._net = options.net
        self._metadata = Metadata(options.discovery.bootstrap_servers, options.net)
        self._transactions = Transactions(self._metadata, options.net)
        self._states: set[tuple[str, int, int]] = set()
        self._seen: set[tuple[str, int, int]] = set()
        self._sent: Counter[bytes] = Counter()

    def stream(self) -> Stream:
        """The query, and who feeds it."""
        servers = {"kafka.bootstrap.servers": self._servers}
        reading = {**servers, "subscribe": self._source, "startingOffsets": "earliest"}
        reading |= {"maxOffsetsPerTrigger": "60", "maxRecordsPerPartition": str(RECORDS_OF_A_TASK)}
        writing = {"topic": self._target, "delivery": "exactly-once", "kafka.transactional.id": self._name}
        return Stream(reading, {**servers, **writing}, self._send, self)

    def _send(self, values: list[bytes]) -> None:
        sent = [*values, *(b"again %d" % (number % REPEATED) for number in range(len(values) // 3))]
        self._sent.update(sent)
        partitions = itertools.cycle(range(PARTITIONS))
        records = [Record(value, partition=next(partitions)) for value in sent]
        librdkafka.produce(self._servers, self._source, records)

    @property
    def marks(self) -> tuple[str, ...]:
        """Names of what is polled for: each alone, as some steps are over in milliseconds."""
        return ("the driver's transaction", "the tasks' transactions")

    def count(self, mark: str) -> int:
        """Count of the states of those transactions that were seen."""
        if mark == self.marks[0]:
            with contextlib.suppress(BrokerError):  # the name was not begun yet
                result = self._transactions.describe(driver_id(self._name))
                if result.transaction_state != "Empty":
                    self._states.add((result.transaction_state, result.producer_id, result.producer_epoch))
            return len(self._states)
        self._seen |= {(item.id, item.producer_id, item.epoch) for item in self._open()}
        return len(self._seen)

    def step(self, batch: int) -> str:
        """The step of a batch that Spark has planned and not noted to be done."""
        noted, open_ = self._decided(), self._open()
        decision = Decision.of((noted,), self._name, driver_id(self._name)) if noted else None
        is_writing = any(item.id == driver_id(self._name) for item in open_)
        if decision is None or decision.batch.number != batch:
            return DECIDING if is_writing else ROWS if open_ else BEFORE_ROWS
        if decision.is_done:
            return NOTED
        if is_writing:
            return NOTING
        left = {item.id for item in open_} & {item.id for item in decision.open}
        return DECIDED if len(left) == len(decision.open) else COMMITTING if left else COMMITTED

    def check(self) -> Counter[bytes]:
        """Foreign readers find in the target, of what is committed, what is in the source, and that is what
        was sent. How often each value is there."""
        await_readers(self._servers, self._target, PARTITIONS, WAITING_MAX_S)
        source = Counter(committed(self._servers, self._source, PARTITIONS))
        target = Counter(committed(self._servers, self._target, PARTITIONS))
        assert source == self._sent
        assert target == source, f"too few: {source - target}; too many: {target - source}"
        return target

    def _decided(self) -> Noted | None:
        """The last record of the driver, without further parts: no batch here has so many tasks."""
        records = committed_records(self._metadata, self._net, driver_id(self._name), None)
        return max(records, default=None)

    def _open(self) -> list[Transaction]:
        """Open transactions of the stream's name."""
        listed = self._transactions.listed((ONGOING,))
        ids = [item.transactional_id for item in listed if item.transactional_id.startswith(f"{self._name}-")]
        result = self._transactions.described(ids).values() if ids else ()
        return [
            Transaction(item.transactional_id, item.producer_id, item.producer_epoch, 1)
            for item in result
            if item.transaction_state == ONGOING
        ]


def kill_and_check(servers: str, folder: Path) -> None:
    """Kill drivers and workers of streams on a cluster, and check what is there in the end; tells where the
    kills fell."""
    streams = {f"once-{number}": OnceStream(servers) for number in range(STREAMS)}
    killer = Killer({name: once.stream() for name, once in streams.items()}, folder, SEED)
    try:
        killer.run(KILLS, WORKERS)
    finally:
        for (victim, step), count in sorted(
            Counter((item.victim, item.step) for item in killer.kills).items()
        ):
            print(victim, step, count, sep="\t")
    for once in streams.values():
        values = once.check()
        print(f"{values.total()} records, {len(values)} values; seed {SEED}, {len(killer.kills)} kills")


def trouble_and_check(
    servers: str, folder: Path, trouble: Mapping[str, float], settings: Mapping[str, str]
) -> Counter[str]:
    """Let attempts of a stream's tasks fail and lag at random, and check what is there in the end. How many
    did fail, and how many began beside another one that had not failed."""
    once = OnceStream(servers)
    stream = replace(once.stream(), trouble=trouble)
    stream.send([b"%d" % value for value in range(TROUBLED)])
    (folder / "complete").touch()
    with driver({"once": stream}, folder, settings) as running:
        running.await_end(0)
    once.check()
    files = {file.name: file.read_text() for file in (folder / "once" / "attempts").iterdir()}
    return Counter(
        kind
        for name, reported in files.items()
        for kind, counts in (("failed", reported), ("beside", files.get(_before(name)) == ""))
        if counts
    )


def _before(attempt: str) -> str:
    """The attempt of the same task before."""
    task, _, number = attempt.rpartition(".")
    return f"{task}.{int(number) - 1}"
