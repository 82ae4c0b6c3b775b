"""Files that jobs write whole or not at all, and read up to a limit."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from spark_kafkawire.errors import LimitError, OptionError
from spark_kafkawire.jobs.shell import files
from spark_kafkawire.jobs.shell.files import read_file, write_file
from tests.support.special_files import KINDS, special_file


def test_what_is_written_is_read(tmp_path: Path) -> None:
    file = tmp_path / "offsets"
    for text in ("old\n", "new: größer\r\n"):
        write_file(file, text, "--export")
        assert read_file(file, "--import") == text
    assert [path.name for path in tmp_path.iterdir()] == ["offsets"]


def test_a_file_has_the_rights_that_any_new_file_has(tmp_path: Path) -> None:
    written, other = tmp_path / "written", tmp_path / "other"
    write_file(written, "", "--html")
    other.touch()
    assert stat.S_IMODE(written.stat().st_mode) == stat.S_IMODE(other.stat().st_mode)


def test_a_failure_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    file = tmp_path / "page.html"
    write_file(file, "old", "--html")
    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OptionError, match=r"^argument --html: .*page\.html: No space left on device$"):
        write_file(file, "new", "--html")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["old"]


def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    write_file(pipe, "text", "--export")
    reader.join()
    assert read == ["text"]
    assert pipe.is_fifo()


def test_a_pipe_that_nobody_reads_from_is_waited_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "PIPE_TIMEOUT_S", 0.1)
    pipe = special_file(tmp_path / "pipe", "pipe")
    with pytest.raises(
        OptionError,
        match=r"^argument --html: .*: it is a pipe that no process reads from for 0\.1 s; start the reader$",
    ):
        write_file(pipe, "text", "--html")


def test_a_pipe_is_read_to_its_end() -> None:
    """As of --options-file <(...)."""
    text = "k=v\n" * 100_000
    reader, writer = os.pipe()

    def write() -> None:
        with open(writer, "w") as file:
            file.write(text)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        assert read_file(Path(f"/dev/fd/{reader}"), "--options-file") == text
    finally:
        thread.join()
        os.close(reader)


def test_a_pipe_that_nobody_writes_to_or_that_does_not_end_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "PIPE_TIMEOUT_S", 0.1)
    pipe = special_file(tmp_path / "pipe", "pipe")
    with pytest.raises(
        OptionError,
        match=r"^argument --import: .*: it is a pipe that no process writes to; start the writer$",
    ):
        read_file(pipe, "--import")
    other = os.open(pipe, os.O_RDWR)
    try:
        os.write(other, b"k=v\n")
        with pytest.raises(
            OptionError, match=r"^argument --import: .*: it is a pipe that has no end after 0"
        ):
            read_file(pipe, "--import")
    finally:
        os.close(other)


@pytest.mark.parametrize("kind", ["socket", "device"])
def test_other_kinds_of_files_are_not_read(tmp_path: Path, kind: str) -> None:
    path = special_file(tmp_path / "it", kind)
    with pytest.raises(OptionError, match=rf"^argument --import: .*: {KINDS[kind]}$"):
        read_file(path, "--import")
    if kind == "socket":
        with pytest.raises(OptionError, match=rf"^argument --export: .*: {KINDS[kind]}$"):
            write_file(path, "text", "--export")


@pytest.mark.parametrize("write", [True, False])
def test_a_folder_is_no_file(write: bool, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"^argument --x: .*Is a directory$"):
        write_file(tmp_path, "", "--x") if write else read_file(tmp_path, "--x")


def test_a_file_may_not_be_larger_than_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "READ_SIZE_MAX", 4)
    file = tmp_path / "offsets"
    file.write_text("1234")
    assert read_file(file, "--import") == "1234"
    file.write_text("12345")
    with pytest.raises(
        LimitError, match=r"^argument --import: .* is larger than 4 bytes; give a smaller file$"
    ):
        read_file(file, "--import")
