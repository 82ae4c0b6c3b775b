"""Any bytes give rows or one of our errors, in bounded memory; kernels do the same in both ways."""

from __future__ import annotations

import random
import resource
import zlib
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from spark_kafkawire.errors import CorruptDataError, KafkaWireError
from spark_kafkawire.records.arrays import byte_array
from spark_kafkawire.records.checksum import library_address
from spark_kafkawire.records.limits import DecodeLimits
from spark_kafkawire.records.message_set import kernels
from spark_kafkawire.records.message_set.decoding import decode
from spark_kafkawire.records.message_set.index import index_messages, message_size
from tests.records.message_set.trees import Row, column_rows, message
from tests.records.mutations import damaged_set
from tests.support.cases import for_each
from tests.support.golden import CORPUS, SEGMENTS, read_json
from tests.support.short_and_long import one_of

MUTATIONS = 20_000
LIMITS = DecodeLimits(decompressed_bytes_max=2**20, depth_max=4, batch_bytes_max=2**20)
SMALL_BATCHES = DecodeLimits(decompressed_bytes_max=2**20, depth_max=4, batch_bytes_max=300)
#: The error's class and message, and the rows before it; None without an error.
Outcome = tuple[type[KafkaWireError] | None, str, list[Row]]
BothWays = Callable[[Callable[[], Any]], tuple[Any, Any]]


def outcome(data: bytes, limits: DecodeLimits = LIMITS) -> Outcome:
    """All rows of the data, or the error in their place."""
    found, pos, cut = list[Row](), 0, False
    try:
        while not cut:
            decoded = decode(data[pos:], pos, limits)
            if decoded.columns.values is not None:
                decoded.columns.values.validate(full=True)
            found += column_rows(decoded.columns)
            pos, cut = pos + decoded.size, decoded.cut
            assert decoded.size or cut, "decode neither advances nor ends"
    except KafkaWireError as error:
        return type(error), f"{error} ({getattr(error, 'offset', None)})", found
    return None, f"{pos} bytes", found


def both_outcomes(both_ways: BothWays, sets: list[bytes], limits: DecodeLimits = LIMITS) -> list[Outcome]:
    """The outcome of each set, after comparing compiled and interpreted kernels."""

    def outcomes() -> list[Outcome]:
        return [outcome(data, limits) for data in sets]

    compiled: list[Outcome]
    compiled, interpreted = both_ways(outcomes)
    for i, data in enumerate(sets):
        assert compiled[i] == interpreted[i], data.hex()
    return compiled


def peak_rss_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@one_of(16)
def test_mutations_give_the_same_rows_or_error_compiled_and_interpreted(
    part: int, both_ways: BothWays
) -> None:
    before = peak_rss_bytes()
    sets = [damaged_set(seed) for seed in range(part, MUTATIONS, 16)]
    outcomes = both_outcomes(both_ways, sets, LIMITS if part % 2 else SMALL_BATCHES)
    assert peak_rss_bytes() - before < 64 * 2**20
    assert all("\n" not in what for _, what, _ in outcomes)
    # Both ends are reached: sets that are still whole, and damage of every kind.
    reached = Counter(kind for kind, _, _ in outcomes)
    assert reached[CorruptDataError] > 250
    assert reached[None] > 250


@pytest.mark.parametrize(
    "data", [bytes.fromhex(item["hex"]) for item in read_json("jvm_encodings.json") if "decoded" in item]
)
def test_every_truncation_of_a_recorded_set_gives_its_whole_messages(
    data: bytes, both_ways: BothWays
) -> None:
    _, _, whole = outcome(data)
    sizes = range(len(data)) if len(data) < 1000 else random.Random(0).sample(range(len(data)), 100)
    for size, (kind, _, rows) in zip(
        sizes, both_outcomes(both_ways, [data[:size] for size in sizes]), strict=True
    ):
        assert kind is None
        assert rows == [row for row in whole if row[2] <= size]


def test_recorded_logs_decode_the_same_compiled_and_interpreted(both_ways: BothWays) -> None:
    paths = [*SEGMENTS.rglob("*.kafka"), *CORPUS.rglob("*.kafka")]
    assert len(paths) > 80
    outcomes = both_outcomes(both_ways, [path.read_bytes() for path in paths])
    assert all(kind is None for kind, _, _ in outcomes)


def test_random_bytes_neither_crash_nor_hang(both_ways: BothWays) -> None:
    sets = [random.Random(size).randbytes(size) for size in range(1000)]
    both_outcomes(both_ways, sets)
    for data in sets:
        assert index_messages(data).size <= size_or_error(data)


def size_or_error(data: bytes) -> int:
    try:
        return message_size(data) or 0
    except CorruptDataError:
        return 0


SIZES = [0, 1, 2, 3, 4, 5, 15, 16, 17, 31, 33, 100, 255, 256, 257, 1000, 5000]


def random_values(seed: int) -> list[bytes]:
    chance = random.Random(seed)
    return [chance.randbytes(size) for size in chance.sample(SIZES, len(SIZES))]


def offsets_of(values: list[bytes], dtype: Any) -> Any:
    return np.cumsum([0, *map(len, values)]).astype(dtype)


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("seed", range(5))
def test_indexing_does_the_same_both_ways_with_any_room(seed: int) -> None:
    for number in range(200):
        buf = byte_array(damaged_set(1000 * seed + number) * 3)
        cuts = sorted(random.Random(number).choices(range(len(buf) + 1), k=2))
        starts, stops = np.array([0, *cuts]), np.array([*cuts, len(buf)])
        for room in (1, 2, 50):
            results = []
            for run in (kernels.index_messages, kernels.index_messages.interpreted):
                columns: Any = [np.zeros(room, t) for t in "qqqIBBq"]
                stopped = run(buf, starts, stops, 0, 0, 0, *columns)
                results.append((stopped, [c.tolist() for c in columns]))
            assert results[0] == results[1]
            _, region, pos, row = results[0][0]
            assert 0 <= region <= 3
            assert 0 <= pos <= len(buf)
            assert row <= room


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("seed", range(5))
def test_plain_messages_are_read_as_they_are_indexed_with_any_room(seed: int) -> None:
    codes = set()
    for number in range(200):
        buf = byte_array(damaged_set(1000 * seed + number) * 3)
        for room in (1, 2, 50):
            results = []
            for run in (kernels.read_plain, kernels.read_plain.interpreted):
                values = np.zeros(len(buf), np.uint8)
                columns: Any = [np.zeros(room, np.int64), np.zeros(room, np.int64), np.zeros(room, np.int32)]
                stopped = run(buf, 0, 0, 0, -1, 1000, library_address(), values, *columns)
                results.append((stopped, [column.tolist() for column in (values, *columns)]))
            assert results[0] == results[1]
            (code, pos, row, value_pos, wrong_row), (copied, *found) = results[0]
            codes.add(code)
            index = index_messages(buf.data, row)
            plain = [
                buf[start : start + size].tobytes()
                for start, size in zip(index.payload_pos, index.payload_size, strict=True)
            ]
            assert index.count == row
            assert not index.codec.any()
            assert bytes(copied[:value_pos]) == b"".join(plain)
            offsets, next_offsets, value_offsets = (column[:row] for column in found)
            assert offsets == (index.pos + 1000).tolist()
            assert next_offsets == (index.next_pos + 1000).tolist()
            assert value_offsets == offsets_of(plain, np.int32)[:-1].tolist()
            wrong = [i for i, value in enumerate(plain) if zlib.crc32(value) != index.crc[i]]
            assert wrong_row == (wrong[0] if wrong else -1)
            if code == kernels.COMPRESSED:
                assert index_messages(buf[pos:].data, 1).codec.any()
            elif code != kernels.ROWS_FULL:
                assert index_messages(buf[pos:].data).count == 0
    assert codes >= {kernels.END, kernels.CUT, kernels.ROWS_FULL, kernels.COMPRESSED, kernels.BAD_LENGTH}


@pytest.mark.usefixtures("compiled")
@for_each("values", [[], [b""], [bytes(2**24 + 3), b"x"], *map(random_values, range(5))])
def test_gather_copies_spans_in_any_order(values: list[bytes]) -> None:
    buf = byte_array(b"".join(values))
    offsets = offsets_of(values, np.int64)
    order = random.Random(0).sample(range(len(values)), len(values))
    starts, sizes = offsets[:-1][order].copy(), np.diff(offsets)[order].copy()
    expected = b"".join(values[i] for i in order)
    runs: list[Any] = [kernels.gather, kernels.gather.interpreted]
    for run in runs:
        gathered, ends = np.empty(len(buf), np.uint8), np.empty(len(values) + 1, np.int32)
        run(buf, starts, sizes, gathered, ends)
        assert gathered.tobytes() == expected
        assert ends.tolist() == offsets_of([values[i] for i in order], np.int32).tolist()


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("values", [[], [b""], *map(random_values, range(5))])
def test_written_messages_are_those_of_the_format(values: list[bytes]) -> None:
    crcs = np.array([zlib.crc32(value) for value in values], np.uint32)
    expected = b"".join(map(message, values))
    for run in (kernels.write_messages, kernels.write_messages.interpreted):
        written = np.zeros(len(expected), np.uint8)
        run(byte_array(b"".join(values)), offsets_of(values, np.int64), crcs, written)
        assert written.tobytes() == expected
