"""The command line of ``jobs/ingest.py``."""

from __future__ import annotations

from typing import Final

import pytest

from ..arguments import command

SCRIPT: Final = command("ingest")
GOOD: Final = ("--topic", "t", "--output", "out", "--option", "kafka.bootstrap.servers=127.0.0.1:1")


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (("--output", "o"), "one of the arguments --topic --topic-pattern is required; see --help"),
        (("--topic", "t"), "the following arguments are required: --output; see --help"),
        ((*GOOD, "--topic-pattern", "t"), "argument --topic-pattern: not allowed with argument --topic"),
        (("--topic-pattern", "(", *GOOD[2:]), "option subscribePattern: '(' is not a supported Java regular"),
        (("--topic", ",", *GOOD[2:]), "option subscribe: ',' is not a topic or a list of topics"),
        ((*GOOD, "--output", ""), "argument --output: '' is not a path"),
        (
            (*GOOD, "--starting", "yesterday"),
            "argument --starting: 'yesterday' is not earliest, latest, a time",
        ),
        (
            (*GOOD, "--starting", "beginning"),
            "argument --starting: 'beginning' is not earliest, latest, a time like 2026-01-31T00:00:00Z, "
            'milliseconds since 1970, or offsets like {"t":{"0":123}}; did you mean earliest?',
        ),
        ((*GOOD, "--starting", '{"t":'), "option startingOffsets: '{\"t\":' is not of the form earliest or"),
        ((*GOOD, "--max-bytes", "0"), "argument --max-bytes: '0' is not a whole number above zero"),
        ((*GOOD, "--max-bytes", "9"), "argument --max-bytes: these brokers count records; use --max-records"),
        ((*GOOD, "--max-records", "many"), "argument --max-records: 'many' is not a whole number above zero"),
        (
            (*GOOD, "--group", "g", "--checkpoint", "c"),
            "argument --checkpoint: not allowed with argument --group",
        ),
        ((*GOOD, "--group", " "), "argument --group: ' ' is not the name of a consumer group"),
        ((*GOOD, "--checkpoint", ""), "argument --checkpoint: '' is not a path"),
        ((*GOOD, "--format", ""), "argument --format: '' is not a format of Spark"),
        ((*GOOD, "--format-option", "compression"), "argument --format-option: number 1 is not KEY=VALUE"),
        ((*GOOD, "--decode", "avro"), "argument --decode: invalid choice: 'avro'"),
        ((*GOOD, "--schema", "a int"), "argument --schema needs --decode json"),
        ((*GOOD, "--partition-by", "=x"), "argument --partition-by: '=x' is not NAME or NAME=SQL"),
        ((*GOOD, "--partition-by", "batch"), "argument --partition-by: 'batch' is the column of the runs"),
        ((*GOOD[:4], "--option", "x"), "argument --option: number 1 is not KEY=VALUE"),
        ((*GOOD[:4],), "set exactly one of the options kafka.bootstrap.servers, zookeeper.connect and"),
        ((*GOOD, "--options-file", "/no/such"), "argument --options-file: /no/such: No such file"),
        ((*GOOD, "--json=1"), "argument --json: ignored explicit argument '1'"),
        ((*GOOD, "--quiet=1"), "argument --quiet: ignored explicit argument '1'"),
    ],
)
def test_wrong_usage_is_one_line_before_spark_starts(
    argv: tuple[str, ...],
    line: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(SCRIPT, "job_session", None)
    monkeypatch.setattr("sys.argv", ["ingest.py", *argv])
    with pytest.raises(SystemExit) as ended:
        raise SystemExit(SCRIPT.main())
    assert ended.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"ingest: {line}")
    assert err.count("\n") == 1


def test_help_tells_every_argument() -> None:
    reported = SCRIPT.make_parser().format_help()
    for action in SCRIPT.make_parser()._actions:
        assert action.help, action.option_strings
        assert action.option_strings[-1] in reported
