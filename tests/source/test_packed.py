"""A value that is unpickled where it is looked at."""

from __future__ import annotations

import pickle

import pytest

from spark_kafkawire.source.worker import Packed


class Fragile:
    """Breaks what unpickles it."""

    def __reduce__(self) -> tuple[object, ...]:
        return int, ("no number",)


def test_a_value_travels_however_often() -> None:
    packed = Packed((1, "a"))
    for _ in range(3):
        packed = pickle.loads(pickle.dumps(packed))
    assert packed.value == (1, "a")
    assert pickle.loads(pickle.dumps(packed)).value == (1, "a")


def test_a_value_that_nobody_looks_at_is_not_unpickled() -> None:
    arrived = pickle.loads(pickle.dumps(Packed(Fragile())))
    again = pickle.loads(pickle.dumps(arrived))
    with pytest.raises(ValueError, match="no number"):
        _ = again.value


def test_what_a_value_has_learned_travels_with_it() -> None:
    packed: Packed[list[int]] = pickle.loads(pickle.dumps(Packed([1])))
    packed.value.append(2)
    assert pickle.loads(pickle.dumps(packed)).value == [1, 2]
