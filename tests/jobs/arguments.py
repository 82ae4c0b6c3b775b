"""A job's command line, tried in this process."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from types import ModuleType
from typing import Final

import pytest

from spark_kafkawire.jobs.shell.command_line import JobParser, run_job
from spark_kafkawire.jobs.shell.failures import ExitCode

from .submitting import ROOT

#: Runs a job by its name and arguments in the tests' own session: exit code, stdout, stderr.
RunHere = Callable[..., tuple[int, str, str]]
#: What every job takes, and asks nothing of.
FLAGS: Final = frozenset(("--help", "--json", "--quiet", "--dry-run", "--create-topics", "--source-headers"))


def script(name: str) -> ModuleType:
    """A script of ``jobs/`` as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "jobs" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def arguments_of(parser: JobParser) -> set[str]:
    """Its arguments that take a value."""
    return {words[-1] for action in parser._actions if (words := action.option_strings)} - FLAGS


def complaint(module: ModuleType, argv: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The one line in which a job refuses its arguments; it exits with 2."""
    try:
        code = run_job(module.make_parser(), module.run, argv)
    except SystemExit as ended:
        code = int(ended.code or 0)
    told = capsys.readouterr()
    assert code == ExitCode.USAGE, told.err
    assert told.out == ""
    *steps, line = told.err.splitlines()
    assert all(step.endswith(" ...") for step in steps)
    return line
