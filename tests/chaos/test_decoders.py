"""The decoders' differential fuzz runs, finds what it is there for, and its seeds run again the same."""

from __future__ import annotations

import pytest

from spark_kafkawire.errors import CorruptDataError, LimitError
from spark_kafkawire.records import checksum, compiler
from spark_kafkawire.records.log_index import MarkersDisagree
from tests.chaos import decoders
from tests.chaos.decoder_inputs import input_of
from tests.support.short_and_long import short_and_long

SEED = 10


@short_and_long("count", short=5_000, long=40_000)
def test_damaged_records_give_the_same_rows_or_error_compiled_and_interpreted(count: int) -> None:
    total = decoders.run_inputs(SEED, count)
    assert total.total() == count
    # Both ends are reached: inputs that are still whole, and damage of every kind.
    errors = (CorruptDataError, MarkersDisagree, LimitError)
    assert set(total) == {"rows", *(each.__name__ for each in errors)}
    assert total["rows"] > count / 4
    assert total[CorruptDataError.__name__] > count / 4
    assert total[LimitError.__name__] > count / 1000


def test_an_input_is_the_same_whenever_it_is_drawn() -> None:
    keys = [decoders.key_of(SEED, number) for number in range(200)]
    assert [input_of(key) for key in keys] == [input_of(key) for key in keys]
    assert len({input_of(key).data for key in keys}) > 190


def test_a_checksum_that_only_one_way_checks_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    compiler.load()
    right = checksum.first_mismatch

    def wrong(*arguments: object) -> int | None:
        return None if compiler.loaded() else right(*arguments)  # type: ignore[arg-type]

    for module in ("message_set.decoding", "legacy.decoding"):
        monkeypatch.setattr(f"spark_kafkawire.records.{module}.first_mismatch", wrong)
    _, found = decoders.differences(SEED, 0, 500)
    assert found
    assert all(line.startswith(f"input {SEED}:") and "CRC-32" in line for line in found)


def test_inputs_that_end_their_process_are_named() -> None:
    with pytest.raises(AssertionError, match=f"(?s)at the inputs from {SEED}:None on: .*numba is missing"):
        decoders.run_inputs(SEED, 1, {"NUMBA_DISABLE_JIT": "1"})
