"""The table of ``--only peer``, with rows per second, and its bars."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pytest

from . import bars
from .measure import Figure, Took

ROWS = 1_000_000
WRITE = "write: kafkawire, less the rows, to Spark's connector, less the rows"


def took(**changed: float) -> dict[str, Took]:
    """A second each, but for some kinds (by the name of their constant)."""
    kinds = ("READY", "READY_VALUES", "THEIRS", "THEIR_VALUES", "OURS", "OUR_VALUES", "CONFLUENT")
    writes = ("ROWS_ALONE", "COUNTED", "THEIR_WRITE", "OUR_WRITE")
    cpu_ns = {"jvm": 100, "worker": 20, "other": 3, "broker": 4, "planner": 1}
    return bars.with_differences(
        {getattr(bars, name): Took(ROWS, changed.get(name, 1.0), cpu_ns) for name in (*kinds, *writes)}
    )


def figure(name: str, measured: Mapping[str, Took], value_size: int = 100) -> Figure:
    [found] = [each for each in bars.bars(value_size, measured) if each.name == f"{value_size} B, {name}"]
    return found


def test_a_read_is_held_against_ready_made_batches_of_all_columns() -> None:
    name = "read: kafkawire, to ready-made batches"
    assert figure(name, took(OURS=1.25)).value == pytest.approx(0.8)
    assert not figure(name, took(OURS=1.12)).reached
    assert figure(name, took(OURS=1.11)).reached
    assert figure(name, took(OURS=1.17), 1024).reached
    assert not figure(name, took(OURS=1.18), 1024).reached


def test_a_write_is_held_against_the_connectors_with_the_cost_of_the_rows_off() -> None:
    def reached(seconds: float, value_size: int) -> bool | None:
        return figure(WRITE, took(ROWS_ALONE=1.0, THEIR_WRITE=5.0, OUR_WRITE=seconds), value_size).reached

    assert figure(WRITE, took(ROWS_ALONE=1.0, THEIR_WRITE=5.0, OUR_WRITE=2.0)).value == pytest.approx(4.0)
    assert (reached(3.0, 100), reached(3.1, 100)) == (True, False)
    assert (reached(3.6, 1024), reached(3.7, 1024)) == (True, False)


def test_rows_that_are_fewer_are_compared_by_the_second() -> None:
    some = took()
    some[bars.CONFLUENT] = Took(ROWS // 10, 1.0, {})
    assert figure("read: kafkawire, to confluent-kafka, one process", some).value == pytest.approx(10.0)


def test_the_cost_of_rows_is_taken_off_by_the_row() -> None:
    write, rows_alone = Took(ROWS // 2, 3.0, {}), Took(ROWS, 2.0, {})
    assert bars.less(write, rows_alone).seconds == pytest.approx(2.0)
    assert bars.less(write, rows_alone).rows_per_s == pytest.approx(ROWS / 4)


def test_a_write_that_takes_no_longer_than_its_rows_reaches_nothing() -> None:
    found = figure(WRITE, took(OUR_WRITE=1.0, THEIR_WRITE=5.0))
    assert math.isnan(found.value)
    assert found.reached is False


def test_the_table_has_a_row_for_each_kind_and_columns_for_each_size() -> None:
    header, rows = bars.table({100: took(OURS=0.5), 1024: took(OURS=2.0)})
    assert [cell.partition(":")[0] for cell in header] == [
        "",
        "100 B",
        "s",
        "CPU ns/row",
        "1024 B",
        "s",
        "CPU ns/row",
    ]
    assert all(len(row) == len(header) for row in rows)
    of_kind = {row[0]: row[1:] for row in rows}
    assert of_kind["read: kafkawire"] == ["2.00", "0.50", "100 + 23 + 4", "0.50", "2.00", "100 + 23 + 4"]
    assert of_kind["write: kafkawire, less the rows"] == ["inf", "0.00", "", "inf", "0.00", ""]
