"""Any bytes give rows or one of our errors, in bounded memory; kernels do the same in both ways."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

from spark_kafkawire.errors import CorruptDataError, KafkaWireError
from spark_kafkawire.records.limits import DecodeLimits
from spark_kafkawire.records.message_set.decoding import decode
from spark_kafkawire.records.message_set.index import index_messages, message_size
from tests.records.message_set.trees import Row, column_rows
from tests.records.mutations import damaged_set, peak_rss_bytes
from tests.support.golden import CORPUS, SEGMENTS
from tests.support.short_and_long import one_of

MUTATIONS = 20_000
LIMITS = DecodeLimits(decompressed_bytes_max=2**20, depth_max=4, batch_bytes_max=2**20)
SMALL_BATCHES = DecodeLimits(decompressed_bytes_max=2**20, depth_max=4, batch_bytes_max=300)
#: The error's class and message, and the rows before it; None without an error.
Outcome = tuple[type[KafkaWireError] | None, str, list[Row]]
BothWays = Callable[..., list[Any]]


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


@one_of(16)
def test_mutations_give_the_same_compiled_and_interpreted(part: int, both_ways: BothWays) -> None:
    before = peak_rss_bytes()
    sets = [damaged_set(seed) for seed in range(part, MUTATIONS, 16)]
    limits = LIMITS if part % 2 else SMALL_BATCHES
    outcomes = both_ways(partial(outcome, limits=limits), sets)
    assert peak_rss_bytes() - before < 64 * 2**20
    assert all("\n" not in what for _, what, _ in outcomes)
    # Both ends are reached: sets that are still whole, and damage of every kind.
    reached = Counter(kind for kind, _, _ in outcomes)
    assert reached[CorruptDataError] > 250
    assert reached[None] > 250


def test_recorded_logs_decode_the_same_compiled_and_interpreted(both_ways: BothWays) -> None:
    paths = [*SEGMENTS.rglob("*.kafka"), *CORPUS.rglob("*.kafka")]
    assert len(paths) > 80
    outcomes = both_ways(outcome, [path.read_bytes() for path in paths])
    assert all(kind is None for kind, _, _ in outcomes)


def test_random_bytes_neither_crash_nor_hang(both_ways: BothWays) -> None:
    sets = [random.Random(size).randbytes(size) for size in range(1000)]
    both_ways(outcome, sets)
    for data in sets:
        assert index_messages(data).size <= size_or_error(data)


def size_or_error(data: bytes) -> int:
    try:
        return message_size(data) or 0
    except CorruptDataError:
        return 0
