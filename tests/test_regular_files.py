"""Only regular files are opened by a user's path: anything else is an error at once, and never waited for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from spark_kafkawire.errors import OptionError
from spark_kafkawire.kept import Kept, forget_all
from spark_kafkawire.options import ReadOptions
from spark_kafkawire.regular_files import open_regular
from tests.support.special_files import KINDS, special_file


@pytest.mark.parametrize("append", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_file_that_is_not_regular_is_named_by_its_kind(tmp_path: Path, kind: str, append: bool) -> None:
    path = special_file(tmp_path / "it", kind)
    with pytest.raises(OSError, match=KINDS[kind]) as refused:
        open_regular(path, append=append)
    assert refused.value.filename == str(path)


def test_a_pipe_with_both_ends_is_no_regular_file_either(tmp_path: Path) -> None:
    path = special_file(tmp_path / "it", "pipe")
    other = os.open(path, os.O_RDWR)
    try:
        for append in (False, True):
            with pytest.raises(OSError, match="it is a pipe, and a regular file is needed"):
                open_regular(path, append=append)
    finally:
        os.close(other)


def test_what_is_appended_is_read(tmp_path: Path) -> None:
    for text in (b"one\n", b"two\n"):
        with open_regular(tmp_path / "file", append=True) as file:
            file.write(text)
    with open_regular(tmp_path / "file") as file:
        assert file.read() == b"one\ntwo\n"
    with pytest.raises(FileNotFoundError):
        open_regular(tmp_path / "other")


@pytest.mark.parametrize("store", ["truststore", "keystore"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_store_of_certificates_is_a_regular_file(tmp_path: Path, kind: str, store: str) -> None:
    path = special_file(tmp_path / "it", kind)
    options = {
        "kafka.bootstrap.servers": "h:9093",
        "subscribe": "t",
        "kafka.security.protocol": "SSL",
        f"kafka.ssl.{store}.location": str(path),
    }
    with pytest.raises(OptionError) as refused:
        ReadOptions.parse(options)
    assert str(refused.value) == (
        f"option kafka.ssl.{store}.location: '{path}' cannot be read on the driver: {KINDS[kind]}; "
        "give the path of a store that is on the driver"
    )


# --- Caches of a process: how many values they keep, for how long, and that all are emptied ---


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
