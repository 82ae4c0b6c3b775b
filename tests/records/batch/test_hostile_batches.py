"""Any bytes in a Fetch response give rows or one of our errors, in bounded memory, both ways the same."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

from spark_kafkawire.errors import CorruptDataError, KafkaWireError, LimitError
from spark_kafkawire.records.limits import DecodeLimits
from spark_kafkawire.records.log_index import MarkersDisagree, index_batches
from spark_kafkawire.records.record_log import decode_batches
from tests.records.batches import Aborted, repaired
from tests.records.judges import Record, column_records
from tests.records.mutations import damaged_log, peak_rss_bytes
from tests.support.short_and_long import one_of

MUTATIONS = 20_000
LIMITS = DecodeLimits(decompressed_bytes_max=2**16, batch_bytes_max=300)
#: The error's class and message, and the rows before it; None without an error.
Outcome = tuple[type[KafkaWireError] | None, str, list[Record]]
BothWays = Callable[..., list[Any]]


def outcome(data: bytes, limits: DecodeLimits = LIMITS) -> Outcome:
    """All rows of the data, or the error in their place."""
    result = list[Record]()
    try:
        for columns in decode_batches(index_batches(data), 1, aborted=[Aborted(1, 5)], limits=limits):
            for array in (columns.keys, columns.values, columns.headers):
                if array is not None:
                    array.validate(full=True)
                    assert len(array) == columns.count
            result += column_records(columns)
    except KafkaWireError as error:
        return type(error), f"{error} ({getattr(error, 'offset', None)})", result
    return None, "", result


@one_of(16)
def test_mutations_give_the_same_compiled_and_interpreted(part: int, both_ways: BothWays) -> None:
    logs = [damaged_log(seed) for seed in range(part, MUTATIONS, 16)]
    both_ways(outcome, logs[:200])  # what compiling the kernels takes is not meant
    before = peak_rss_bytes()
    outcomes = both_ways(outcome, logs)
    assert peak_rss_bytes() - before < 64 * 2**20
    assert all("\n" not in what for _, what, _ in outcomes)
    # Both ends are reached: logs that are still whole, and damage of every kind.
    reached = Counter(kind for kind, _, _ in outcomes)
    assert set(reached) <= {None, CorruptDataError, MarkersDisagree, LimitError}
    assert reached[CorruptDataError] > 250
    assert reached[None] > 200


def test_random_bytes_neither_crash_nor_hang(both_ways: BothWays) -> None:
    chance = random.Random(0)
    logs = [chance.randbytes(8) + b"\0\0" + chance.randbytes(size) for size in range(500)]
    both_ways(outcome, logs + [repaired(data) for data in logs])
