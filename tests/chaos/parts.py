"""Parts of the chaos without a proxy: damaged logs, fenced writers, missing files, repeated writes."""

from __future__ import annotations

import itertools
import json
import os
import random
import shutil
import tempfile
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from pyspark.sql.types import (
    BinaryType,
    IntegerType,
    StringType,
    StructField,
    StructType,
)

from spark_kafkawire.clients.reading.damaged_records import SuspectedDamage
from spark_kafkawire.clients.reading.modern import near_replica
from spark_kafkawire.errors import CorruptDataError, DataLossError, DeliveryError
from spark_kafkawire.kept import forget_all
from spark_kafkawire.net.client_rack import ClientRack
from spark_kafkawire.net.pool import Pool
from spark_kafkawire.options import BadRecords, FetchOptions
from spark_kafkawire.protocol.api import Api
from spark_kafkawire.protocol.modern import FETCH, fetch
from spark_kafkawire.protocol.modern.limits import READ_COMMITTED
from spark_kafkawire.source.schema import HEADERS_FIELD
from tests.records.batches import TRANSACTIONAL, batch, record
from tests.support.directory_reading import DirectoryRead
from tests.support.exactly_once import (
    WAITING_MAX_S,
    OnceWrite,
    await_readers,
    committed,
    dying,
)
from tests.support.fetching import altered, fetcher_of, replicas
from tests.support.late_requests import SlowReplication
from tests.support.log_folders import (
    ABORTED,
    MARKERS,
    START_OFFSET,
    STOPPED,
    STOPPED_END,
)
from tests.support.log_server import LogServer, Sent
from tests.support.memory_log import MemoryLog
from tests.support.noida import NoidaBroker
from tests.support.settings import net_modern

from .operation import EXACT

#: Batches of a log, each of two records.
BATCHES: Final = 30
_NET: Final = net_modern(5.0, retries=5, backoff_s=0.001)
_NOT_LEADER: Final = 6
#: The offset and the value of a record, None where it is damaged.
Row = tuple[int, bytes | None]


class FaultyLog(MemoryLog):
    """A log some of whose batches are damaged. Each response has a fault with a probability, and never two
    in a row, so that a fetch that is tried again is answered.

    ``faults`` counts them by kind.
    """

    def __init__(
        self,
        chance: random.Random,
        lost: set[int],
        compression: str,
        batches: Iterable[bytes] = (),
    ) -> None:
        batches = batches or (
            batch([record(i, value(2 * n + i)) for i in range(2)], compression=compression)
            for n in range(BATCHES)
        )
        super().__init__(*batches)
        for index in lost:
            self._data[self._positions[index] + 61] ^= 1
        self._chance, self._share = chance, chance.choice((0.3, 0.6, 1.0))
        self._was_faulty, self.fault = False, ""
        self.faults = Counter[str]()

    def read(self, offset: int, size_max: int) -> bytes:
        data = bytearray(super().read(offset, size_max))
        self.fault = ""
        self._was_faulty = bool(data) and not self._was_faulty and self._chance.random() < self._share
        if self._was_faulty:
            self.fault = self._chance.choice(("flip", "flip", "flip", "break", "move"))
            self.faults[self.fault] += 1
        if self.fault == "flip":
            # Bytes that a checksum covers, and not those that are damaged in the log: a flip may mend these.
            starts = self._positions[bisect_right(self._offsets, offset) - 1 :]
            pos = self._chance.choice([pos - starts[0] for pos in starts if pos - starts[0] < len(data)])
            data[pos + self._chance.randrange(21, 61)] ^= 1 << self._chance.randrange(8)
        return bytes(data)


def value(offset: int) -> bytes:
    """The value of a record."""
    return b"value %06d" % offset * 3


def damage(seed: int, number: int) -> Counter[str]:
    """One read. Raises ``AssertionError`` for rows that are not exact.

    A read may end with an error. Damage in transit of a damaged batch itself, in each second response, leaves
    no two fetches that show the same; and the end of the log does not prove the place after its last two
    batches, if both are damaged.
    """
    chance = random.Random(f"{seed} damage {number}")
    lost = set(chance.sample(range(BATCHES), chance.choice((0, 0, 1, 2, 5))))
    bad_records = chance.choice((BadRecords.NULL, BadRecords.DROP))
    log = FaultyLog(chance, lost, chance.choice(("none", "gzip")))
    start, stop = sorted(chance.sample(range(2 * BATCHES + 1), 2))
    options = FetchOptions(
        fetch_bytes=chance.choice((300, 1000, 4096, 1 << 20)),
        wait_ms=50,
        bad_records=bad_records,
    )
    pool = Pool()
    ended = Counter[str]()

    def broken(_: Api, frame: bytes) -> Sent:
        if log.fault != "break":
            return Sent(frame)
        log.fault = ""
        return Sent(frame[: len(frame) // 2], "close")

    def moved(_: fetch.FetchPartition) -> dict[str, Any]:
        return {"error_code": _NOT_LEADER, "records": b""} if log.fault == "move" else {}

    with LogServer({"t": [log]}, lie=broken) as server:
        altered(server, moved)
        try:
            found = rows(fetcher_of(server.bootstrap_servers, pool, start, stop, options, _NET))
        except SuspectedDamage as error:
            ended[type(error).__name__] += 1
        except CorruptDataError as error:
            if not {BATCHES - 2, BATCHES - 1} <= lost:
                raise AssertionError(str(error)) from error
            ended[type(error).__name__] += 1
        else:
            due = expected(start, stop, lost, bad_records)
            assert found == due, f"{found} instead of {due}"
            ended[EXACT] += 1
        finally:
            pool.close_idle()
    return ended + Counter({f"faults {kind}": count for kind, count in log.faults.items()})


#: Responses of a follower that an operation draws, and what is changed in them.
_FOLLOWER: Final[dict[str, dict[str, Any]]] = {
    "lags": {"records": b"", "high_watermark": 0},
    "ends early": {"high_watermark": 3},
    "starts late": {"log_start_offset": 2 * BATCHES},
    "names aborted transactions": {
        "aborted_transactions": (fetch.AbortedTransaction(producer_id=1, first_offset=0),)
    },
    "is out of range": {"error_code": 1, "records": b""},
    "is fenced": {"error_code": 74, "records": b""},
    "names another replica": {"preferred_read_replica": 3, "records": b""},
    "serves": {},
}


def near(seed: int, number: int) -> Counter[str]:
    """One read near a follower that lies, lags or disappears. Raises ``AssertionError`` for rows that are not
    exact, and for a read that fails."""
    chance = random.Random(f"{seed} near {number}")
    parts = [
        batch(
            [record(i, value(2 * n + i)) for i in range(2)], attributes=TRANSACTIONAL, producer=(1, 0, 2 * n)
        )
        for n in range(BATCHES)
    ]
    log, followers = MemoryLog(*parts), FaultyLog(chance, set(), "none", parts)
    start, stop = sorted(chance.sample(range(2 * BATCHES), 2))
    options = FetchOptions(
        fetch_bytes=chance.choice((300, 1000, 4096)),
        wait_ms=50,
        bad_records=chance.choice((BadRecords.FAIL, BadRecords.DROP)),
        isolation_level=READ_COMMITTED,
        rack=ClientRack("text", "near"),
    )
    ended, pool, share = Counter[str](), Pool(), chance.choice((0.1, 0.3))

    def answered(_: fetch.FetchPartition) -> dict[str, Any]:
        how = chance.choice(list(_FOLLOWER)) if chance.random() < share else "serves"
        ended[f"follower {how}"] += 1
        return {**_FOLLOWER[how]}

    def broken(api: Api, frame: bytes) -> Sent:
        is_cut = api is FETCH and chance.random() < share / 3
        return Sent(frame[: len(frame) // 2], "close") if is_cut else Sent(frame)

    # So that a read goes to the follower again and again.
    with replicas(log, followers) as (leader, follower), patch.object(near_replica, "FOLLOWED_S", 0.05):
        altered(follower, answered)
        follower.lie = broken
        try:
            found = rows(fetcher_of(leader.bootstrap_servers, pool, start, stop, options, _NET))
        finally:
            pool.close_idle()
            forget_all()
    due = expected(start, stop, set(), BadRecords.NULL)
    assert found == due, f"{found} instead of {due}"
    faults = Counter({f"faults {kind}": count for kind, count in followers.faults.items()})
    return ended + faults + Counter({EXACT: 1})


def rows(fetcher: Any) -> list[Row]:
    """The rows of a read, one for each offset of a damaged place."""
    found: list[Row] = []
    for columns in fetcher.columns():
        corrupt = [None] * columns.count if columns.corrupt is None else columns.corrupt.to_pylist()
        for offset, content, each in zip(
            columns.offset.tolist(), columns.values.to_pylist(), corrupt, strict=True
        ):
            assert each is None or (content is None and each["startOffset"] == offset), each
            stop = offset + 1 if each is None else each["endOffset"]
            found += [(number, content) for number in range(offset, stop)]
    return found


def expected(start: int, stop: int, lost: set[int], bad_records: BadRecords) -> list[Row]:
    """The rows of a range."""
    due = [(offset, None if offset // 2 in lost else value(offset)) for offset in range(start, stop)]
    return due if bad_records is BadRecords.NULL else [row for row in due if row[1] is not None]


# --- Exactly-once writes that die at a drawn request, and the next run of their name on a cluster that ta ---

#: How long a record takes to be replicated, ms: up to some times what three brokers took.
_REPLICATION_MS: Final = (20.0, 100.0, 400.0, 1_000.0)
#: Requests about transactions of a small write.
_REQUESTS: Final = 25
#: A fence that is refused is not tried for long.
_IMPATIENT: Final = {"requestTimeout": "2s", "brokerDownTimeout": "1s"}


def fencing(noida: NoidaBroker, seed: int, number: int) -> Counter[str]:
    """A write that dies, and the next one. Raises ``AssertionError``."""
    chance = random.Random(f"{seed} fencing {number}")
    partitions = chance.choice((1, 3))
    topic = noida.create_topic(partitions=partitions)
    tasks = [
        [(b"%d %d" % (task, row), chance.randrange(partitions)) for row in range(chance.choice((0, 1, 5)))]
        for task in range(chance.choice((1, 3, 6)))
    ]
    options = {"kafka.transactional.id": topic, "batch": "1", **_IMPATIENT}
    with dying(chance.randrange(_REQUESTS), after_it=chance.random() < 0.5) as died:
        OnceWrite(noida.bootstrap_servers, topic, tasks, options).run()
    replication_ms = chance.choice(_REPLICATION_MS)
    with SlowReplication(noida.port, replication_ms) as proxy:
        OnceWrite(proxy.bootstrap_servers, topic, tasks, options).run()
    refused = dict(proxy.refused)
    assert not refused, f"refused, as replication takes {replication_ms:g} ms: {refused}"
    await_readers(noida.bootstrap_servers, topic, partitions, WAITING_MAX_S)
    due = sorted(value for task in tasks for value, _ in task)
    found = committed(noida.bootstrap_servers, topic, partitions)
    assert found == due, f"{found} instead of {due}"
    return Counter({EXACT: 1, "died": len(died)})


# --- Reads of log directories some of whose files are removed, emptied, cut or swapped, in split ranges: ---

BASES: Final = (0, 120, 240, 310)
_ROWS: Final = frozenset(range(START_OFFSET, STOPPED_END)) - MARKERS - set(range(ABORTED[0], ABORTED[1] + 1))


def missing_files(seed: int, number: int) -> Counter[str]:
    """Reads of one directory. Raises ``AssertionError`` for rows that are missing without an error."""
    chance = random.Random(f"{seed} missing files {number}")
    ended = Counter[str]()
    with tempfile.TemporaryDirectory(prefix="kafkawire-chaos-") as name:
        folder = shutil.copytree(STOPPED, Path(name) / "logs")
        # The end of the log is known by an empty last segment, or by the high watermark alone.
        if chance.random() < 0.7:
            (folder / "events-0" / f"{STOPPED_END:020}.log").touch()
        harms = [_harm(folder, base, chance) for base in chance.sample(BASES, chance.randrange(4))]
        start, stop = sorted(chance.sample(range(START_OFFSET, STOPPED_END + 1), 2))
        for split in (1, chance.randrange(2, 30)):
            read = f"{harms}, [{start}, {stop}) in {split} tasks"
            ended[_ending(folder, start, stop, split, read)] += 1
    return ended


def _harm(folder: Path, base: int, chance: random.Random) -> str:
    path = folder / "events-0" / f"{base:020}.log"
    # Without its first file a log begins later: so retention leaves it.
    kind = chance.choice(("remove", "empty", "cut", "swap") if base else ("empty", "cut", "swap"))
    if not path.exists():
        return "nothing"
    if kind == "remove":
        for each in path.parent.glob(f"{base:020}.*"):
            each.unlink()
    elif kind == "swap":
        other = path.with_name(f"{chance.choice([each for each in BASES if each != base]):020}.log")
        if other.exists():
            content = path.read_bytes()
            path.write_bytes(other.read_bytes())
            other.write_bytes(content)
    else:
        os.truncate(path, 0 if kind == "empty" else chance.randrange(path.stat().st_size + 1))
    return f"{kind} {base}"


def _ending(folder: Path, start: int, stop: int, split: int, read: str) -> str:
    try:
        found = DirectoryRead(
            folder,
            startingOffsets=json.dumps({"events": {"0": start}}),
            endingOffsets=json.dumps({"events": {"0": stop}}),
            minPartitions=str(split),
            kafka__isolation__level="read_committed",
        ).column("offset")
    except (CorruptDataError, DataLossError) as error:
        if ".log" not in str(error):
            raise AssertionError(f"{read}: {error}") from error
        return type(error).__name__
    due = sorted(_ROWS & set(range(start, stop)))
    lost = sorted(set(due) - set(found))
    assert found == due, f"{read}: {len(lost)} rows are lost without an error, from {lost[:1]} on"
    return EXACT


# --- Named exactly-once writes that are run again, as they were or changed: no row twice, none passed ove ---

#: Name of the outcome of other rows, which end in an error.
REFUSED: Final = "refused"
_PARTITIONS: Final = 2
_TOPICS: Final = 3
_SCHEMA: Final = StructType(
    [
        StructField("topic", StringType()),
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        HEADERS_FIELD,
        StructField("partition", IntegerType()),
    ]
)
_TOPIC, _KEY, _VALUE, _HEADERS, _PARTITION = range(5)
_FIXED: Final = 8
#: Writes to the same topics, which are read once.
_TOGETHER: Final = 12
#: A row: topic, key, value, headers, partition.
TypedRow = tuple[Any, ...]


def repeats(noida: NoidaBroker, seed: int, number: int) -> Counter[str]:
    """Writes to the same topics, each twice, and how they ended. Raises ``AssertionError``."""
    topics = [noida.create_topic(_PARTITIONS) for _ in range(_TOPICS)]
    outcomes, rows = Counter[str](), list[TypedRow]()
    for place in range(_TOGETHER):
        outcomes[_repeat(noida, topics, f"{seed} repeats {number} {place}", rows)] += 1
    for topic in topics:
        expected = sorted(row[_VALUE] for row in rows if row[0] == topic)
        found = committed(noida.bootstrap_servers, topic, _PARTITIONS)
        assert found == expected, f"{len(found)} rows, not {len(expected)}, or others"
    return outcomes


def _repeat(noida: NoidaBroker, topics: Sequence[str], seed: str, rows: list[TypedRow]) -> str:
    """The outcome of a write and the next one of its name; the rows that have to be there are added to
    ``rows``."""
    chance = random.Random(seed)
    tasks = [[_row(chance, topics) for _ in range(chance.choice((0, 1, 5)))] for _ in range(3)]
    again = [chance.sample(task, len(task)) for task in tasks]
    how = chance.choice(("same", "same", *_CHANGES))
    if how != "same":
        _change(chance, how, again, topics)
    is_same = all(
        sorted(map(repr, before)) == sorted(map(repr, now)) for before, now in zip(tasks, again, strict=True)
    )
    name = {"kafka.transactional.id": f"repeat-{topics[0]}-{seed}"}
    OnceWrite(noida.bootstrap_servers, "", tasks, name, _SCHEMA).run()
    failure = None
    try:
        OnceWrite(noida.bootstrap_servers, "", again, name, _SCHEMA).run()
    except DeliveryError as error:
        failure = str(error)
    # Nothing is kept of a write without rows.
    rows += itertools.chain(*(tasks if any(tasks) else again))
    if is_same or not any(tasks):
        assert failure is None, f"{how}: the same rows are refused: {failure}"
        return EXACT
    assert failure is not None, f"{how}: no error"
    return REFUSED


def _row(chance: random.Random, topics: Sequence[str]) -> TypedRow:
    headers = [{"key": "h", "value": chance.randbytes(2)}] if chance.random() < 0.3 else None
    key = chance.randbytes(_FIXED) if chance.random() < 0.7 else None
    return chance.choice(topics), key, chance.randbytes(_FIXED), headers, chance.choice((None, 0, 1))


#: How the rows of the second write differ: a column of one row, a column of two rows of a task exchanged, all
#: topics exchanged in a circle, or the count of rows.
_CHANGES: Final = (
    *(f"another {name}" for name in ("key", "value", "headers", "partition")),
    *(f"{name} exchanged" for name in _SCHEMA.names),
    *("other topics", "one row more", "one row less"),
)


def _change(chance: random.Random, how: str, tasks: list[list[TypedRow]], topics: Sequence[str]) -> None:
    """Change the rows, where there are enough of them."""
    if how == "other topics":
        for task in tasks:
            task[:] = [(topics[topics.index(row[_TOPIC]) - 1], *row[1:]) for row in task]
        return
    if how == "one row more":
        chance.choice(tasks).append(_row(chance, topics))
        return
    large = [task for task in tasks if len(task) > ("exchanged" in how)]
    if not large:
        return
    task = chance.choice(large)
    if how == "one row less":
        task.pop()
        return
    [column] = (_SCHEMA.names.index(word) for word in how.split() if word in _SCHEMA.names)
    one = chance.randrange(len(task))
    other = _row(chance, topics)
    if "exchanged" in how:
        two = chance.choice([number for number in range(len(task)) if number != one])
        other = task[two]
        task[two] = (*other[:column], task[one][column], *other[column + 1 :])
    task[one] = (*task[one][:column], other[column], *task[one][column + 1 :])
