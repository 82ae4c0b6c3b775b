"""Windows of a large file."""

from __future__ import annotations

from pathlib import Path

import fsspec
import pytest

from spark_kafkawire.directories.file_systems import ArrowFiles, FsspecFiles
from spark_kafkawire.directories.files import Files, FileSystemOptions, opened
from spark_kafkawire.directories.windows import windows


def _opened(kind: str, folder: Path) -> Files:
    """A local folder, also through pyarrow and fsspec, whose reads are requested ahead."""
    if kind == "arrow":
        from pyarrow.fs import LocalFileSystem

        return Files("local", str(folder), False, ArrowFiles(LocalFileSystem(), is_flat=False))
    if kind == "fsspec":
        return Files("local", str(folder), False, FsspecFiles(fsspec.filesystem("file"), "file"))
    return opened(str(folder), FileSystemOptions())


_KINDS = pytest.mark.parametrize("kind", ["local", "arrow", "fsspec"])


@_KINDS
@pytest.mark.parametrize(
    ("pos", "stop"), [(0, 1000), (0, 1001), (7, 993), (5, 5), (999, 1000), (0, 64), (0, 65)]
)
def test_windows_are_the_bytes_of_the_file(tmp_path: Path, kind: str, pos: int, stop: int) -> None:
    data = bytes(index * 7 % 251 for index in range(1001))
    (tmp_path / "file").write_bytes(data)
    files = _opened(kind, tmp_path)
    path = str(tmp_path / "file")
    found = [bytes(frame[start:]) for frame, start in windows(files, path, pos, stop, window_bytes=64)]
    assert b"".join(found) == data[pos:stop]
    assert all(len(each) == 64 for each in found[:-1])


@_KINDS
def test_a_file_that_ends_early_gives_what_it_has(tmp_path: Path, kind: str) -> None:
    (tmp_path / "file").write_bytes(bytes(100))
    files = _opened(kind, tmp_path)
    found = [
        len(frame) - start for frame, start in windows(files, str(tmp_path / "file"), 0, 300, window_bytes=64)
    ]
    assert sum(found) == 100


@_KINDS
def test_a_missing_file_stays_one(tmp_path: Path, kind: str) -> None:
    files = _opened(kind, tmp_path)
    with pytest.raises(FileNotFoundError):
        list(windows(files, str(tmp_path / "missing"), 0, 10))
