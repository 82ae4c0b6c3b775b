"""The command ``kafkawire``, also ``python -m spark_kafkawire``: runs a job by its name.

    kafkawire offsets --option kafka.bootstrap.servers=127.0.0.1:9092
    spark-submit "$(kafkawire path ingest)" --option kafka.bootstrap.servers=127.0.0.1:9092 ...

A module is imported when its command runs: `help`, `version` and `path` import no pyspark and no Arrow, and
the commands that need no Spark run without it.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from . import commands
from .commands import COMMANDS, Command
from .errors import close_matches, one_line, quote
from .version import VERSION

_HELP: Final = ("help", "-h", "--help")
_VERSION: Final = ("version", "-V", "--version")
_PATH: Final = "path"
#: Commands of this module itself, with their summaries.
_OWN: Final = {
    _HELP[0]: "list the commands, or describe one: kafkawire help ingest",
    _VERSION[0]: "print the version",
    _PATH: 'print the script of a command, for spark-submit "$(kafkawire path ingest)" ...',
}
#: The words that each accepts.
_WORDS: Final[Mapping[str, Sequence[str]]] = {_HELP[0]: (*COMMANDS, _PATH), _PATH: tuple(COMMANDS)}
_DONE: Final = 0
_FAILED: Final = 1
_USAGE: Final = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the exit code, which is that of the job."""
    given = sys.argv[1:] if arguments is None else arguments
    if not given:
        print(_help(), file=sys.stderr)
        return _USAGE
    name, *words = given
    if name in _HELP and words and words[0] not in _HELP:
        name, words = words[0], ["--help"]
    if name in COMMANDS:
        return _run(COMMANDS[name], words)
    if name in _HELP:
        return _print(_help())
    if name in _VERSION:
        return _print(f"kafkawire {VERSION}")
    if name in _OWN:
        return _own(name, words)
    close = close_matches(name, (*COMMANDS, *_OWN))
    hint = f"did you mean {close[0]}?" if close else "kafkawire help lists the commands"
    return _complain("kafkawire", f"unknown command {quote(name)}; {hint}", _USAGE)


def _run(command: Command, words: Sequence[str]) -> int:
    # Spark's workers run the Python that has this package, also where no environment is activated.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from .jobs.ending import Interrupted, interruptible

    try:
        with interruptible(lambda: None):
            module = importlib.import_module(f".{command.module}", commands.__name__)
        return int(module.JOB.main(words, prog=f"kafkawire {command.name}"))
    except Interrupted as error:  # ``JOB`` reports its own
        return _complain(command.name, "interrupted; nothing was changed", error.code)
    except ImportError as error:
        from .jobs.ending import is_of_spark, missing_module

        # pyspark-client has a module pyspark, which lacks names, and no py4j.
        if command.needs_spark and is_of_spark(error):
            return _complain(command.name, _without_spark(command, str(error)), _FAILED)
        line = missing_module(error)
        if line is None:
            raise
        return _complain(command.name, line, _FAILED)


def _without_spark(command: Command, message: str) -> str:
    from importlib.metadata import packages_distributions, version
    from importlib.util import find_spec

    first, install = message.partition(":")[0], "pip install pyspark"
    if find_spec("pyspark") is None:
        advice = f"run {install}"
    else:
        result = sorted({f"{name} {version(name)}" for name in packages_distributions().get("pyspark", ())})
        owner = " and ".join(result) or "another pyspark"
        advice = f"it has {owner}, which {install} would overwrite: run that in an environment of its own"
    return (
        f"this command runs Spark, which {sys.executable} does not have ({first}): {advice}, or on a machine "
        f'with Spark spark-submit "$(kafkawire path {command.name})"'
    )


def _own(name: str, words: Sequence[str]) -> int:
    one, *others = words or ("",)
    if one in ("-h", "--help"):
        return _print(f"usage: kafkawire {name} {{{','.join(_WORDS[name])}}}\n\n{_OWN[name]}")
    if others or one not in _WORDS[name]:
        return _complain(name, f"give one of {', '.join(_WORDS[name])}", _USAGE)
    file = Path(__file__).absolute().parent / "commands" / f"{COMMANDS[one].module}.py"
    if not file.is_file():
        return _complain(name, f"{file} is not a file that spark-submit can run: install the wheel", _FAILED)
    return _print(str(file))


def _print(text: str) -> int:
    print(text)
    return _DONE


def _complain(who: str, line: str, code: int) -> int:
    print(f"{who}: {one_line(line)}", file=sys.stderr)
    return code


def _help() -> str:
    def listed(lines: Mapping[str, str]) -> str:
        return "\n".join(f"  {name:<13} {line}" for name, line in lines.items())

    alone, on_spark = (
        {item.name: item.summary for item in COMMANDS.values() if item.needs_spark is needs_spark}
        for needs_spark in (False, True)
    )
    return f"""usage: kafkawire COMMAND [ARGUMENTS]

Jobs for Kafka clusters of any age. Run kafkawire COMMAND --help for details.

without Spark:
{listed(alone)}

with Spark, on this machine or with spark-submit:
{listed(on_spark)}

others:
{listed(_OWN)}"""


if __name__ == "__main__":
    sys.exit(main())
