"""Progress of a job, and its summary at the end.

    with progress_on(sys.stderr, "ingest") as progress:
        progress.step("asking the brokers")
        with progress.work("reading debian-gzip", messages_total=15917) as work:
            work.advance(messages=500, size=123_456)

It is a bar on a terminal, and a line now and then elsewhere. The summary goes to stdout.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TextIO

from rich.console import Console
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as Bars

from ..errors import one_line, plural

#: Seconds between two updates of a running job, and between two lines without a terminal.
LOOK_INTERVAL_S: Final = 0.5
LINE_INTERVAL_S: Final = 10.0
#: Progress before the remaining time is estimated: a part of the whole, and seconds.
_GUESS_FRACTION: Final = 0.02
_GUESS_TIME_S: Final = 1.0
_SIZE_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")


class Work:
    """A piece of work: the amount done, and the total if it is known.

    Safe for many threads. ``fraction`` is done / total, as far as known. Code that does the work calls
    ``advance``; code that watches other work calls ``set_to``.
    """

    def __init__(
        self, messages_total: int | None, size_total: int | None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.messages = self.size = 0
        self._fraction_seen: float | None = None
        self._counts_messages = True
        self._tasks_done = self._tasks = 0
        self._messages_total = messages_total
        self._size_total = size_total
        self._clock = clock
        self._began_s = clock()
        self._lock = threading.Lock()

    def advance(self, messages: int = 0, size: int = 0) -> None:
        """Add messages and bytes to the amount done."""
        with self._lock:
            self.messages += messages
            self.size += size

    def set_to(self, messages: int | None, size: int, tasks_done: int, tasks: int) -> None:
        """Set the amount done in total; ``messages`` is None if they are not counted.

        Progress never decreases, although Spark adds tasks, forgets old stages, and runs some stages again.
        """
        with self._lock:
            self._counts_messages = messages is not None
            self.messages, self.size = max(self.messages, messages or 0), max(self.size, size)
            self._tasks_done, self._tasks = max(self._tasks_done, tasks_done), max(self._tasks, tasks)
            if tasks:
                self._fraction_seen = max(self._fraction_seen or 0.0, tasks_done / tasks)

    @property
    def fraction(self) -> float | None:
        """The part that is done, up to 1; None if unknown, as it is until a first part is counted."""
        known = [
            done / total
            for done, total in ((self.messages, self._messages_total), (self.size, self._size_total))
            if total
        ]
        best = max([*known, *([] if self._fraction_seen is None else [self._fraction_seen])], default=None)
        return min(best, 1.0) if best else None

    @property
    def counted(self) -> str:
        """``1,234 messages, 5.6 MiB``; ``3 of 8 tasks, 5.6 MiB`` if messages are not counted."""
        tasks = f"{self._tasks_done:,} of {self._tasks:,} tasks"
        counts = f"{self.messages:,} {plural(self.messages, 'message')}" if self._counts_messages else tasks
        return f"{counts}, {format_size(self.size)}" if self.size else counts

    @property
    def elapsed_s(self) -> float:
        """Seconds since it began."""
        return self._clock() - self._began_s

    def __str__(self) -> str:
        """``1,234 messages, 5.6 MiB, 789 messages/s, 0:12 left``"""
        parts, elapsed_s = [self.counted], self.elapsed_s
        if elapsed_s >= _GUESS_TIME_S:
            if self._counts_messages:
                parts.append(f"{self.messages / elapsed_s:,.0f} messages/s")
            if (fraction := self.fraction) is not None and _GUESS_FRACTION <= fraction < 1:
                parts.append(f"{format_duration(elapsed_s * (1 / fraction - 1))} left")
        return ", ".join(parts)


class Progress:
    """Reports of a job while it runs; this class shows nothing."""

    def say(self, what: str) -> None:
        """A line that stays."""

    def show(self, what: str, work: Work) -> None:
        """Show the current progress of the work."""

    def close(self) -> None:
        """End the output of progress."""

    def step(self, what: str) -> None:
        """Show the current step."""
        self.say(one_line(f"{what} ..."))

    def ended(self, what: str, work: Work) -> None:
        """Print the result of the work."""
        self.say(one_line(f"{what}: {work.counted} in {format_duration(work.elapsed_s)}"))

    @contextlib.contextmanager
    def work(
        self, what: str, messages_total: int | None = None, size_total: int | None = None
    ) -> Iterator[Work]:
        """Work that is shown until the block ends."""
        work = Work(messages_total, size_total)
        what = one_line(what)
        self.step(what)
        with repeating(lambda: self.show(what, work), LOOK_INTERVAL_S):
            yield work

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


def progress_on(stream: TextIO, job: str, *, quiet: bool = False) -> Progress:
    """The progress of a job on a stream: a bar on a terminal, lines elsewhere, nothing if ``quiet``."""
    if quiet:
        return Progress()
    return Bar(stream, job) if stream.isatty() else Lines(stream, job)


class Lines(Progress):
    """Plain lines, at most one each ``LINE_INTERVAL_S`` about the same work, and none without progress."""

    def __init__(self, stream: TextIO, job: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream, self._job, self._clock = stream, job, clock
        self._last_s = clock()
        self._counted = ""

    def say(self, what: str) -> None:
        self._last_s = self._clock()
        print(f"{self._job}: {what}", file=self._stream, flush=True)

    def show(self, what: str, work: Work) -> None:
        counted = f"{what} {work.counted}" if work.messages or work.size else ""
        if self._clock() - self._last_s >= LINE_INTERVAL_S and counted not in ("", self._counted):
            self._counted = counted
            percent = "" if work.fraction is None else f" {work.fraction:.0%},"
            self.say(f"{what}:{percent} {work}")


class Bar(Progress):
    """A bar that is drawn over and goes away at the end; lines stay above it."""

    def __init__(self, stream: TextIO, job: str) -> None:
        columns = (TextColumn(job), BarColumn(), TextColumn("{task.percentage:>3.0f}%"))
        self._bars = Bars(
            *columns,
            TextColumn("{task.description}"),
            console=Console(file=stream),
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._job = job
        self._task = self._bars.add_task("", total=None, visible=False)

    def say(self, what: str) -> None:
        self._bars.console.print(f"{self._job}: {what}", markup=False, highlight=False)

    def show(self, what: str, work: Work) -> None:  # noqa: ARG002  # the line above names the work
        fraction = work.fraction
        total, completed = (None, 0.0) if fraction is None else (1.0, fraction)
        self._bars.start()
        self._bars.update(self._task, total=total, completed=completed, description=f"{work}", visible=True)

    def close(self) -> None:
        self._bars.stop()


@contextlib.contextmanager
def repeating(look: Callable[[], None], interval_s: float) -> Iterator[None]:
    """Call ``look`` every so often in a thread of its own while the block runs, and once after it."""
    done = threading.Event()

    def run() -> None:
        while not done.wait(interval_s):
            look()

    thread = threading.Thread(target=run, name="kafkawire-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
    look()


def format_size(size: int) -> str:
    """``5.6 MiB``"""
    value, unit = float(size), _SIZE_UNITS[0]
    for unit in _SIZE_UNITS:
        if value < 1024 or unit == _SIZE_UNITS[-1]:
            break
        value /= 1024
    return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"


def format_duration(time_s: float) -> str:
    """``1:02:03`` or ``2:03``"""
    minutes, seconds = divmod(round(time_s), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


#: The key of a summary that makes the exit code ``DATA_LOSS`` where it holds something.
DATA_LOSS_KEY: Final = "data_loss"
#: The key of a summary with the name of the signal that ended the job, where one did.
ENDED_BY_KEY: Final = "ended_by"

Summary = Mapping[str, Any]


def print_summary(summary: Summary, *, as_json: bool) -> None:
    """The summary on stdout: one JSON object, or a line for each of its entries."""
    if as_json:
        print(json.dumps(summary), flush=True)
        return
    width = max(map(len, summary), default=0)
    for key, value in summary.items():
        for number, line in enumerate(_lines(value)):
            label = "" if number else key.replace("_", " ")
            print(f"{label:<{width}}  {line}", flush=True)


def _lines(value: Any) -> list[str]:
    """The lines that show a value: one for each element of a list. Lists in lists are left to JSON."""
    if isinstance(value, list):
        return [line for element in value for line in _lines(element)] or ["none"]
    if isinstance(value, dict):
        plain = {key.replace("_", " "): item for key, item in value.items() if not isinstance(item, list)}
        return [", ".join(f"{key} {_lines(item)[0]}" for key, item in plain.items())]
    return [f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else one_line(str(value))]


def align_rows(rows: Sequence[Sequence[str]]) -> list[str]:
    """A line for each row; all rows have the same number of cells. Cells that begin with a digit are aligned
    right."""
    rows = [list(map(one_line, row)) for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if cell[:1].isdigit() else cell.ljust(width)
            for cell, width in zip(row, widths, strict=True)
        ).rstrip()
        for row in rows
    ]
