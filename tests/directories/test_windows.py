"""Windows of a large file."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_kafkawire.directories.files import Files, FileSystemOptions, opened
from spark_kafkawire.directories.windows import windows


def _as_remote(folder: Path) -> Files:
    """The same folder through pyarrow, whose reads are requested ahead."""
    from pyarrow.fs import LocalFileSystem

    return Files("local", str(folder), False, LocalFileSystem())


@pytest.mark.parametrize("is_local", [True, False])
@pytest.mark.parametrize(
    ("pos", "stop"), [(0, 1000), (0, 1001), (7, 993), (5, 5), (999, 1000), (0, 64), (0, 65)]
)
def test_windows_are_the_bytes_of_the_file(tmp_path: Path, is_local: bool, pos: int, stop: int) -> None:
    data = bytes(index * 7 % 251 for index in range(1001))
    (tmp_path / "file").write_bytes(data)
    files = opened(str(tmp_path), FileSystemOptions()) if is_local else _as_remote(tmp_path)
    path = str(tmp_path / "file")
    found = [bytes(frame[start:]) for frame, start in windows(files, path, pos, stop, window_bytes=64)]
    assert b"".join(found) == data[pos:stop]
    assert all(len(each) == 64 for each in found[:-1])


@pytest.mark.parametrize("is_local", [True, False])
def test_a_file_that_ends_early_gives_what_it_has(tmp_path: Path, is_local: bool) -> None:
    (tmp_path / "file").write_bytes(bytes(100))
    files = opened(str(tmp_path), FileSystemOptions()) if is_local else _as_remote(tmp_path)
    found = [
        len(frame) - start for frame, start in windows(files, str(tmp_path / "file"), 0, 300, window_bytes=64)
    ]
    assert sum(found) == 100


@pytest.mark.parametrize("is_local", [True, False])
def test_a_missing_file_stays_one(tmp_path: Path, is_local: bool) -> None:
    files = opened(str(tmp_path), FileSystemOptions()) if is_local else _as_remote(tmp_path)
    with pytest.raises(FileNotFoundError):
        list(windows(files, str(tmp_path / "missing"), 0, 10))
