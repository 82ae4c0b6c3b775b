"""The command ``kafkawire``: its table, what it says of itself and of wrong names."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Final

import pytest

from spark_kafkawire import __main__ as kafkawire
from spark_kafkawire import __version__, encode_message_set
from spark_kafkawire.broker import EmbeddedCluster
from spark_kafkawire.commands import COMMANDS
from spark_kafkawire.jobs.ending import ExitCode
from tests.support.noida import NoidaBroker

ROOT: Final = Path(__file__).parents[2]
#: Modules of ``commands`` that are no command.
OTHERS: Final = {"__init__"}
WITHOUT_SPARK: Final = ("doctor", "show", "offsets", "checkpoints", "transactions")
WITH_SPARK: Final = ("ingest", "publish", "migrate", "stream-copy")


def test_every_module_is_in_the_table_and_has_a_script_for_a_checkout() -> None:
    modules = {path.stem for path in (ROOT / "spark_kafkawire" / "commands").glob("*.py")} - OTHERS
    assert {command.module for command in COMMANDS.values()} == modules
    for module in modules:
        script = (ROOT / "jobs" / f"{module}.py").read_text()
        assert f"from spark_kafkawire.commands.{module} import JOB\n" in script
    assert tuple(name for name, command in COMMANDS.items() if not command.needs_spark) == WITHOUT_SPARK
    assert tuple(name for name, command in COMMANDS.items() if command.needs_spark) == WITH_SPARK


@pytest.mark.parametrize("word", ["help", "-h", "--help"])
def test_help_lists_each_command_in_a_line(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert kafkawire.main([word]) == ExitCode.DONE
    reported, err = capsys.readouterr()
    lines = [" ".join(line.split()) for line in reported.splitlines()]
    for command in COMMANDS.values():
        assert lines.count(f"{command.name} {command.summary}") == 1
    assert [line for line in reported.splitlines() if len(line) > 100] == []
    assert err == ""
    assert kafkawire.main([]) == ExitCode.USAGE
    assert capsys.readouterr() == ("", reported)


@pytest.mark.parametrize("word", ["version", "-V", "--version"])
def test_version_is_that_of_the_package(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert kafkawire.main([word]) == ExitCode.DONE
    assert capsys.readouterr() == (f"kafkawire {__version__}\n", "")


@pytest.mark.parametrize("name", ["help", "version", "path"])
def test_help_is_given_about_the_other_commands(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    for argv in (["help", name], [name, "--help"]):
        assert kafkawire.main(argv) == ExitCode.DONE
        reported, err = capsys.readouterr()
        assert (len(reported.splitlines()) >= 1, err) == (True, "")


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (["ofsets"], "kafkawire: unknown command 'ofsets'; did you mean offsets?"),
        (["help", "ofsets"], "kafkawire: unknown command 'ofsets'; did you mean offsets?"),
        (["stream_copy"], "kafkawire: unknown command 'stream_copy'; did you mean stream-copy?"),
        (["\x1b[31m"], "kafkawire: unknown command '\\x1b[31m'; kafkawire help lists the commands"),
        (["path"], f"path: give one of {', '.join(COMMANDS)}"),
        (["path", "stream_copy"], f"path: give one of {', '.join(COMMANDS)}"),
        (["path", "ingest", "publish"], f"path: give one of {', '.join(COMMANDS)}"),
    ],
)
def test_a_wrong_name_is_refused_in_one_line(
    argv: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert kafkawire.main(argv) == ExitCode.USAGE
    assert capsys.readouterr() == ("", f"{line}\n")


@pytest.mark.parametrize(
    "name", [*WITHOUT_SPARK, *(pytest.param(name, marks=pytest.mark.jvm) for name in WITH_SPARK)]
)
def test_help_of_a_command_shows_how_it_was_called(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for argv in ([name, "--help"], ["help", name]):
        with pytest.raises(SystemExit) as ended:
            kafkawire.main(argv)
        assert ended.value.code == ExitCode.DONE
        assert capsys.readouterr().out.startswith(f"usage: kafkawire {name} [-h]")
    module = COMMANDS[name].module
    for folder in ("jobs", "spark_kafkawire/commands"):
        script = str(ROOT / folder / f"{module}.py")
        monkeypatch.setattr("sys.argv", [script, "--help"])
        with pytest.raises(SystemExit):
            runpy.run_path(script, run_name="__main__")
        assert capsys.readouterr().out.startswith(f"usage: {module}.py [-h]")


@pytest.fixture(
    scope="module",
    params=[("pyspark", "py4j"), pytest.param(("py4j",), marks=pytest.mark.slow)],
    ids=lambda lacking: lacking[0],
)
def lacking(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The ``PYTHONPATH`` of an installation without pyspark, or as pyspark-client is without py4j alone."""
    return path_without(tmp_path_factory.mktemp("lacking"), *request.param)


def path_without(folder: Path, *modules: str) -> str:
    """The ``PYTHONPATH`` of an installation without these modules."""
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if entry.name not in modules and entry.suffix != ".pth":
            (folder / entry.name).symlink_to(entry)
    return f"{ROOT}:{folder}"


#: Runs command lines one after the other: exit code, stdout and stderr of each.
ALL_IN_ONE: Final = """
import contextlib, io, json, sys
from spark_kafkawire.__main__ import main
for argv in json.loads(sys.argv[1]):
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        try:
            code = main(argv)
        except SystemExit as ended:
            code = ended.code
    print(json.dumps([code, out.getvalue(), err.getvalue()]))
"""


def run_lacking(path: str, commands: Sequence[Sequence[str]]) -> list[tuple[int, str, str]]:
    # -S: no .pth file leads to what is lacking.
    done = run(sys.executable, "-S", "-c", ALL_IN_ONE, json.dumps(commands), PYTHONPATH=path)
    ended = [tuple(json.loads(line)) for line in done.stdout.splitlines()]
    assert len(ended) == len(commands), done.stderr
    return ended


@pytest.mark.slow
def test_a_command_that_needs_spark_says_so_in_one_line(lacking: str, tmp_path: Path) -> None:
    migrate = [
        *("--source-option=broker.list=0:127.0.0.1:1", "--topic=t", f"--state={tmp_path}"),
        "--target-option=kafka.bootstrap.servers=127.0.0.1:1",
    ]
    commands = [[name, "--quiet", *(migrate if name == "migrate" else ())] for name in WITH_SPARK]
    # What pip would install over a pyspark of another package breaks that package.
    is_there = (Path(lacking.rpartition(":")[2]) / "pyspark").exists()
    for name, (code, out, err) in zip(WITH_SPARK, run_lacking(lacking, commands), strict=True):
        assert (code, out) == (ExitCode.FAILED, "")
        [line] = err.splitlines()
        assert line.startswith(f"{name}: this command runs Spark, which {sys.executable} does not have (")
        assert "No module named 'py" in line
        assert line.endswith(f'spark-submit "$(kafkawire path {name})"')
        assert "pip install pyspark" in line
        assert (f"it has pyspark {version('pyspark')}, which pip install" in line) is is_there
        assert ("run that in an environment of its own" in line) is is_there


@pytest.mark.parametrize(
    ("module", "package", "commands"),
    [
        ("rich", "rich", [[name] for name in COMMANDS]),
        pytest.param(
            *("snappy", "python-snappy", [["offsets", "--option=kafka.bootstrap.servers=127.0.0.1:1"]]),
            marks=pytest.mark.slow,
        ),
        pytest.param(
            *("kazoo", "kazoo", [["offsets", "--quiet", "--option=zookeeper.connect=127.0.0.1:1"]]),
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_command_that_lacks_a_package_names_it_in_one_line(
    module: str, package: str, commands: list[list[str]], tmp_path: Path
) -> None:
    ended = run_lacking(path_without(tmp_path, module), commands)
    said = f"No module named '{module}': run {sys.executable} -m pip install {package}\n"
    assert ended == [(ExitCode.FAILED, "", f"{words[0]}: {said}") for words in commands]


@pytest.mark.slow
def test_what_needs_no_spark_runs_without_it(lacking: str, noida: NoidaBroker, tmp_path: Path) -> None:
    """Offsets are shown, a migration is planned, and the others fail by what they are given."""
    topic = noida.create_topic(partitions=2)
    modern = f"kafka.bootstrap.servers={noida.bootstrap_servers}"
    log = tmp_path / "logs" / "old-0" / f"{0:020}.kafka"
    log.parent.mkdir(parents=True)
    log.write_bytes(encode_message_set([b"value"]))
    with EmbeddedCluster(brokers=1, zookeeper=False, log_dirs=[log.parents[1]]) as cluster:
        argv = ["--source-option", f"broker.list={cluster.broker_list}", "--topic", "old"]
        argv += ["--target-option", modern, "--state", f"{tmp_path}/state", "--create-topics"]
        shown, planned, checkpoints, transactions, doctor, show = run_lacking(
            lacking,
            [
                ["offsets", "--option", modern, "--topic", topic, "--json", "--quiet"],
                ["migrate", *argv, "--dry-run"],
                ["checkpoints", "not-there", "--quiet"],
                ["transactions", "--option", "broker.list=0:127.0.0.1:1"],
                ["doctor", "--option", modern, "--topic", topic],
                ["show", "--option", f"broker.list={cluster.broker_list}", "--topic", "old"],
            ],
        )
    assert shown[0] == planned[0] == ExitCode.DONE, (shown, planned)
    assert (doctor[0], show[0]) == (ExitCode.DONE, ExitCode.DONE), (doctor, show)
    assert "verdict    a job with these options works" in doctor[1]
    assert "  value  value" in show[1]
    assert topic in shown[1]
    assert "old 0-0" in planned[1]
    assert (checkpoints[0], transactions[0]) == (ExitCode.FAILED, ExitCode.USAGE)
    assert checkpoints[2].startswith("checkpoints: not-there")
    assert "transactions: " in transactions[2]
    assert "Traceback" not in checkpoints[2] + transactions[2]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("commands", "spared"),
    [
        (
            [["help"], ["version"], ["path", "ingest"]],
            ["pyspark", "pandas", "numpy", "pyarrow", "rich", "argparse"],
        ),
        ([[name, "--help"] for name in WITHOUT_SPARK], ["pyspark", "py4j", "pandas"]),
    ],
)
def test_what_needs_no_spark_imports_none_where_there_is_one(
    commands: list[list[str]], spared: list[str]
) -> None:
    code = f"{ALL_IN_ONE}\nprint([name for name in {spared} if name in sys.modules], file=sys.stderr)"
    done = run(sys.executable, "-W", "error", "-c", code, json.dumps(commands))
    assert (done.stdout.count("\n"), done.stderr) == (len(commands), "[]\n")


def run(*command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return subprocess.run(
        command,
        cwd=ROOT,
        env=kept | variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=180,
    )
