"""A job's command line, tried in this process."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import ModuleType
from typing import Final

import pytest

from spark_kafkawire.jobs.shell.command_line import JobParser, run_job
from spark_kafkawire.jobs.shell.failures import ExitCode

#: Runs a job by its name and arguments in the tests' own session: exit code, stdout, stderr.
RunHere = Callable[..., tuple[int, str, str]]
#: What every job takes, and asks nothing of.
FLAGS: Final = frozenset(("--help", "--json", "--quiet", "--dry-run", "--create-topics", "--source-headers"))


def command(name: str) -> ModuleType:
    """The module of a job's command line."""
    return importlib.import_module(f"spark_kafkawire.commands.{name}")


def arguments_of(parser: JobParser) -> set[str]:
    """Its arguments that take a value."""
    return {words[-1] for action in parser._actions if (words := action.option_strings)} - FLAGS


def complaint(module: ModuleType, argv: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The one line in which a job refuses its arguments; it exits with 2."""
    try:
        code = run_job(module.make_parser(), module.run, argv)
    except SystemExit as ended:
        code = int(ended.code or 0)
    reported = capsys.readouterr()
    assert code == ExitCode.USAGE, reported.err
    assert reported.out == ""
    *steps, line = reported.err.splitlines()
    assert all(step.endswith(" ...") for step in steps)
    return line
