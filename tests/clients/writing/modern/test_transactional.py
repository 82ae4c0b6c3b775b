"""Writes that are there wholly or not at all, in every order of events of a small case; see the model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import pytest

from spark_kafkawire.clients.writing.modern.transactional.driver import Driver, DriverStep
from spark_kafkawire.clients.writing.modern.transactional.task import TaskStep, TaskTransaction

from . import transaction_model as model
from .transaction_model import PREFIX, Brokers, Fault, World, explore

#: A batch that is run until it is there, and one that is given up where it fails, for another one.
RUN_AGAIN: Final = ("a",)
GIVEN_UP: Final = ("a", "b")


def world(version: int, batches: tuple[str, ...], is_stream: bool, **happens: Any) -> World:
    return World(Brokers(version), batches, is_stream, Driver.begin(PREFIX), **happens)


@pytest.mark.parametrize("is_stream", [False, True], ids=["batch", "stream"])
@pytest.mark.parametrize("batches", [RUN_AGAIN, GIVEN_UP], ids=["run again", "given up"])
@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(
    "happens",
    [{"crashes": 1}, {"twins": 1}, {"timeouts": 1}],
    ids=["a crash", "a second attempt", "a timeout"],
)
def test_whatever_happens_in_whichever_order_all_rows_are_there_once_or_none(
    version: int, batches: tuple[str, ...], is_stream: bool, happens: dict[str, int]
) -> None:
    # So many, or the model does not go far.
    assert explore(world(version, batches, is_stream, **happens)) > 300


def without_looking(task: TaskTransaction, _records: Any) -> TaskTransaction:
    return replace(task, step=TaskStep.WRITE)


def without_record(task: TaskTransaction, _rows: int, _size: int, _topic: str) -> TaskTransaction:
    return replace(task, step=TaskStep.DONE)


def without_finishing(driver: Driver, last: Any) -> Driver:
    return replace(driver, last=last, step=DriverStep.READY, due=())


def without_decision(driver: Driver) -> Driver:
    return replace(driver, last=DECIDE(driver).last)._finish()


def before_all_is_complete(driver: Driver) -> Driver:
    return driver._mark()


def without_reading(driver: Driver, write: Any) -> Driver:
    return replace(driver, write=write)._abort("the write failed")


def with_one_id_for_all_attempts(run: int, task: int, _number: int, batch: Any) -> TaskTransaction:
    return MACHINE(run, task, 0, batch)


DECIDE: Final = Driver._decide
MACHINE: Final = model._machine


@pytest.mark.parametrize(
    ("place", "name", "mutant", "happens"),
    [
        (TaskTransaction, "_told", without_looking, {"crashes": 1}),
        (TaskTransaction, "wrote", without_record, {"crashes": 1}),
        (Driver, "_settled", without_finishing, {"crashes": 1}),
        (Driver, "_decide", without_decision, {"crashes": 1}),
        (Driver, "_complete", before_all_is_complete, {"crashes": 1}),
        (Driver, "undo", without_reading, {"timeouts": 1}),
        (model, "_machine", with_one_id_for_all_attempts, {"twins": 1}),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_the_model_finds_what_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
    place: Any,
    name: str,
    mutant: Callable[..., Any],
    happens: dict[str, int],
) -> None:
    monkeypatch.setattr(place, name, mutant)
    with pytest.raises(Fault):
        explore_all(happens)


def explore_all(happens: dict[str, int]) -> None:
    for is_stream in (False, True):
        for batches in (RUN_AGAIN, GIVEN_UP):
            explore(world(1, batches, is_stream, **happens))
