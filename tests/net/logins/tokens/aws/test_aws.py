"""The login to Amazon MSK: signatures that botocore makes, too, and credentials from all their places."""

from __future__ import annotations

import base64
import datetime
import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Generator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, parse_qsl, urlsplit

import pytest

from spark_kafkawire.errors import AuthenticationError, ConnectFailed, KafkaWireError, RequestTimedOut
from spark_kafkawire.net.client import Client
from spark_kafkawire.net.logins.aws_msk_iam import payload
from spark_kafkawire.net.logins.oauthbearer import Bearer
from spark_kafkawire.net.logins.table import MECHANISMS
from spark_kafkawire.net.logins.tokens.aws.login import AwsLogin, forget_keys, region_of
from spark_kafkawire.net.logins.tokens.aws.msk import MskToken, signed_token
from spark_kafkawire.net.logins.tokens.aws.signing import Keys
from spark_kafkawire.net.sasl import Sasl
from spark_kafkawire.net.settings import Security
from spark_kafkawire.net.tls import Tls
from spark_kafkawire.net.transport import Deadline
from spark_kafkawire.protocol.modern.metadata import MetadataRequest
from tests.net.aws_judge import signed_payload, signed_url_query
from tests.net.login_broker import REGION, Refused, login_broker
from tests.net.modern_peers import METADATA_RESPONSE
from tests.net.peers import Peer, stalling
from tests.net.tls_peers import server_of, serving
from tests.net.token_answers import asked_for, http_answer
from tests.support.certificates import SERVER_NAME, Certificates
from tests.support.polling import GRACE_S
from tests.support.settings import settings_modern

#: Keys of AWS's own documentation, and one that may not be shown.
KEY_ID: Final = "AKIDEXAMPLE"
SECRET: Final = "s3cret/K7MDENG+bPxRfiCYEXAMPLEKEY"
SESSION: Final = "s3cret//+FwoGZXIvYXdz=="
NOW: Final = datetime.datetime(2026, 11, 25, 3, 50, 0, tzinfo=datetime.timezone.utc)
STAMP: Final = "20261125T035000Z"
HOST: Final = "b-1.demo.abc123.c2.kafka.eu-west-1.amazonaws.com"
ROLE: Final = "arn:aws:iam::123456789012:role/kafka"


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """No credentials of this machine, and a home without files."""
    for name in list(os.environ):
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    yield
    forget_keys()


@pytest.fixture
def without_botocore(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "botocore", None)
    monkeypatch.setitem(sys.modules, "botocore.session", None)


def keys_of(login: AwsLogin, timeout_s: float = 5) -> Keys:
    return login.keys(REGION, Deadline.after(timeout_s))


def refused(login: AwsLogin, kind: type[KafkaWireError] = AuthenticationError, timeout_s: float = 5) -> str:
    """The one line that is reported, without a secret in it or in its causes."""
    with pytest.raises(kind) as caught:
        keys_of(login, timeout_s)
    error: BaseException | None = caught.value
    whole = "".join(traceback.format_exception(caught.value))
    while error is not None:
        whole += f"{error!s} {error!r}"
        error = error.__cause__ or error.__context__
    assert "s3cret" not in whole
    assert "\n" not in str(caught.value)
    return str(caught.value)


# Signatures


@pytest.mark.parametrize("session", [None, SESSION])
@pytest.mark.parametrize("region", ["eu-west-1", "us-gov-east-1", "cn-north-1"])
def test_a_token_is_the_url_that_botocore_signs(session: str | None, region: str) -> None:
    token = signed_token(region, Keys(KEY_ID, SECRET, session), NOW)
    assert "=" not in token
    url = urlsplit(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode())
    assert (url.scheme, url.netloc, url.path) == ("https", f"kafka.{region}.amazonaws.com", "/")
    ours = dict(parse_qsl(url.query, strict_parsing=True))
    assert ours.pop("User-Agent").startswith("spark-kafkawire/")
    connect = {"Action": "kafka-cluster:Connect"}
    keys = (KEY_ID, SECRET, session)
    assert ours == signed_url_query(
        f"https://kafka.{region}.amazonaws.com/", "kafka-cluster", region, keys, connect, 900, STAMP
    )


@pytest.mark.parametrize("session", [None, SESSION])
def test_the_message_of_aws_msk_iam_is_what_botocore_signs(session: str | None) -> None:
    message = json.loads(payload(HOST, REGION, Keys(KEY_ID, SECRET, session), NOW))
    assert message == signed_payload(message, KEY_ID, SECRET)
    names = {
        "version", "host", "user-agent", "action", "x-amz-algorithm", "x-amz-credential", "x-amz-date",
        "x-amz-signedheaders", "x-amz-expires", "x-amz-signature",
    }  # fmt: skip
    assert set(message) == (names | {"x-amz-security-token"} if session else names)
    assert message["version"] == "2020_10_22"
    assert message["action"] == "kafka-cluster:Connect"
    assert message["x-amz-date"] == STAMP
    assert message["x-amz-expires"] == "900"
    assert SECRET not in str(message)


@pytest.mark.parametrize(
    ("host", "region"),
    [
        (HOST, "eu-west-1"),
        ("boot-x1.c3.kafka-serverless.ap-southeast-2.amazonaws.com", "ap-southeast-2"),
        ("B-2.DEMO.X.KAFKA.US-GOV-WEST-1.AMAZONAWS.COM", "us-gov-west-1"),
        ("b-1.demo.x.kafka.cn-north-1.amazonaws.com.cn", "cn-north-1"),
        ("vpce-1.vpce-svc-2.us-east-1.vpce.amazonaws.com", "us-east-1"),
    ],
)
def test_the_region_is_in_the_name_of_the_broker(
    host: str, region: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_REGION", "sa-east-1")
    assert region_of(host, None) == region


def test_the_region_of_another_name_is_that_of_the_environment_or_the_profile(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for host in ("kafka.example.com", "10.0.0.1", "kafka.eu-west-1.example.com"):
        with pytest.raises(
            AuthenticationError, match="has no region; set the environment variable AWS_REGION"
        ):
            region_of(host, None)
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "config").write_text(
        "[default]\nregion = eu-north-1\n[profile p]\nregion=eu-west-3\n"
    )
    assert region_of("kafka.example.com", None) == "eu-north-1"
    assert region_of("kafka.example.com", "p") == "eu-west-3"
    for name, region in (("AWS_DEFAULT_REGION", "us-west-2"), ("AWS_REGION", "sa-east-1")):
        monkeypatch.setenv(name, region)
        assert region_of("kafka.example.com", None) == region
    monkeypatch.setenv("AWS_REGION", "x/../y")
    with pytest.raises(AuthenticationError, match="has no region"):
        region_of("kafka.example.com", None)


@pytest.mark.parametrize("answer", [b"", b"{}", b"[]", b"\xff", b"[" * 100_000, SECRET.encode()])
def test_a_broker_that_does_not_accept_the_signature_is_refused(answer: bytes) -> None:
    login = AwsLogin(role_keys=Keys(KEY_ID, SECRET))
    tokens = MECHANISMS["AWS_MSK_IAM"].tokens(login, HOST, Deadline.after(5))
    assert json.loads(next(tokens))["host"] == HOST
    with pytest.raises(AuthenticationError, match=rf"does not accept .* of {len(answer)} byte") as error:
        tokens.send(answer)
    assert "s3cret" not in str(error.value)


def test_a_client_logs_in_with_a_token_of_its_own_for_each_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_REGION", REGION)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY_ID)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)

    def login() -> Generator[bytes, bytes, None]:
        token = (yield b"").decode().partition("auth=Bearer ")[2].partition("\x01")[0]
        url = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode()
        query = dict(parse_qsl(urlsplit(url).query))
        agent = query.pop("User-Agent")
        stamp, keys = query["X-Amz-Date"], (KEY_ID, SECRET, None)
        connect = {"Action": "kafka-cluster:Connect"}
        signed = signed_url_query(url.partition("?")[0], "kafka-cluster", REGION, keys, connect, 900, stamp)
        if query != signed or not agent:
            raise Refused
        yield b""

    settings = replace(
        settings_modern(10), security=Security(sasl=Sasl("OAUTHBEARER", Bearer(MskToken(AwsLogin()))))
    )
    with Peer(login_broker({"OAUTHBEARER": login})) as peer:
        for _ in range(2):
            with Client.connect(peer.broker, settings) as client:
                assert client.request(MetadataRequest(topics=None)) == METADATA_RESPONSE


# Places of credentials


@pytest.mark.parametrize("library", [True, False])
def test_keys_of_the_environment(library: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not library:
        monkeypatch.setitem(sys.modules, "botocore", None)
        monkeypatch.setitem(sys.modules, "botocore.session", None)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY_ID)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    assert keys_of(AwsLogin()) == Keys(KEY_ID, SECRET)
    forget_keys()
    monkeypatch.setenv("AWS_SESSION_TOKEN", SESSION)
    assert keys_of(AwsLogin()) == Keys(KEY_ID, SECRET, SESSION)
    assert "s3cret" not in repr(keys_of(AwsLogin()))


@pytest.mark.parametrize("library", [True, False])
def test_keys_of_a_profile(library: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    if not library:
        monkeypatch.setitem(sys.modules, "botocore", None)
        monkeypatch.setitem(sys.modules, "botocore.session", None)
    folder = tmp_path / ".aws"
    folder.mkdir()
    (folder / "credentials").write_text(
        f"[default]\naws_access_key_id={KEY_ID}\naws_secret_access_key = {SECRET}\n"
        f"[p%q]\naws_access_key_id=OTHER\naws_secret_access_key={SECRET}\naws_session_token={SESSION}\n"
    )
    (folder / "config").write_text(
        f"[profile in-config]\naws_access_key_id=THIRD\naws_secret_access_key={SECRET}\n"
    )
    assert keys_of(AwsLogin()) == Keys(KEY_ID, SECRET)
    assert keys_of(AwsLogin("p%q")) == Keys("OTHER", SECRET, SESSION)
    assert keys_of(AwsLogin("in-config")) == Keys("THIRD", SECRET)
    assert "profile no-such" in refused(AwsLogin("no-such"))
    forget_keys()
    monkeypatch.setenv("AWS_PROFILE", "in-config")
    assert keys_of(AwsLogin()).access == "THIRD"
    monkeypatch.delenv("AWS_PROFILE")
    forget_keys()
    elsewhere = tmp_path / "elsewhere"
    (folder / "credentials").rename(elsewhere)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(elsewhere))
    assert keys_of(AwsLogin()).access == KEY_ID


@pytest.mark.usefixtures("without_botocore")
def test_a_profile_that_only_aws_follows_is_reported(tmp_path: Path) -> None:
    (tmp_path / ".aws").mkdir()
    config = tmp_path / ".aws" / "config"
    for name in ("sso_session", "credential_process", "role_arn"):
        config.write_text(f"[profile p]\n{name} = {SECRET}\n")
        message = refused(AwsLogin("p"))
        assert f"profile p has {name}, which needs AWS's own library: run pip install" in message
    config.write_text(f"{SECRET}\n[p]\n")
    assert "is not a file of profiles (MissingSectionHeaderError)" in refused(AwsLogin("p"))
    config.write_bytes(b"\xff\xfe\0")
    assert "is not a file of profiles" in refused(AwsLogin())


@pytest.mark.usefixtures("without_botocore")
def test_without_credentials_all_places_are_reported() -> None:
    message = refused(AwsLogin())
    assert "AWS_ACCESS_KEY_ID" in message
    assert "run pip install 'spark-kafkawire[aws]'" in message


def test_botocore_that_finds_nothing_is_reported_without_its_words(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert "botocore finds no credentials on the machine that connects" in refused(AwsLogin())
    assert "(ProfileNotFound) of profile p" in refused(AwsLogin("p"))
    (tmp_path / ".aws").mkdir()
    process = "echo s3cret >&2; exit 1"
    (tmp_path / ".aws" / "config").write_text(f"[profile p]\ncredential_process = sh -c '{process}'\n")
    assert "(CredentialRetrievalError) of profile p" in refused(AwsLogin("p"))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY_ID)
    assert "(PartialCredentialsError)" in refused(AwsLogin())


def test_botocore_that_hangs_is_given_up_in_time(tmp_path: Path) -> None:
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "config").write_text("[profile p]\ncredential_process = sleep 3\n")
    began_s = time.monotonic()
    assert "no answer within 0.3 s (requestTimeout)" in refused(AwsLogin("p"), RequestTimedOut, 0.3)
    assert time.monotonic() - began_s < 0.3 + GRACE_S


def document(**changes: object) -> dict[str, object]:
    until = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)
    return {
        "AccessKeyId": KEY_ID,
        "SecretAccessKey": SECRET,
        "Token": SESSION,
        "Expiration": until.strftime("%Y-%m-%dT%H:%M:%SZ"),
        **changes,
    }


@pytest.mark.usefixtures("without_botocore")
@pytest.mark.parametrize("token", ["variable", "file", None])
def test_keys_of_a_container(token: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen: list[bytes] = []
    with Peer(asked_for(http_answer(document()), seen)) as peer:
        monkeypatch.setenv(
            "AWS_CONTAINER_CREDENTIALS_FULL_URI", f"http://127.0.0.1:{peer.broker.port}/v1/credentials"
        )
        if token == "variable":
            monkeypatch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN", "Basic abc")
        if token == "file":
            (tmp_path / "token").write_text("eyJ.abc\n")
            monkeypatch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", str(tmp_path / "token"))
        for _ in range(2):
            found = keys_of(AwsLogin())
            assert (found.access, found.secret, found.session) == (KEY_ID, SECRET, SESSION)
            assert found.lifetime_s == pytest.approx(3600, abs=GRACE_S)
        assert peer.connection_count == 1
    assert seen[0].startswith(b"GET /v1/credentials HTTP/1.1\r\n")
    expected = {"variable": b"Authorization: Basic abc\r\n", "file": b"Authorization: eyJ.abc\r\n"}
    assert expected.get(token or "", b"\r\n") in seen[0]
    assert (b"Authorization" in seen[0]) == (token is not None)


@pytest.mark.usefixtures("without_botocore")
@pytest.mark.parametrize(
    "url", ["http://example.com/", "http://169.254.169.254/", "ftp://localhost/", "http://10.0.0.1/", "x"]
)
def test_a_container_endpoint_elsewhere_gets_no_token(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", url)
    monkeypatch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN", SECRET)
    assert "is neither https nor an address of this machine" in refused(AwsLogin())


@pytest.mark.usefixtures("without_botocore")
@pytest.mark.parametrize("token", ["s3cret\r\nX: y", "s3cret\N{EURO SIGN}"])
def test_a_bad_token_of_a_container_is_reported(token: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.1:1/")
    monkeypatch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN", token)
    assert "is not one line of ASCII (its value is not shown)" in refused(AwsLogin())


@pytest.mark.usefixtures("without_botocore")
def test_a_user_without_a_home_has_no_profiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container that runs as any user id."""
    monkeypatch.delenv("HOME")
    monkeypatch.setattr("pwd.getpwuid", lambda uid: {}[uid])
    assert "no credentials in the environment" in refused(AwsLogin())


@pytest.mark.usefixtures("without_botocore")
@pytest.mark.parametrize(
    ("answer", "kind", "message"),
    [
        (
            http_answer({"message": SECRET}, "403 No"),
            AuthenticationError,
            "refuses the request: HTTP status 403",
        ),
        (http_answer({}, "302 Found", "Location: http://h/"), AuthenticationError, "HTTP status 302"),
        (http_answer({}, "500 Oh"), ConnectFailed, "answers with HTTP status 500"),
        (http_answer(b"[" * 100_000), AuthenticationError, "has no credentials"),
        (http_answer(document(Token=None)), AuthenticationError, "has no credentials"),
        (http_answer(document(SecretAccessKey=["s3cret"])), AuthenticationError, "has no credentials"),
        (http_answer(document(AccessKeyId="a\nb")), AuthenticationError, "has no credentials"),
        (http_answer(bytes(2 << 20)), ConnectFailed, "the answer is longer than"),
        (b"", ConnectFailed, "ends early"),
    ],
)
def test_a_bad_answer_of_a_container_is_reported(
    answer: bytes, kind: type[KafkaWireError], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Peer(asked_for(answer)) as peer:
        monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"http://127.0.0.1:{peer.broker.port}/")
        assert message in refused(AwsLogin(), kind)


@pytest.mark.usefixtures("without_botocore")
@pytest.mark.parametrize("expiration", [None, "soon", "2001-01-01T00:00:00Z", "2026-11-25T03:50:00", 5])
def test_keys_of_unknown_life_are_used_once(expiration: object, monkeypatch: pytest.MonkeyPatch) -> None:
    with Peer(asked_for(http_answer(document(Expiration=expiration)))) as peer:
        monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"http://127.0.0.1:{peer.broker.port}/")
        assert keys_of(AwsLogin()) == keys_of(AwsLogin())
        assert peer.connection_count == 2


def metadata_service(request: bytes) -> bytes:
    """EC2's metadata service, version 2."""
    line, _, head = request.decode().partition("\r\n")
    if line.startswith("PUT /latest/api/token "):
        return http_answer(
            b"ec2-token" if "X-aws-ec2-metadata-token-ttl-seconds: " in head else b"", "200 OK"
        )
    if "X-aws-ec2-metadata-token: ec2-token\r\n" not in head:
        return http_answer(b"", "401 No")
    folder = "GET /latest/meta-data/iam/security-credentials/"
    if line.startswith(f"{folder} "):
        return http_answer(b"kafka-role")
    return http_answer(document()) if line.startswith(f"{folder}kafka-role ") else http_answer(b"", "404 No")


@pytest.mark.usefixtures("without_botocore")
def test_keys_of_ec2_come_from_version_2_of_its_service(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_EC2_METADATA_DISABLED")
    with Peer(asked_for(metadata_service)) as peer:
        monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", f"http://127.0.0.1:{peer.broker.port}/")
        assert keys_of(AwsLogin()).session == SESSION
        assert keys_of(AwsLogin()).session == SESSION
        assert peer.connection_count == 3


@pytest.mark.usefixtures("without_botocore")
@pytest.mark.parametrize("step", [0, 1, 2])
@pytest.mark.parametrize(
    "bad",
    [http_answer(b"\xff\r\nX: y"), http_answer(b"a b\x01"), http_answer(b"", "404 No"), b"", b"\0" * 100],
)
def test_a_bad_metadata_service_of_ec2_is_reported(
    step: int, bad: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_EC2_METADATA_DISABLED")
    good: Callable[[bytes], bytes] = metadata_service
    scripts = [asked_for(good) for _ in range(step)] + [asked_for(bad)]
    with Peer(*scripts) as peer:
        monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", f"http://127.0.0.1:{peer.broker.port}")
        assert refused(AwsLogin(), KafkaWireError).startswith("AWS: ")


@pytest.mark.usefixtures("without_botocore")
def test_a_silent_metadata_service_of_ec2_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_EC2_METADATA_DISABLED")
    with Peer(stalling()) as peer:
        monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", f"http://127.0.0.1:{peer.broker.port}")
        began_s = time.monotonic()
        message = refused(AwsLogin(), RequestTimedOut, 0.3)
        assert time.monotonic() - began_s < 0.3 + GRACE_S
    assert message.startswith(
        "AWS: no credentials in the environment or in profiles, and the metadata endpoint"
    )


# Roles


def role_answer(expires_s: float = 3600) -> bytes:
    """The answer of STS, as its API reference shows it."""
    until = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=expires_s)
    text = f"""<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult>
      <AssumedRoleUser><Arn>arn:aws:sts::123456789012:assumed-role/demo/x</Arn></AssumedRoleUser>
      <Credentials>
        <AccessKeyId>ASIAROLE</AccessKeyId>
        <SecretAccessKey>{SECRET}role</SecretAccessKey>
        <SessionToken>{SESSION}role</SessionToken>
        <Expiration>{until:%Y-%m-%dT%H:%M:%SZ}</Expiration>
      </Credentials></AssumeRoleResult></AssumeRoleResponse>"""
    return http_answer(text.encode())


def sts(certificates: Certificates, *answers: bytes, seen: list[bytes] | None = None) -> Peer:
    server = server_of(certificates.server)
    return Peer(*(serving(server, asked_for(answer, seen)) for answer in answers))


def sts_url(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> str:
    url = f"https://{SERVER_NAME}:{peer.broker.port}"
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", url)
    return url


@pytest.mark.parametrize("session", [None, SESSION])
def test_a_role_is_assumed_with_a_request_that_botocore_signs(
    session: str | None, certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bytes] = []
    login = AwsLogin(
        role_arn=ROLE,
        role_session_name="my session",
        role_external_id="ext/1",
        role_keys=Keys(KEY_ID, SECRET, session),
        sts_region="us-east-2",
        tls=Tls(certificates.authority.read_text()),
    )
    with sts(certificates, role_answer(), seen=seen) as peer:
        url = sts_url(peer, monkeypatch)
        for _ in range(2):
            found = keys_of(login)
            assert (found.access, found.secret, found.session) == (
                "ASIAROLE",
                f"{SECRET}role",
                f"{SESSION}role",
            )
        assert peer.connection_count == 1
    line = seen[0].decode().split("\r\n")[0]
    query = dict(parse_qsl(urlsplit(line.split()[1]).query))
    expected = {
        "Action": "AssumeRole",
        "Version": "2011-06-15",
        "RoleArn": ROLE,
        "RoleSessionName": "my session",
        "ExternalId": "ext/1",
    }
    keys = (KEY_ID, SECRET, session)
    assert query == signed_url_query(f"{url}/", "sts", "us-east-2", keys, expected, 60, query["X-Amz-Date"])
    assert SECRET not in seen[0].decode()


def test_the_service_of_the_region_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    from spark_kafkawire.net.logins.tokens.aws.sts import _address

    assert _address("eu-west-1")[0].netloc == "sts.eu-west-1.amazonaws.com"
    assert _address("cn-north-1")[0].netloc == "sts.cn-north-1.amazonaws.com.cn"
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", "http://h/")
    with pytest.raises(KafkaWireError, match=r"AWS_ENDPOINT_URL_STS: .* plain http is not allowed"):
        _address("eu-west-1")


@pytest.mark.usefixtures("without_botocore")
def test_a_web_identity_is_exchanged_for_a_role(
    certificates: Certificates, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "token"
    path.write_text("s3cret.web.identity\n")
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(path))
    monkeypatch.setenv("AWS_ROLE_ARN", ROLE)
    monkeypatch.setenv("AWS_ROLE_SESSION_NAME", "pod")
    seen: list[bytes] = []
    with sts(certificates, role_answer(), seen=seen) as peer:
        sts_url(peer, monkeypatch)
        assert keys_of(AwsLogin(tls=Tls(certificates.authority.read_text()))).access == "ASIAROLE"
    head, _, body = seen[0].decode().partition("\r\n\r\n")
    assert head.startswith("POST / HTTP/1.1\r\n")
    assert parse_qs(body) == {
        "Action": ["AssumeRoleWithWebIdentity"],
        "Version": ["2011-06-15"],
        "RoleArn": [ROLE],
        "RoleSessionName": ["pod"],
        "WebIdentityToken": ["s3cret.web.identity"],
    }
    path.unlink()
    forget_keys()
    assert "AWS_WEB_IDENTITY_TOKEN_FILE" in refused(AwsLogin())


def error_answer(code: str, status: str = "403 No") -> bytes:
    text = f"<ErrorResponse><Error><Code>{code}</Code><Message>{SECRET}</Message></Error></ErrorResponse>"
    return http_answer(text.encode(), status)


@pytest.mark.parametrize(
    ("answer", "kind", "message"),
    [
        (
            error_answer("AccessDenied"),
            AuthenticationError,
            "refuses the role: HTTP status 403 AccessDenied; check",
        ),
        (error_answer("s3cret"), AuthenticationError, "refuses the role: HTTP status 403; check"),
        (error_answer("Throttling", "503 Later"), ConnectFailed, "HTTP status 503"),
        (http_answer({}, "301 Moved", "Location: http://h/"), AuthenticationError, "HTTP status 301"),
        (http_answer({}), AuthenticationError, "its response has no credentials"),
        (http_answer(b"<AccessKeyId>" * 70_000), AuthenticationError, "its response has no credentials"),
        (http_answer(bytes(2 << 20)), ConnectFailed, "the answer is longer than"),
    ],
)
def test_a_refused_role_is_reported(
    answer: bytes,
    kind: type[KafkaWireError],
    message: str,
    certificates: Certificates,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with sts(certificates, answer) as peer:
        sts_url(peer, monkeypatch)
        login = AwsLogin(
            role_arn=ROLE, role_keys=Keys(KEY_ID, SECRET), tls=Tls(certificates.authority.read_text())
        )
        found = refused(login, kind)
    assert found.startswith(f"AWS STS {SERVER_NAME}: ")
    assert message in found


def test_a_service_that_is_not_trusted_gets_no_request(
    certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bytes] = []
    with sts(certificates, role_answer(), seen=seen) as peer:
        sts_url(peer, monkeypatch)
        assert "certificate is not trusted" in refused(
            AwsLogin(role_arn=ROLE, role_keys=Keys(KEY_ID, SECRET))
        )
    assert seen == []


def test_keys_are_renewed_before_they_expire(
    certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    login = AwsLogin(
        role_arn=ROLE, role_keys=Keys(KEY_ID, SECRET), tls=Tls(certificates.authority.read_text())
    )
    with sts(certificates, role_answer(1000)) as peer:
        sts_url(peer, monkeypatch)
        keys_of(login)
        now_s = time.monotonic()
        deadline = Deadline(now_s + 1e6, 1e6)
        monkeypatch.setattr("spark_kafkawire.net.logins.tokens.aws.login.time.monotonic", lambda: now_s + 700)
        login.keys(REGION, deadline)
        assert peer.connection_count == 1
        monkeypatch.setattr("spark_kafkawire.net.logins.tokens.aws.login.time.monotonic", lambda: now_s + 900)
        login.keys(REGION, deadline)
        assert peer.connection_count == 2


def test_no_secret_is_in_a_repr() -> None:
    login = AwsLogin(role_keys=Keys(KEY_ID, SECRET, SESSION))
    texts: list[Any] = [login, MskToken(login), Sasl("AWS_MSK_IAM", login)]
    assert all("s3cret" not in f"{each!r} {each!s}" for each in texts)
