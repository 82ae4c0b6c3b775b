"""Reads of damaged logs from brokers of Kafka 0.8 and later: what each value of badRecords makes of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from spark_kafkawire.clients.reading.damaged_records import SuspectedDamage
from spark_kafkawire.clients.reading.fetcher import Fetcher
from spark_kafkawire.clients.reading.task import Contradiction
from spark_kafkawire.errors import CorruptDataError
from spark_kafkawire.net.pool import Pool
from spark_kafkawire.options import BadRecords, FetchOptions
from spark_kafkawire.protocol.modern import fetch
from spark_kafkawire.protocol.modern.limits import READ_COMMITTED
from tests.records.batches import TRANSACTIONAL, batch, marker, message, record
from tests.support.codecs import BY_NAME, compressed
from tests.support.fetching import altered, fetcher_of
from tests.support.log_server import LogServer
from tests.support.memory_log import MemoryLog

#: Batches of two records each.
COUNT = 40
NULL = FetchOptions(fetch_bytes=4096, wait_ms=50, bad_records=BadRecords.NULL)
DROP = replace(NULL, bad_records=BadRecords.DROP)
FAIL = replace(NULL, bad_records=BadRecords.FAIL)


class DamagedLog(MemoryLog):
    """A log whose bytes are changed after it was written: ``flips`` are positions and bits, for the
    reads that ``is_damaged`` says."""

    def __init__(self, *batches: bytes, flips: dict[int, int]) -> None:
        super().__init__(*batches)
        self._flips, self.reads = flips, 0
        self.is_damaged: Callable[[int], bool] = lambda _: True

    def at(self, index: int, pos: int) -> int:
        """Position of a byte of a batch."""
        return self._positions[index] + pos

    def read(self, offset: int, size_max: int) -> bytes:
        data = bytearray(super().read(offset, size_max))
        self.reads += 1
        start = self._data.find(data) if data else 0
        for pos, bits in self._flips.items():
            if self.is_damaged(self.reads) and start <= pos < start + len(data):
                data[pos - start] ^= bits
        return bytes(data)


def log_of(
    *places: tuple[int, int], count: int = COUNT, compression: str = "none", bits: int = 1
) -> DamagedLog:
    """A log with a flipped byte at each place: the index of a batch, and a position in it."""
    batches = [
        batch([record(i, b"value %06d" % (2 * n + i) * 3) for i in range(2)], compression=compression)
        for n in range(count)
    ]
    log = DamagedLog(*batches, flips={})
    log._flips.update({log.at(index, pos): bits for index, pos in places})
    return log


def value(offset: int) -> bytes:
    return b"value %06d" % offset * 3


def rows(fetcher: Fetcher) -> list[tuple[int, bytes | None, Any]]:
    """Offset, value, and the offsets of damage."""
    result: list[tuple[int, bytes | None, Any]] = []
    for columns in fetcher.columns():
        assert columns.values is not None
        corrupt = [None] * columns.count if columns.corrupt is None else columns.corrupt.to_pylist()
        spans = [None if item is None else (item["startOffset"], item["endOffset"]) for item in corrupt]
        result += zip(columns.offset.tolist(), columns.values.to_pylist(), spans, strict=True)
    return result


def expected(*lost: int, stop: int = 2 * COUNT) -> list[tuple[int, bytes | None, Any]]:
    """The rows of ``badRecords=null`` if these batches are damaged."""
    spans: list[tuple[int, int]] = []
    for index in lost:
        if spans and spans[-1][1] == 2 * index:
            spans[-1] = spans[-1][0], 2 * index + 2
        else:
            spans.append((2 * index, 2 * index + 2))
    good: list[tuple[int, bytes | None, Any]] = [
        (offset, value(offset), None) for offset in range(stop) if offset // 2 not in lost
    ]
    return sorted(good + [(start, None, (start, end)) for start, end in spans], key=lambda row: row[0])


PLACES = {
    "content": [(7, 80)],
    "checksum": [(7, 17)],
    "size": [(7, 11)],
    "large size": [(7, 9)],
    "huge size": [(7, 8)],
    "magic": [(7, 16)],
    "base offset": [(7, 7)],
    "high byte of the base offset": [(7, 0)],
    "last offset delta": [(7, 26)],
    "first batch": [(0, 80)],
    "size of the first batch": [(0, 10)],
    "last batch": [(39, 80)],
    "size of the last batch": [(39, 11)],
    "last batches": [(37, 80), (38, 17), (39, 80)],
    "last batches and a size": [(38, 80), (39, 11)],
    "neighbours": [(7, 80), (8, 11), (9, 80)],
    "many": [(1, 80), (3, 11), (5, 16), (20, 80), (21, 9), (38, 80)],
}


@pytest.mark.parametrize(
    ("fetch_bytes", "bits"),
    [
        (1024, 0x40),
        (1 << 20, 1),
        pytest.param(4096, 1, marks=pytest.mark.nightly),
        pytest.param(1 << 20, 0x40, marks=pytest.mark.nightly),
    ],
)
@pytest.mark.parametrize("places", PLACES.values(), ids=PLACES)
def test_damage_becomes_one_row_or_none_and_all_other_records_come(
    places: list[tuple[int, int]], fetch_bytes: int, bits: int, pool: Pool, caplog: pytest.LogCaptureFixture
) -> None:
    lost, log = [index for index, _ in places], log_of(*places, bits=bits)
    with LogServer({"t": [log]}) as server:
        options = replace(NULL, fetch_bytes=fetch_bytes)
        fetcher = fetcher_of(server.bootstrap_servers, pool, stop=2 * COUNT, options=options)
        assert rows(fetcher) == expected(*lost)
        caplog.clear()
        options = replace(options, bad_records=BadRecords.DROP)
        fetcher = fetcher_of(server.bootstrap_servers, pool, stop=2 * COUNT, options=options)
        assert rows(fetcher) == [row for row in expected(*lost) if row[2] is None]
        options = replace(options, bad_records=BadRecords.FAIL)
        with pytest.raises(Exception, match="t 0") as raised:
            list(fetcher_of(server.bootstrap_servers, pool, stop=2 * COUNT, options=options).columns())
    if isinstance(raised.value, CorruptDataError) and fetch_bytes == 1 << 20:
        location = f"byte {log.at(min(lost), 0)} of the response to the fetch at offset 0"
        assert location in str(raised.value)
        assert "badRecords=null" in str(raised.value)
    [warning] = [item.getMessage() for item in caplog.records if "badRecords" in item.getMessage()]
    assert warning.startswith("badRecords=drop left out ")
    assert f"at offset {2 * lost[0]}" in warning


#: Bytes of a batch: those of the header lead to the next batch and to its offsets.
PAYLOADS, HEADERS = {"content": 80, "checksum": 17}, {"size": 11, "magic": 16, "last offset delta": 26}


@pytest.mark.parametrize("second", [*PAYLOADS, *HEADERS])
@pytest.mark.parametrize("first", [*PAYLOADS, *HEADERS])
def test_two_damaged_last_batches_are_rows_or_an_error(first: str, second: str, pool: Pool) -> None:
    places = {**PAYLOADS, **HEADERS}
    log = log_of((COUNT - 2, places[first]), (COUNT - 1, places[second]))
    with LogServer({"t": [log]}) as server:
        fetcher = fetcher_of(server.bootstrap_servers, pool, stop=2 * COUNT, options=NULL)
        # A size that is too large ends at the end of the log, too.
        if first in PAYLOADS and second in (*PAYLOADS, "size"):
            assert rows(fetcher) == expected(COUNT - 2, COUNT - 1)
            return
        with pytest.raises(CorruptDataError) as raised:
            rows(fetcher)
    offset = 2 * COUNT - 4
    assert f"records at offset {offset} are damaged" in str(raised.value)
    assert "badRecords cannot pass over them, because no sound batch" in str(raised.value)
    assert str(raised.value).endswith(f"a batch read with endingOffsets up to {offset} has what is before it")
    assert "set badRecords" not in str(raised.value)


def test_a_last_batch_whose_offset_is_not_in_the_log_is_an_error(pool: Pool) -> None:
    """It may have been appended while the fetch was answered, so it is no proof of damage."""
    with LogServer({"t": [log_of((39, 2))]}) as server:
        fetcher = fetcher_of(server.bootstrap_servers, pool, stop=2 * COUNT, options=NULL)
        with pytest.raises(Contradiction, match="at offset 78, but a batch of offsets 1099511627854"):
            rows(fetcher)


def test_damage_that_only_one_fetch_shows_is_no_bad_record(pool: Pool) -> None:
    log = log_of((7, 80))
    log.is_damaged = lambda reads: reads == 1
    with LogServer({"t": [log]}) as server:
        fetcher = fetcher_of(server.bootstrap_servers, pool, stop=2 * COUNT, options=DROP)
        assert rows(fetcher) == expected()


def test_damage_that_every_fetch_shows_elsewhere_is_an_error(pool: Pool) -> None:
    log = log_of((7, 80))
    places = list(log._flips)

    def moved(reads: int) -> bool:
        log._flips.clear()
        log._flips[places[0] + reads % 7] = 1
        return True

    log.is_damaged = moved
    with LogServer({"t": [log]}) as server:
        fetcher = fetcher_of(
            server.bootstrap_servers, pool, stop=2 * COUNT, options=replace(DROP, fetch_bytes=1 << 20)
        )
        with pytest.raises(
            SuspectedDamage, match=r"gave up after 4 attempts .*offset 14 are damaged: its CRC-32C is wrong"
        ):
            rows(fetcher)


def test_ranges_that_cut_a_damaged_batch_share_its_offsets(pool: Pool) -> None:
    with LogServer({"t": [log_of((7, 80))]}) as server:
        for start, stop, span in ((0, 15, (14, 15)), (15, 30, (15, 16))):
            fetcher = fetcher_of(server.bootstrap_servers, pool, start, stop, options=NULL)
            assert [row for row in rows(fetcher) if row[2]] == [(span[0], None, span)]


def test_a_row_has_the_bytes_up_to_the_limit_and_the_reason(pool: Pool) -> None:
    log = log_of((7, 80))
    with LogServer({"t": [log]}) as server:
        result = []
        for size in (16, 1 << 20):
            options = replace(NULL, corrupt_bytes_max=size)
            fetcher = fetcher_of(server.bootstrap_servers, pool, stop=2 * COUNT, options=options)
            result += [item.corrupt.to_pylist()[0] for item in fetcher.columns() if item.corrupt is not None]
    size = log.at(8, 0) - log.at(7, 0)
    assert [len(item["bytes"]) for item in result] == [16, size]
    assert result[1]["bytes"][:8] == (14).to_bytes(8, "big")
    assert result[0]["reason"] == f"its CRC-32C is wrong; {size} bytes"
    assert result[0]["schemaId"] is None


@pytest.mark.parametrize("codec", BY_NAME)
def test_what_cannot_be_decompressed_is_damage(
    codec: str, pool: Pool, caplog: pytest.LogCaptureFixture
) -> None:
    """The checksum of the batch is right."""
    good = [batch([record(0, value(offset))]) for offset in range(6)]
    bad = batch([record(0, b"v")], compression=codec, payload=b"\x01nothing compressed at all")
    with LogServer({"t": [MemoryLog(*good[:3], bad, *good[4:])]}) as server:
        result = rows(fetcher_of(server.bootstrap_servers, pool, stop=6, options=NULL))
    assert result == [(i, None, (i, i + 1)) if i == 3 else (i, value(i), None) for i in range(6)]
    assert any("damaged place" in item.getMessage() for item in caplog.records)


def test_records_whose_sizes_do_not_add_up_are_damage_of_the_whole_batch(pool: Pool) -> None:
    good = [batch([record(i, value(2 * n + i)) for i in range(2)]) for n in range(6)]
    bad = batch([record(0, value(6)), b"\x09" + record(1, value(7))])
    with LogServer({"t": [MemoryLog(*good[:3], bad, *good[4:])]}) as server:
        result = rows(fetcher_of(server.bootstrap_servers, pool, stop=12, options=NULL))
    assert result == expected(3, stop=12)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy"])
def test_damaged_messages_of_old_formats_cost_themselves_alone(magic: int, codec: str, pool: Pool) -> None:
    def outer(index: int) -> bytes:
        if codec == "none":
            return message(index, value(index), magic=magic)
        inner = b"".join(
            message(i if magic else 2 * index + i, value(2 * index + i), magic=magic) for i in range(2)
        )
        number = BY_NAME[codec].number
        return message(2 * index + 1, compressed(codec, inner), magic=magic, attributes=number)

    class OldLog(MemoryLog):
        def read(self, offset: int, _size_max: int, /) -> bytes:
            return b"".join(entries[offset // item :])

    item = 1 if codec == "none" else 2
    entries = [outer(index) for index in range(12)]
    entries[5] = entries[5][:-1] + bytes([entries[5][-1] ^ 1])
    log = OldLog()
    log.stop_offset = 12 * item
    with LogServer({"t": [log]}) as server:
        result = rows(fetcher_of(server.bootstrap_servers, pool, stop=12 * item, options=NULL))
    lost = (5 * item, 6 * item)
    good = [(i, value(i), None) for i in range(12 * item) if not lost[0] <= i < lost[1]]
    assert result == sorted([*good, (lost[0], None, lost)], key=lambda row: row[0])


@pytest.mark.parametrize("index", range(8))
def test_committed_records_come_around_damage(index: int, pool: Pool) -> None:
    """The damaged batch may be a marker: the broker says which transactions after it are aborted."""

    def data(producer: int, base: int) -> bytes:
        return batch([record(0, value(base))], base, attributes=TRANSACTIONAL, producer=(producer, 0, 0))

    batches = [
        data(1, 0), data(2, 1), marker(2, 1, 0), marker(3, 2, 1),
        data(1, 4), data(2, 5), marker(6, 1, 1), marker(7, 2, 1),
        data(2, 8), marker(9, 2, 1), data(3, 10), marker(11, 3, 1),
    ]  # fmt: skip
    log = DamagedLog(*batches, flips={})
    log._flips[log.at(index, 70)] = 1
    with LogServer({"t": [log]}) as server:

        def answer(asked: fetch.FetchPartition) -> dict[str, Any]:
            # As a broker does: the transactions that end at or after the fetch offset.
            is_listed = asked.fetch_offset <= 2
            entry = fetch.AbortedTransaction(producer_id=1, first_offset=0)
            return {"aborted_transactions": (entry,) if is_listed else ()}

        altered(server, answer)
        options = replace(NULL, isolation_level=READ_COMMITTED, fetch_bytes=1 << 20)
        result = rows(fetcher_of(server.bootstrap_servers, pool, stop=12, options=options))
    good = [(offset, value(offset), None) for offset in (1, 4, 5, 8, 10) if offset != index]
    assert result == sorted([*good, (index, None, (index, index + 1))], key=lambda row: row[0])


def test_memory_and_fetches_are_bounded_by_the_damage(pool: Pool) -> None:
    """Each response with damage is fetched twice, and no more."""
    log = log_of(*((index, 80) for index in range(0, COUNT, 2)))
    with LogServer({"t": [log]}) as server:
        fetcher = fetcher_of(server.bootstrap_servers, pool, stop=2 * COUNT, options=NULL)
        assert [row[2] for row in rows(fetcher) if row[2]] == [(2 * i, 2 * i + 2) for i in range(0, COUNT, 2)]
    assert fetcher.bytes_received < 6 * len(log._data)
