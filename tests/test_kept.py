"""Caches of a process: how many values they keep, for how long, and that all are emptied."""

from __future__ import annotations

import pytest

from spark_kafkawire.kept import Kept, forget_all


def test_the_newest_values_are_kept() -> None:
    cache = Kept[int, str](2)
    assert [cache.keep(key, str(key)) for key in (1, 2, 3)] == ["1", "2", "3"]
    assert [cache.get(key) for key in (1, 2, 3)] == [None, "2", "3"]
    cache.keep(2, "renewed")
    cache.keep(4, "4")
    assert [cache.get(key) for key in (2, 3, 4)] == ["renewed", None, "4"]


@pytest.mark.parametrize(("counts_sleep", "clock"), [(False, "monotonic"), (True, "time")])
def test_a_value_is_renewed_before_it_ends(
    counts_sleep: bool, clock: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = Kept[str, str](counts_sleep=counts_sleep)
    monkeypatch.setattr(f"spark_kafkawire.kept.time.{clock}", lambda: 100.0)
    cache.keep("ticket", "old", used_s=8, lasts_s=10)
    cache.keep("schema", "lasting")
    for now_s, used, valid in ((107.9, "old", "old"), (108.0, None, "old"), (110.0, None, None)):
        monkeypatch.setattr(f"spark_kafkawire.kept.time.{clock}", lambda now_s=now_s: now_s)
        assert (cache.get("ticket"), cache.last("ticket")) == (used, valid)
        assert cache.get("schema") == cache.last("schema") == "lasting"


def test_values_are_forgotten_by_their_keys_or_all_at_once() -> None:
    caches = [Kept[int, str](), Kept[int, str]()]
    for cache in caches:
        cache.keep(1, "one")
        cache.keep(2, "two")
    caches[0].forget(lambda key: key == 1)
    assert [cache.get(1) for cache in caches] == [None, "one"]
    assert [cache.get(2) for cache in caches] == ["two", "two"]
    forget_all()
    assert [cache.get(2) for cache in caches] == [None, None]
