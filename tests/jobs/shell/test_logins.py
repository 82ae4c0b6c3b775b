"""Every job that connects takes its login from ``--options-file``, with references to secrets."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from spark_kafkawire.commands import COMMANDS
from spark_kafkawire.jobs.shell.command_line import run_job
from tests.net.login_broker import KEY_ID, USER, login_broker
from tests.net.peers import Peer

from ..arguments import arguments_of, command, complaint

#: The argument of each job that has a login, and all that the job needs besides.
JOBS: Final[dict[str, tuple[str, list[str]]]] = {
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
WITHOUT_SPARK: Final = ("offsets", "transactions")
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
    modules = {each.module for each in COMMANDS.values()}
    connecting = {
        name for name in modules if not arguments_of(command(name).make_parser()).isdisjoint(CONNECTING)
    }
    assert connecting == set(JOBS)


@pytest.mark.parametrize("mechanism", [name for name, text in LOGINS.items() if "env:" in text])
@pytest.mark.parametrize("job", JOBS)
def test_a_secret_that_is_not_there_is_named_before_anything_begins(
    job: str,
    mechanism: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delenv("KAFKA_SECRET", raising=False)
    argument, others = JOBS[job]
    path = options_file(tmp_path, "127.0.0.1:1", mechanism)
    line = complaint(command(job), [*others, f"{argument}={path}"], capsys)
    assert "option kafka.sasl.jaas.config: ${env:KAFKA_SECRET}: the variable is not set" in line


@pytest.mark.parametrize("mechanism", [name for name in LOGINS if name != "AWS_MSK_IAM"])
@pytest.mark.parametrize("job", WITHOUT_SPARK)
def test_a_wrong_secret_is_refused_in_one_line_without_it(
    job: str,
    mechanism: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("KAFKA_SECRET", WRONG)
    module, (argument, others) = command(job), JOBS[job]
    with Peer(login_broker()) as peer:
        path = options_file(tmp_path, f"127.0.0.1:{peer.broker.port}", mechanism)
        code = run_job(module.make_parser(), module.run, [*others, f"{argument}={path}"])
    reported = capsys.readouterr()
    [line] = [line for line in reported.err.splitlines() if not line.endswith(" ...")]
    assert code
    assert f"SASL {mechanism}: the broker refuses the credentials (error 58" in line
    assert WRONG not in reported.out + reported.err
