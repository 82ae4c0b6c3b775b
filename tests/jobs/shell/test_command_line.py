"""Command lines of all jobs: options, logins, one line for an error, exit codes, and no secrets."""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import AnalysisException, PySparkRuntimeError

from spark_kafkawire.__main__ import main
from spark_kafkawire.commands import COMMANDS
from spark_kafkawire.errors import DataLossError, DiscoveryError, OptionError
from spark_kafkawire.jobs.arguments import connection_args, positive, read_arguments, topic_args
from spark_kafkawire.jobs.command_line import Job, JobParser
from spark_kafkawire.jobs.ending import ExitCode, explain, reason_of
from spark_kafkawire.jobs.progress import Progress, print_summary
from tests.net.login_broker import KEY_ID, USER, login_broker
from tests.net.peers import Peer
from tests.support.cases import for_each

from ..submitting import arguments_of, command, complaint

SECRET = "hunter2"
HELP: Final = Path(__file__).parents[2] / "golden" / "help"


@dataclass(frozen=True)
class Options:
    selection: Mapping[str, str] = topic_args("copy", group="input", default="all topics")
    connection: Mapping[str, str] = connection_args()


def job(run: Callable[[Options, Progress, bool], Any] = lambda *_: {}) -> Job[Options]:
    return Job("copy", "What it does.", Options, run)


def parsed(*argv: str) -> Options:
    return read_arguments(Options, job().parser().parse_args(argv))


def options_of(*argv: str) -> Mapping[str, str]:
    return parsed(*argv).connection


def test_options_of_the_command_line_beat_those_of_files_whatever_their_case(tmp_path: Path) -> None:
    file = tmp_path / "cluster.properties"
    file.write_text("kafka.bootstrap.servers=h:9092\nfetchbytes=1MiB\nretries 5\n")
    given = options_of("--options-file", str(file), "--option", "fetchBytes=2MiB", "--option", "retries=7")
    assert given == {"kafka.bootstrap.servers": "h:9092", "fetchBytes": "2MiB", "retries": "7"}
    # A value may hold an equals sign.
    assert options_of("--option", "kafka.sasl.jaas.config=M a=b;") == {"kafka.sasl.jaas.config": "M a=b;"}


def test_topics_are_named_one_by_one_or_as_a_list_or_found() -> None:
    for argv, selection in (
        ((), {}),
        (("--topic", "a"), {"subscribe": "a"}),
        (("--topic", "a,b", "--topic=c"), {"subscribe": "a,b,c"}),
        (("--topic-pattern", "a|b"), {"subscribePattern": "a|b"}),
        (("--topic-pattern", ""), {"subscribePattern": ""}),
    ):
        assert parsed(*argv).selection == selection


def test_wrong_usage_is_one_line_without_what_may_be_a_secret(capsys: pytest.CaptureFixture[str]) -> None:
    servers = "(did you mean --option kafka.bootstrap.servers=HOST:PORT?)"
    for argv, line in (
        (["--option", SECRET], "argument --option: number 1 is not KEY=VALUE"),
        (["--option", "a=b", "--option", f"={SECRET}"], "argument --option: number 2 is not KEY=VALUE"),
        ([f"--optoin=a={SECRET}"], "unknown argument --optoin (did you mean --option?); see --help"),
        (["--opt", f"a={SECRET}"], "unknown argument --opt (did you mean --option?); see --help"),
        (["--wrong", SECRET], "unknown argument --wrong; see --help"),
        (["--bootstrap-server", "h:9092"], f"unknown argument --bootstrap-server {servers}"),
        ([SECRET], "1 argument(s) too many; see --help"),
        (["--option"], "argument --option: expected one argument; see --help"),
    ):
        with pytest.raises(SystemExit) as ended:
            raise SystemExit(job().main(argv))
        assert ended.value.code == ExitCode.USAGE
        out, err = capsys.readouterr()
        assert (out, err.count("\n"), err.startswith(f"copy: {line}")) == ("", 1, True), err
        assert SECRET not in err


def ended(result: Exception | dict[str, Any], *argv: str) -> int:
    def run(_options: Options, progress: Progress, _as_json: bool) -> dict[str, Any]:
        progress.step("working")
        if isinstance(result, Exception):
            raise result
        return result

    return job(run).main(argv)


def test_a_job_that_is_done_prints_its_summary_and_exits_with_0(capsys: pytest.CaptureFixture[str]) -> None:
    """Lists of a summary are lines; and it is one JSON object where that is asked for."""
    assert ended({"messages": 15917, "read_s": 1.5, "data_loss": []}) == ExitCode.DONE
    out, err = capsys.readouterr()
    assert out == "messages   15,917\nread s     1.5\ndata loss  none\n"
    assert err == "copy: working ...\n"
    batches = [{"batch": 7, "messages": 1000, "ranges": [1, 2]}, {"batch": 8, "messages": 0, "ranges": []}]
    ended({"batches": batches, "done": True}, "--quiet")
    assert capsys.readouterr().out == (
        "batches  batch 7, messages 1,000\n         batch 8, messages 0\ndone     True\n"
    )
    lossy = {"messages": 15917, "data_loss": ["t 0"]}
    assert ended(lossy, "--json", "--quiet") == ExitCode.DATA_LOSS
    out, err = capsys.readouterr()
    assert (json.loads(out), err) == (lossy, "")


def test_warnings_go_where_errors_go_and_not_where_the_summary_is_read(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(*_: object) -> dict[str, Any]:
        logging.getLogger("spark_kafkawire").warning("option %s means nothing", "kafka.x")
        return {"messages": 1}

    errors = io.StringIO()
    monkeypatch.setattr("spark_kafkawire.jobs.command_line.error_stream", lambda: errors)
    for _ in range(2):
        assert job(run).main(["--json"]) == ExitCode.DONE
    assert errors.getvalue() == "copy: option kafka.x means nothing\n" * 2
    out, err = capsys.readouterr()
    assert (out, err) == ('{"messages": 1}\n' * 2, "")


# As Spark tells of an exception in a data source.
FROM_SPARK = """[PYTHON_DATA_SOURCE_ERROR] Failed to create Python data source: spark_kafkawire.errors.{}

JVM stacktrace:
org.apache.spark.sql.AnalysisException
"""

# As Spark tells of one that is not ours.
FROM_PYTHON = """[STREAM_FAILED] source: Traceback (most recent call last):
  File "runner.py", line 227, in main
    command = load(file)
              ^^^^^^^^^^
ModuleNotFoundError: No module named 'x'
 SQLSTATE: 38000
"""


JVM: Final = (
    "Spark's JVM on the driver has ended: it crashed, or was killed, for example for lack of memory; see "
    "hs_err_pid*.log and the system log (dmesg), raise spark.driver.memory, and run again"
)


def test_an_error_is_one_line_and_tells_the_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    calling = "An error occurred while calling o7.x"
    for error, line, code in (
        (DiscoveryError("no broker"), "no broker", ExitCode.FAILED),
        (OptionError("option x: wrong"), "option x: wrong", ExitCode.USAGE),
        (DataLossError("t 0: gone"), "t 0: gone", ExitCode.FAILED),
        (AnalysisException(FROM_SPARK.format("OptionError: option y")), "option y", ExitCode.USAGE),
        (AnalysisException(FROM_SPARK.format("DataLossError: gone")), "gone", ExitCode.FAILED),
        (AnalysisException(FROM_SPARK.format("NoSuchError: ours?")), "ours?", ExitCode.FAILED),
        (AnalysisException("[PATH_NOT_FOUND] no path\nJVM stacktrace"), "[PATH_NOT_FOUND] no path", 2),
        (PySparkRuntimeError("[OTHER] why\nJVM stacktrace"), "[OTHER] why", 1),
        (ConnectionRefusedError(111, "Connection refused"), f"{JVM} ([Errno 111] Connection refused)", 1),
        (Py4JNetworkError("Answer from Java side is empty"), f"{JVM} (Answer from Java side is empty)", 1),
        (Py4JError(calling), f"{JVM} ({calling})", 1),
        (Py4JError(f"{calling}. Trace:"), f"{calling}. Trace:", 1),
        (OSError(28, "No space left on device"), "[Errno 28] No space left on device", 1),
        (
            PySparkRuntimeError(FROM_PYTHON),
            "[STREAM_FAILED] source: ModuleNotFoundError: No module named 'x'",
            1,
        ),
    ):
        assert explain(error) == (line, code)
        assert ended(error, "--quiet") == code
        assert capsys.readouterr() == ("", f"copy: {line}\n")


def test_an_options_file_that_cannot_be_read_and_an_option_that_is_there_twice_are_named(
    tmp_path: Path,
) -> None:
    """Without any values."""
    file = tmp_path / "options"
    missing = f"argument --options-file: {file}: No such file or directory"
    with pytest.raises(OptionError, match=f"^{missing}$"):
        options_of("--options-file", str(file))
    file.write_bytes(b"a=\xff")
    with pytest.raises(
        OptionError, match=rf"^argument --options-file: {file} is not a text in UTF-8; save it"
    ):
        options_of("--options-file", str(file))
    file.write_text(f"retries={SECRET}\n# a comment\nRETRIES {SECRET}\n", "utf-8")
    for argv, location, name in (
        (("--option", f"Retries={SECRET}", "--option", f"retries={SECRET}"), "--option", "retries"),
        (("--options-file", str(file)), f"--options-file: {file}", "RETRIES"),
    ):
        with pytest.raises(OptionError) as error:
            options_of(*argv)
        assert str(error.value) == f"argument {location}: option {name} is given twice; give it once"


def test_lines_of_a_summary_and_of_errors_are_printable(
    capsys: pytest.CaptureFixture[str],
) -> None:
    hostile = "t\x1b[31m\r\n\u202e"
    print_summary({"topics": [hostile], "logs": [{"topic": hostile, "count": 3}]}, as_json=False)
    assert all(line.isprintable() for line in capsys.readouterr().out.splitlines())
    made = JobParser("copy", None)
    made.errors = io.StringIO()
    made.complain(hostile * 100_000)
    [line] = made.errors.getvalue().splitlines()
    assert line.isprintable()
    assert len(line) < 5_000


def test_a_count_is_ascii_digits() -> None:
    for text in ("\u0663", "1_0", "+1", " 1", "0", "1.0", "9" * 5000):
        with pytest.raises(argparse.ArgumentTypeError):
            positive(text)


class Raised:
    """An exception of the JVM, as py4j hands it over."""

    def __init__(self, text: str, cause: Raised | None = None) -> None:
        self._text = text
        self._cause = cause

    def toString(self) -> str:
        return self._text

    def getCause(self) -> Raised | None:
        return self._cause

    @property
    def java_exception(self) -> Raised:
        return self


HOST = Raised("java.net.UnknownHostException: nosuch")
ABORTED = "org.apache.spark.SparkException: Job aborted due to stage failure: Task 0"
WRITING = "org.apache.spark.SparkException: [TASK_WRITE_FAILED] Task failed writing to file:/a."
FULL = Raised("java.io.IOException: No space left on device")
SPACE = (
    "free some space where the job writes, or in spark.local.dir of the driver and the executors, and run "
    "again"
)
ENDED = (
    "a Python worker or a JVM of Spark has ended in the middle of a task: it crashed, or was killed, for "
    "example for lack of memory; see the logs of executors and of the system (dmesg), raise "
    "spark.executor.memoryOverhead or spark.driver.memory, and run again"
)
READABLE = "org.apache.spark.SparkException: [FAILED_READ_FILE] Encountered an error: a.csv\nIf not, ..."


def test_the_innermost_cause_speaks_unless_spark_has_words_for_people() -> None:
    reset = "SocketException: Connection reset"
    full = Raised("org.apache.hadoop.fs.FSError: java.io.IOException", FULL)
    failed = "[TASK_WRITE_FAILED] Task failed writing to file:/a.: IOException: No space left on device"
    for error, reason in (
        (HOST, "UnknownHostException: nosuch"),
        (Raised(ABORTED, HOST), "UnknownHostException: nosuch"),
        (Raised(ABORTED, Raised(READABLE, HOST)), "[FAILED_READ_FILE] Encountered an error: a.csv"),
        (Raised(ABORTED, Raised(WRITING, full)), f"{failed}; {SPACE}"),
        (Raised("java.lang.IllegalStateException"), "IllegalStateException"),
        (Raised(ABORTED, FULL), f"IOException: No space left on device; {SPACE}"),
        (Raised(ABORTED, Raised("java.io.IOException: Broken pipe")), f"IOException: Broken pipe; {ENDED}"),
        (Raised(ABORTED, Raised(f"java.net.{reset}")), f"{reset}; {ENDED}"),
        (Raised(ABORTED, Raised("java.io.EOFException")), f"EOFException; {ENDED}"),
    ):
        assert reason_of(error) == reason
    # Causes that name each other end.
    endless = Raised("a.B: one")
    endless._cause = Raised("a.C: two", endless)
    assert reason_of(endless) in ("B: one", "C: two")


#: The argument of each job that has a login, and all that the job needs besides.
JOBS: Final[dict[str, tuple[str, list[str]]]] = {
    "doctor": ("--options-file", ["--topic=t"]),
    "show": ("--options-file", ["--topic=t"]),
    "ingest": ("--options-file", ["--topic=t", "--output=out", "--checkpoint=state"]),
    "migrate": (
        "--target-options-file",
        ["--source-option=broker.list=0:127.0.0.1:1", "--topic=t", "--state=state"],
    ),
    "offsets": ("--options-file", ["--topic=t"]),
    "publish": ("--options-file", ["--topic=t", "--input=rows"]),
    "stream_copy": ("--source-options-file", ["--topic=t", "--output=out", "--checkpoint=state"]),
    "transactions": ("--options-file", []),
}
#: Jobs that ask brokers without Spark.
WITHOUT_SPARK: Final = ("doctor", "show", "offsets", "transactions")
CONNECTING: Final = ("--options-file", "--source-options-file", "--target-options-file")
WRONG: Final = "wr0ng-one"
#: Logins as people write them in a file of properties; the secret is in the environment or in another file.
LOGINS: Final[dict[str, str]] = {
    "PLAIN": 'PlainLoginModule required \\\n  username="{user}" password="${{env:KAFKA_SECRET}}";',
    "SCRAM-SHA-256": 'ScramLoginModule required username="{user}" password="${{file:{file}:secret}}";',
    "SCRAM-SHA-512": 'ScramLoginModule required username="{user}" password="${{directory:{folder}:secret}}";',
    "OAUTHBEARER": 'OAuthBearerLoginModule required token="${{env:KAFKA_SECRET}}";',
    "AWS_MSK_IAM": "IAMLoginModule required awsRoleArn='arn:aws:iam::1:role/r' awsRoleAccessKeyId=\"{key}\" "
    'awsRoleSecretAccessKey="${{env:KAFKA_SECRET}}";',
}


def options_file(folder: Path, servers: str, mechanism: str) -> Path:
    """A file of options with a login, and what it refers to."""
    secrets = folder / "secrets.properties"
    secrets.write_text(f"secret={WRONG}\n")
    (folder / "secret").write_text(f"{WRONG}\n")
    login = LOGINS[mechanism].format(user=USER, key=KEY_ID, file=secrets, folder=folder)
    path = folder / "cluster.properties"
    path.write_text(
        f"# the cluster\nkafka.bootstrap.servers={servers}\nkafka.security.protocol: SASL_PLAINTEXT\n"
        f"kafka.sasl.mechanism {mechanism}\nkafka.sasl.jaas.config={login}\n"
    )
    return path


def test_all_jobs_with_a_connection_are_here() -> None:
    modules = {item.module for item in COMMANDS.values()}
    connecting = {
        name for name in modules if not arguments_of(command(name).JOB.parser()).isdisjoint(CONNECTING)
    }
    assert connecting == set(JOBS)


# The doctor reports it as a step.
@pytest.mark.parametrize("job", [job for job in JOBS if job != "doctor"])
def test_a_secret_that_is_not_there_is_named_before_anything_begins(
    job: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("KAFKA_SECRET", raising=False)
    argument, others = JOBS[job]
    for mechanism in (name for name, text in LOGINS.items() if "env:" in text):
        path = options_file(tmp_path, "127.0.0.1:1", mechanism)
        line = complaint(command(job), [*others, f"{argument}={path}"], capsys)
        assert "option kafka.sasl.jaas.config: ${env:KAFKA_SECRET}: the variable is not set" in line


@pytest.mark.parametrize("job", WITHOUT_SPARK)
def test_a_wrong_secret_is_refused_in_one_line_without_it(
    job: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KAFKA_SECRET", WRONG)
    module, (argument, others) = command(job), JOBS[job]
    for mechanism in (name for name in LOGINS if name != "AWS_MSK_IAM"):
        with Peer(login_broker()) as peer:
            path = options_file(tmp_path, f"127.0.0.1:{peer.broker.port}", mechanism)
            code = module.JOB.main([*others, f"{argument}={path}"])
        reported = capsys.readouterr()
        [line] = [line for line in reported.err.splitlines() if not line.endswith(" ...")]
        assert code
        assert f"SASL {mechanism}: the broker refuses the credentials (error 58" in line
        assert WRONG not in reported.out + reported.err


@for_each("name", ("kafkawire", *COMMANDS))
def test_the_help_of_a_command_changes_only_on_purpose(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """``COLUMNS=110 kafkawire NAME --help > tests/golden/help/NAME.txt`` writes the file."""
    monkeypatch.setenv("COLUMNS", "110")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
        main(["help"] if name == "kafkawire" else [name, "--help"])
    # Versions of Python break lines in other places.
    assert printed.getvalue().split() == (HELP / f"{name}.txt").read_text().split()
