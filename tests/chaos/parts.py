"""Parts of the chaos without a proxy: damaged logs and fenced writers."""

from __future__ import annotations

import random
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from typing import Any, Final
from unittest.mock import patch

from spark_kafkawire.clients.reading.damaged_records import SuspectedDamage
from spark_kafkawire.clients.reading.modern import near_replica
from spark_kafkawire.errors import CorruptDataError
from spark_kafkawire.kept import forget_all
from spark_kafkawire.net.client_rack import ClientRack
from spark_kafkawire.net.pool import Pool
from spark_kafkawire.options import BadRecords, FetchOptions
from spark_kafkawire.protocol.api import Api
from spark_kafkawire.protocol.modern import FETCH, fetch
from spark_kafkawire.protocol.modern.limits import READ_COMMITTED
from tests.records.batches import TRANSACTIONAL, batch, record
from tests.support.exactly_once import (
    WAITING_MAX_S,
    OnceWrite,
    await_readers,
    committed,
    dying,
)
from tests.support.fetching import altered, fetcher_of, replicas
from tests.support.late_requests import SlowReplication
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
        self._flips: set[tuple[int, int]] = set()
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
            shown = [pos for pos in starts if pos - starts[0] < len(data)]
            flip = self._draw_flip(shown)
            # The same bit in two responses is what damage of the log looks like.
            while flip in self._flips:
                flip = self._draw_flip(shown)
            self._flips.add(flip)
            data[flip[0] - starts[0]] ^= 1 << flip[1]
        return bytes(data)

    def _draw_flip(self, batches: list[int]) -> tuple[int, int]:
        """A byte of the log, and one of its bits."""
        return self._chance.choice(batches) + self._chance.randrange(21, 61), self._chance.randrange(8)


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
            result = rows(fetcher_of(server.bootstrap_servers, pool, start, stop, options, _NET))
        except SuspectedDamage as error:
            ended[type(error).__name__] += 1
        except CorruptDataError as error:
            if not {BATCHES - 2, BATCHES - 1} <= lost:
                raise AssertionError(str(error)) from error
            ended[type(error).__name__] += 1
        else:
            due = expected(start, stop, lost, bad_records)
            assert result == due, f"{result} instead of {due}"
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
            result = rows(fetcher_of(leader.bootstrap_servers, pool, start, stop, options, _NET))
        finally:
            pool.close_idle()
            forget_all()
    due = expected(start, stop, set(), BadRecords.NULL)
    assert result == due, f"{result} instead of {due}"
    faults = Counter({f"faults {kind}": count for kind, count in followers.faults.items()})
    return ended + faults + Counter({EXACT: 1})


def rows(fetcher: Any) -> list[Row]:
    """The rows of a read, one for each offset of a damaged place."""
    result: list[Row] = []
    for columns in fetcher.columns():
        corrupt = [None] * columns.count if columns.corrupt is None else columns.corrupt.to_pylist()
        for offset, content, item in zip(
            columns.offset.tolist(), columns.values.to_pylist(), corrupt, strict=True
        ):
            assert item is None or (content is None and item["startOffset"] == offset), item
            stop = offset + 1 if item is None else item["endOffset"]
            result += [(number, content) for number in range(offset, stop)]
    return result


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
    result = committed(noida.bootstrap_servers, topic, partitions)
    assert result == due, f"{result} instead of {due}"
    return Counter({EXACT: 1, "died": len(died)})
