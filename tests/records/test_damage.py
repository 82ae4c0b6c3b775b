"""Walks over damaged logs: what is sound comes, what is damaged is named, and no row is made up."""

from __future__ import annotations

import struct

import pytest

from spark_kafkawire.records.damage import Damage, Walk, Whole
from spark_kafkawire.records.damaged_batches import index_of, walk_batches
from spark_kafkawire.records.message_set.index import walk_messages
from spark_kafkawire.records.record_log import decode_batches
from tests.records.batches import batch, record
from tests.records.damaged_logs import KINDS, check, damaged_log
from tests.support import message_sets
from tests.support.failing_case import failing_case
from tests.support.short_and_long import short_and_long


@short_and_long("count", short=30, long=4_400)
@pytest.mark.parametrize(("form", "codec", "is_mixed"), KINDS)
def test_flipped_bytes_cost_only_the_batches_they_are_in(
    form: int, codec: str, is_mixed: bool, count: int
) -> None:
    """The long form has 100,000 logs."""
    for seed in range(count):
        with failing_case(f"damaged_log({seed}, {form}, {codec!r}, is_mixed={is_mixed})"):
            check(damaged_log(seed, form, codec, is_mixed=is_mixed))


def _batches(count: int, base: int = 100, each: int = 2) -> list[bytes]:
    return [
        batch([record(i, b"value %d" % (base + n * each + i)) for i in range(each)], base + n * each)
        for n in range(count)
    ]


def _offsets(data: bytes, walk: Walk) -> list[int]:
    parts = [index_of(data, part) for part in walk.parts if isinstance(part, Whole)]
    return [offset for index in parts for item in decode_batches(index) for offset in item.offset.tolist()]


def _flipped(data: bytes, pos: int, bits: int = 1) -> bytes:
    return data[:pos] + bytes([data[pos] ^ bits]) + data[pos + 1 :]


def test_a_wrong_checksum_costs_its_batch_and_names_its_offsets() -> None:
    batches = _batches(4)
    size = len(batches[0])
    data = _flipped(b"".join(batches), size + 70)
    walk = walk_batches(data, 100)
    assert walk.damages == (Damage(size, 2 * size, 102, 104, "its CRC-32C is wrong"),)
    assert _offsets(data, walk) == [100, 101, 104, 105, 106, 107]


def test_gaps_of_a_compacted_log_are_no_damage() -> None:
    batches = _batches(9)
    data = b"".join(batches[::3])
    assert walk_batches(data, 90, 130).damages == ()


def test_batches_inside_of_a_damaged_value_are_no_rows() -> None:
    inner = b"".join(_batches(4, base=101, each=1))
    outer = batch([record(i, inner) for i in range(6)], 100)
    after = _batches(4, base=106)
    data = _flipped(outer, len(outer) - 1) + b"".join(after)
    walk = walk_batches(data, 100)
    assert _offsets(data, walk) == list(range(106, 114))
    assert [(item.start_offset, item.stop_offset) for item in walk.damages] == [(100, 106)]


def test_damage_without_a_place_where_the_log_continues_is_the_rest() -> None:
    batches = _batches(3)
    length = len(batches[0])
    data = _flipped(b"".join(batches), 2 * length + 70)
    walk = walk_batches(data, 100)
    assert (walk.size, walk.next_offset) == (2 * length, 104)
    assert walk.rest is not None
    assert (walk.rest.pos, walk.rest.reason) == (2 * length, "its CRC-32C is wrong")
    # The end of the log by another source proves it.
    assert walk_batches(data, 100, 106).damages == (
        Damage(2 * length, 3 * length, 104, 106, "its CRC-32C is wrong"),
    )
    assert walk_batches(data, 100, 110).rest is not None
    assert walk_batches(data, 100, 110, is_end=True).damages[0].stop_offset == 110


def test_headers_that_continue_each_other_prove_the_end_of_the_log() -> None:
    batches = _batches(4)
    length = len(batches[0])
    data = _flipped(_flipped(b"".join(batches), length + 70), 3 * length + 70)
    data = _flipped(data, 2 * length + 70)
    assert walk_batches(data, 100, 108).damages == (
        Damage(length, 4 * length, 102, 108, "its CRC-32C is wrong"),
    )
    assert walk_batches(data, 100, 109).rest is not None
    assert walk_batches(_flipped(data, 2 * length + 7), 100, 108).rest is not None
    # A changed size leads past the next batch, which is intact: the headers do not continue each other.
    longer = bytearray(_flipped(data, length + 70))
    struct.pack_into(">i", longer, 8, 2 * length - 12)
    assert walk_batches(longer, 100, 108).rest is not None


def test_a_known_boundary_proves_where_the_log_continues() -> None:
    batches = _batches(4)
    length = len(batches[0])
    data = bytearray(b"".join(batches[:2]) + b"".join(batches[2:])[:-1])
    struct.pack_into(">i", data, length + 8, -1)
    data[length + 70] ^= 1
    assert walk_batches(data, 100).rest is not None
    walk = walk_batches(data, 100, boundaries=[2 * length])
    assert _offsets(bytes(data), walk) == [100, 101, 104, 105]


def test_a_cut_end_of_a_segment_is_damage_only_where_the_end_is_known() -> None:
    batches = _batches(3)
    data = b"".join(batches)[:-5]
    assert walk_batches(data, 100).next_offset == 104
    assert walk_batches(data, 100).first is None
    assert (
        walk_batches(data, 100, 106, is_end=True).damages[0].reason == "it is longer than the rest of the log"
    )
    zeros = b"".join(batches) + bytes(40)
    assert walk_batches(zeros, 100, 106, is_end=True).damages == (
        Damage(3 * len(batches[0]), len(zeros), 106, 106, "it has a size that cannot be"),
    )


def test_records_that_were_refused_are_damage() -> None:
    batches = _batches(3)
    bad = batch([record(0, b"v")], 102, count=2, last_delta=1)
    data = batches[0] + bad + batches[2]
    crc = int.from_bytes(bad[17:21], "big")
    walk = walk_batches(data, 100, undecodable={(102, crc): "a reason"})
    assert walk.damages == (Damage(len(batches[0]), len(batches[0]) + len(bad), 102, 104, "a reason"),)


@pytest.mark.parametrize(
    "pattern", [b"\0", b"\0\0\0\x09\0", b"\0\0\0\x40\0\1", b"\xff", b"\0\0\0\0\0\0\1\0\0\0\x40\0\0\0\0\1"]
)
@pytest.mark.slow
def test_a_walk_over_anything_checks_a_bounded_number_of_bytes(pattern: bytes) -> None:
    data = pattern * ((1 << 17) // len(pattern))
    for walk in (walk_batches(data, 0), walk_messages(data, 0)):
        assert walk.rest is not None or walk.size < 64 or walk.damages


def test_a_budget_that_is_spent_costs_no_sound_batch() -> None:
    filler = b"\0\0\0\x40\0\1" * 60_000
    valid = b"".join(message_sets.message(b"value %d" % i) for i in range(3))
    walk = walk_messages(valid + message_sets.message(filler)[:-1] + b"x" + valid, 0)
    assert [type(part) for part in walk.parts] == [Whole, Damage, Whole]
