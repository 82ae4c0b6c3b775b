"""Each kernel does the same compiled and interpreted, and what a plain statement of it does."""

from __future__ import annotations

import random
import zlib
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from spark_kafkawire.records import compiler
from spark_kafkawire.records.checksum import library_address, slice_tables
from spark_kafkawire.records.message_set import kernels
from spark_kafkawire.records.message_set.index import byte_array
from tests.records.message_set.trees import message
from tests.records.mutations import damaged_set

pytestmark = pytest.mark.usefixtures("compiled")
SIZES = [0, 1, 2, 3, 4, 5, 15, 16, 17, 31, 33, 100, 255, 256, 257, 1000, 70_000]


def random_values(seed: int) -> list[bytes]:
    chance = random.Random(seed)
    return [chance.randbytes(size) for size in chance.sample(SIZES, len(SIZES))]


def offsets_of(values: list[bytes], dtype: Any) -> Any:
    return np.cumsum([0, *map(len, values)]).astype(dtype)


def test_all_kernels_are_compiled() -> None:
    # A kernel is known once its module is imported.
    for module in ("batch_kernels", "record_kernels", "write_kernels"):
        import_module(f"spark_kafkawire.records.{module}")
    assert {kernel.function.__name__ for kernel in compiler._kernels} >= {
        "walk",
        "gather",
        "crc_each",
        "check_each",
        "write_messages",
        "index_batches",
        "select_batches",
        "place_records",
        "read_records",
        "read_headers",
        "read_messages",
        "gather_spans",
        "plan_batches",
        "write_records",
        "size_headers",
        "write_headers",
    }
    assert all(kernel.compile() for kernel in compiler._kernels)


@pytest.mark.parametrize("seed", range(5))
def test_walk_does_the_same_both_ways_with_any_room(seed: int) -> None:
    for number in range(200):
        buf = byte_array(damaged_set(1000 * seed + number) * 3)
        cuts = sorted(random.Random(number).choices(range(len(buf) + 1), k=2))
        starts, stops = np.array([0, *cuts]), np.array([*cuts, len(buf)])
        for room in (1, 2, 50):
            results = []
            for run in (kernels.walk, kernels.walk.interpreted):
                columns: Any = [np.zeros(room, t) for t in "qqqIBBq"]
                values = np.zeros(len(buf), np.uint8)
                stopped = run(buf, starts, stops, 0, 0, 0, 0, values, *columns)
                results.append((stopped, [c.tolist() for c in (values, *columns)]))
            assert results[0] == results[1]
            (_, region, pos, row, value_pos), (copied, *found) = results[0]
            _, payload_starts, payload_sizes, _, _, attributes, _ = (column[:row] for column in found)
            plain = [
                buf[start : start + size].tobytes()
                for start, size, bits in zip(payload_starts, payload_sizes, attributes, strict=True)
                if bits & 3 == 0
            ]
            assert bytes(copied[:value_pos]) == b"".join(plain)
            assert 0 <= region <= 3
            assert 0 <= pos <= len(buf)
            assert row <= room


@pytest.mark.parametrize("values", [[], [b""], [bytes(2**24 + 3), b"x"], *map(random_values, range(5))])
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


def test_the_library_s_crc_is_called_where_it_can_be() -> None:
    assert library_address()


@pytest.mark.parametrize("library", [library_address(), 0], ids=["library", "tables"])
@pytest.mark.parametrize("values", [[], [b""], *map(random_values, range(5))])
def test_the_crc_of_each_value_is_that_of_zlib(values: list[bytes], library: int) -> None:
    buf, offsets = byte_array(b"".join(values)), offsets_of(values, np.int64)
    expected = np.array([zlib.crc32(value) for value in values], np.uint32)
    each: tuple[Any, ...] = (kernels.crc_each, kernels.crc_each.interpreted)
    for run in each:
        crcs = np.zeros(len(values), np.uint32)
        run(buf, offsets, slice_tables(), library, crcs)
        assert crcs.tolist() == expected.tolist()
    for check in (kernels.check_each, kernels.check_each.interpreted):
        arguments = offsets[:-1].copy(), np.diff(offsets)
        assert check(buf, *arguments, expected, slice_tables(), library) == -1
        for row in range(len(values)):
            wrong = expected.copy()
            wrong[row:] ^= 1 << row
            assert check(buf, *arguments, wrong, slice_tables(), library) == row


@pytest.mark.parametrize("values", [[], [b""], *map(random_values, range(5))])
def test_written_messages_are_those_of_the_format(values: list[bytes]) -> None:
    crcs = np.array([zlib.crc32(value) for value in values], np.uint32)
    expected = b"".join(map(message, values))
    for run in (kernels.write_messages, kernels.write_messages.interpreted):
        written = np.zeros(len(expected), np.uint8)
        run(byte_array(b"".join(values)), offsets_of(values, np.int64), crcs, written)
        assert written.tobytes() == expected
