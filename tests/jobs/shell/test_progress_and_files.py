"""Progress of a job: a bar on a terminal, lines elsewhere, nothing with ``--quiet``; aligned lines; and files
that jobs write whole or not at all, and read up to a limit."""

from __future__ import annotations

import io
import os
import stat
import threading
from pathlib import Path

import pytest

from spark_kafkawire.errors import LimitError, OptionError
from spark_kafkawire.jobs import files
from spark_kafkawire.jobs.files import read_file, write_file
from spark_kafkawire.jobs.progress import Bar, Lines, Progress, Work, align_rows, progress_on, repeating
from spark_kafkawire.jobs.progress import format_duration as time_text
from spark_kafkawire.jobs.progress import format_size as size_text
from tests.support.special_files import KINDS, special_file


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_work_tells_messages_size_rate_and_time_left(clock: Clock) -> None:
    work = Work(messages_total=4000, size_total=None, clock=clock)
    assert str(work) == "0 messages"
    work.advance(messages=1000, size=3 << 20)
    clock.now_s += 20
    assert work.fraction == 0.25
    assert str(work) == "1,000 messages, 3.0 MiB, 50 messages/s, 1:00 left"
    # Nothing is guessed of an unknown size.
    unknown = Work(None, None, clock)
    unknown.advance(messages=10)
    clock.now_s += 5
    assert (unknown.fraction, str(unknown)) == (None, "10 messages, 2 messages/s")
    # The best known fraction counts, and is never more than all.
    both = Work(messages_total=100, size_total=1000, clock=clock)
    both.advance(messages=10, size=300)
    assert both.fraction == 0.3
    both.set_to(10, 300, 2, 4)
    assert both.fraction == 0.5
    both.advance(messages=200)
    assert both.fraction == 1.0
    # What nobody counts is not shown.
    uncounted = Work(None, None, clock)
    uncounted.set_to(None, 0, 0, 0)
    assert str(uncounted) == "0 of 0 tasks"
    clock.now_s += 30
    uncounted.set_to(None, 3 << 20, 1, 4)
    assert str(uncounted) == "1 of 4 tasks, 3.0 MiB, 1:30 left"


def test_what_is_shown_never_goes_back(clock: Clock) -> None:
    work = Work(None, None, clock)
    shown = []
    looks = [(0, 0, 0, 0), (80, 8, 2, 4), (100, 10, 4, 4), (90, 4, 4, 16), (200, 20, 0, 0)]
    for look in looks:
        work.set_to(*look)
        shown.append((work.messages, work.size, work.fraction))
    assert shown == [(0, 0, None), (80, 8, 0.5), (100, 10, 1.0), (100, 10, 1.0), (200, 20, 1.0)]


def test_threads_add_up() -> None:
    work = Work(None, None)

    def run() -> None:
        for _ in range(1000):
            work.advance(1, 2)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (work.messages, work.size) == (4000, 8000)


def test_lines_come_at_intervals(clock: Clock) -> None:
    stream = io.StringIO()
    lines = Lines(stream, "copy", clock)
    work = Work(messages_total=1000, size_total=None, clock=clock)
    lines.say("reading ...")
    for _ in range(25):
        clock.now_s += 1
        work.advance(messages=10)
        lines.show("reading", work)
    assert stream.getvalue().splitlines() == [
        "copy: reading ...",
        "copy: reading: 10%, 100 messages, 10 messages/s, 1:30 left",
        "copy: reading: 20%, 200 messages, 10 messages/s, 1:20 left",
    ]


def test_a_line_comes_only_after_progress(clock: Clock) -> None:
    stream = io.StringIO()
    lines = Lines(stream, "copy", clock)
    work = Work(messages_total=1000, size_total=None, clock=clock)
    for messages in (0, 0, 10, 10, 10, 20):
        clock.now_s += 10
        work.set_to(messages, 0, 0, 2)
        lines.show("reading", work)
    clock.now_s += 10
    lines.show("comparing", Work(messages_total=1000, size_total=None, clock=clock))
    assert [line.split(",")[1] for line in stream.getvalue().splitlines()] == [" 10 messages", " 20 messages"]


def test_a_terminal_gets_a_bar_that_leaves_the_lines() -> None:
    stream = Terminal()
    work = Work(messages_total=4, size_total=None)
    work.advance(messages=1)
    bar = Bar(stream, "copy")
    bar.say("reading [all] ...")
    bar.show("reading", work)
    bar.close()
    text = stream.getvalue()
    assert "copy: reading [all] ..." in text
    assert "25%" in text
    assert "1 message" in text


def test_the_stream_decides_what_is_shown() -> None:
    for stream in (io.StringIO(), Terminal()):
        with progress_on(stream, "copy", quiet=True) as progress, progress.work("reading") as work:
            work.advance(1)
        assert stream.getvalue() == ""
    # Without a display work is counted all the same.
    with Progress().work("reading") as work:
        work.advance(messages=3)
    assert work.messages == 3
    plain = io.StringIO()
    with progress_on(plain, "ingest") as progress:
        progress.step("asking g\x1b[31m\r\n")
        with progress.work("reading t\x00\u202e") as work:
            work.advance(1)
    assert plain.getvalue().splitlines() == [
        "ingest: asking g\\x1b[31m\\r\\n ...",
        "ingest: reading t\\x00\\u202e ...",
    ]


def test_what_repeats_is_called_while_the_block_runs_and_after_it() -> None:
    calls = threading.Semaphore(0)
    count = 0

    def look() -> None:
        nonlocal count
        count += 1
        calls.release()

    with repeating(look, 0.001):
        assert calls.acquire(timeout=90)
    before = count
    assert before >= 2
    assert count == before


def test_an_error_ends_the_work_it_came_from() -> None:
    progress = progress_on(io.StringIO(), "copy")
    with pytest.raises(ZeroDivisionError), progress, progress.work("reading"):
        raise ZeroDivisionError
    assert not [thread for thread in threading.enumerate() if thread.name == "kafkawire-progress"]


def test_sizes_have_a_unit_and_times_are_read_at_a_glance() -> None:
    sizes = 0, 1023, 1024, 5 << 30, 1 << 60
    assert [*map(size_text, sizes)] == ["0 B", "1023 B", "1.0 KiB", "5.0 GiB", "1048576.0 TiB"]
    assert [*map(time_text, (0.4, 61, 3723.4))] == ["0:00", "1:01", "1:02:03"]


def test_align_words_left_and_numbers_right() -> None:
    assert align_rows([]) == []
    assert align_rows([["a", "1,000 messages", ""], ["longer", "5 messages", "equal"]]) == [
        "a       1,000 messages",
        "longer      5 messages  equal",
    ]


def test_what_is_written_is_read(tmp_path: Path) -> None:
    """The file has the rights that any new file has."""
    file = tmp_path / "offsets"
    for text in ("old\n", "new: größer\r\n"):
        write_file(file, text, "--export")
        assert read_file(file, "--import") == text
    assert [path.name for path in tmp_path.iterdir()] == ["offsets"]
    (other := tmp_path / "other").touch()
    assert stat.S_IMODE(file.stat().st_mode) == stat.S_IMODE(other.stat().st_mode)


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


def test_report_a_pipe_without_another_end_or_without_an_end_after_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "PIPE_TIMEOUT_S", 0.1)
    pipe = special_file(tmp_path / "pipe", "pipe")
    with pytest.raises(
        OptionError, match=r"^argument --x: .*: .* no process reads from for 0\.1 s; start the "
    ):
        write_file(pipe, "text", "--x")
    with pytest.raises(OptionError, match=r"^argument --x: .*: .* no process writes to; start the writer$"):
        read_file(pipe, "--x")
    other = os.open(pipe, os.O_RDWR)
    try:
        os.write(other, b"k=v\n")
        with pytest.raises(OptionError, match=r"^argument --x: .*: it is a pipe that has no end after 0"):
            read_file(pipe, "--x")
    finally:
        os.close(other)


@pytest.mark.parametrize("kind", ["socket", "device", "folder"])
def test_other_kinds_of_files_are_not_read(tmp_path: Path, kind: str) -> None:
    path = special_file(tmp_path / "it", kind)
    with pytest.raises(OptionError, match=rf"^argument --import: .*: {KINDS[kind]}$"):
        read_file(path, "--import")
    if kind != "device":
        with pytest.raises(OptionError, match=rf"^argument --export: .*: {KINDS[kind]}$"):
            write_file(path, "text", "--export")


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
