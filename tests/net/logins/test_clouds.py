"""Tokens and signatures from the services of Google, Azure and Amazon."""

from __future__ import annotations

import base64
import contextlib
import datetime
import json
import os
import sys
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, parse_qsl, urlsplit

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from spark_kafkawire.errors import AuthenticationError, ConnectFailed, KafkaWireError, RequestTimedOut
from spark_kafkawire.kept import forget_all
from spark_kafkawire.net.client import Client
from spark_kafkawire.net.logins.aws import (
    AwsLogin,
    Keys,
    MskToken,
    payload,
    region_of,
    sign_token,
)
from spark_kafkawire.net.logins.oauthbearer import Bearer
from spark_kafkawire.net.logins.tokens.clouds import AzureToken, GoogleToken
from spark_kafkawire.net.logins.tokens.token import Token, TokenSource, current_token
from spark_kafkawire.net.sasl import MECHANISMS, Sasl
from spark_kafkawire.net.settings import Security
from spark_kafkawire.net.tls import Tls
from spark_kafkawire.net.transport import Deadline
from spark_kafkawire.protocol.modern.metadata import MetadataRequest
from tests.net.aws_judge import signed_payload, signed_url_query
from tests.net.login_broker import REGION, Refused, asked_for, http_answer, login_broker, reported
from tests.net.modern_peers import METADATA_RESPONSE
from tests.net.peers import Peer, server_of, serving, stalling
from tests.support.certificates import SERVER_NAME, Certificates
from tests.support.polling import GRACE_S
from tests.support.settings import settings_modern

SECRET: Final = "s3cret.access.token"
#: What all secrets here begin with.
IN_SECRETS: Final = "s3cret"
ACCOUNT: Final = "kafka@project.iam.gserviceaccount.com"
SCOPE: Final = "https://ns.servicebus.windows.net/.default"


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No credentials of this machine, and a home without files."""
    for name in list(os.environ):
        if name.startswith(("AWS_", "AZURE_", "GOOGLE_", "GCE_", "IDENTITY_", "CLOUDSDK_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


def got(source: TokenSource, timeout_s: float = 5) -> Token:
    return current_token(source, "broker", Deadline.after(timeout_s))


def refused(
    source: TokenSource, kind: type[KafkaWireError] = AuthenticationError, timeout_s: float = 5
) -> str:
    return reported(lambda: got(source, timeout_s), kind, IN_SECRETS)


def decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def access(**changes: object) -> bytes:
    return http_answer({"access_token": SECRET, "expires_in": 3600, "token_type": "Bearer", **changes})


# Google


def google_metadata(request: bytes) -> bytes:
    line, _, head = request.decode().partition("\r\n")
    if "Metadata-Flavor: Google\r\n" not in head:
        return http_answer(b"", "403 No")
    account = "GET /computeMetadata/v1/instance/service-accounts/default"
    answers = {
        f"{account}/token HTTP/1.1": access(),
        f"{account}/email HTTP/1.1": http_answer(ACCOUNT.encode()),
    }
    return answers.get(line, http_answer(b"", "404 No"))


def check_of_google(token: Token) -> None:
    header, claims, raw = (decoded(part) for part in token.value.split("."))
    assert json.loads(header) == {"typ": "JWT", "alg": "GOOG_OAUTH2_TOKEN"}
    result = json.loads(claims)
    assert abs(result.pop("iat") - time.time()) < GRACE_S
    assert abs(result.pop("exp") - time.time() - 3600) < GRACE_S
    assert result == {"iss": "Google", "scope": "kafka", "sub": ACCOUNT}
    assert raw.decode() == SECRET
    assert token.lifetime_s == 3600


def test_google_gives_the_account_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    with Peer(asked_for(google_metadata)) as peer:
        monkeypatch.setenv("GCE_METADATA_HOST", f"127.0.0.1:{peer.broker.port}")
        for _ in range(2):
            check_of_google(got(GoogleToken()))
        assert peer.connection_count == 2


@pytest.mark.parametrize("step", [0, 1])
@pytest.mark.parametrize(
    "bad",
    [http_answer(b"s3cret \xff\r\n x"), http_answer(b"", "404 No"), http_answer(b"", "302 Found"), b"", b"\0",
     http_answer(b"[" * 100_000), http_answer(bytes(2 << 20)), http_answer({}, "503 Later")],
)  # fmt: skip
def test_bad_metadata_of_google_is_reported(step: int, bad: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    good: Callable[[bytes], bytes] = google_metadata
    with Peer(*[asked_for(good)] * step, asked_for(bad)) as peer:
        monkeypatch.setenv("GCE_METADATA_HOST", f"127.0.0.1:{peer.broker.port}")
        assert refused(GoogleToken(), KafkaWireError).startswith("Google: ")


def key_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **fields: object) -> None:
    path = tmp_path / "key.json"
    path.write_text(json.dumps(fields))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(path))


@pytest.mark.parametrize("usual", [False, True])
def test_google_gives_tokens_for_the_key_of_a_service_account(
    usual: bool, certificates: Certificates, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    key: Any = rsa.generate_private_key(65537, 2048)
    pkcs8, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    pem = key.private_bytes(serialization.Encoding.PEM, pkcs8, plain).decode()
    seen: list[bytes] = []
    with Peer(serving(server_of(certificates.server), asked_for(access(), seen))) as peer:
        url = f"https://{SERVER_NAME}:{peer.broker.port}/token"
        key_file(
            tmp_path,
            monkeypatch,
            type="service_account",
            client_email=ACCOUNT,
            private_key=pem,
            private_key_id="k1",
            token_uri=url,
        )
        if usual:
            folder = tmp_path / ".config" / "gcloud"
            folder.mkdir(parents=True)
            (tmp_path / "key.json").rename(folder / "application_default_credentials.json")
            monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS")
        check_of_google(got(GoogleToken(Tls(certificates.authority.read_text()))))
        assert "certificate is not trusted" in refused(GoogleToken())
    [request] = seen
    form = parse_qs(request.partition(b"\r\n\r\n")[2].decode())
    assert form["grant_type"] == ["urn:ietf:params:oauth:grant-type:jwt-bearer"]
    signed, _, signature = form["assertion"][0].rpartition(".")
    key.public_key().verify(decoded(signature), signed.encode(), padding.PKCS1v15(), hashes.SHA256())
    header, claims = (json.loads(decoded(part)) for part in signed.split("."))
    assert header == {"alg": "RS256", "typ": "JWT", "kid": "k1"}
    assert claims["exp"] - claims["iat"] == 3600
    assert {name: claims[name] for name in ("iss", "aud", "scope")} == {
        "iss": ACCOUNT,
        "aud": url,
        "scope": "https://www.googleapis.com/auth/cloud-platform",
    }


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "has credentials of type None, and only service_account is read; for others set"),
        ({"type": "authorized_user", "refresh_token": SECRET}, "which may use google-auth"),
        ({"type": "service_account", "private_key": SECRET}, "lacks client_email or private_key"),
        (
            {"type": "service_account", "client_email": "a", "private_key": SECRET},
            "or the like; give a file with one",
        ),
    ],
)
def test_a_bad_key_file_of_google_is_reported(
    fields: dict[str, object], message: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    key_file(tmp_path, monkeypatch, **fields)
    assert message in refused(GoogleToken(), KafkaWireError)
    (tmp_path / "key.json").unlink()
    assert "GOOGLE_APPLICATION_CREDENTIALS: " in refused(GoogleToken())


# Azure


def test_azure_gives_the_managed_identity_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bytes] = []
    with Peer(asked_for(access(expires_in="3599"), seen)) as peer:
        monkeypatch.setenv("AZURE_POD_IDENTITY_AUTHORITY_HOST", f"http://127.0.0.1:{peer.broker.port}/")
        assert got(AzureToken(SCOPE)) == got(AzureToken(SCOPE)) == Token(SECRET, 3599.0)
        forget_all()
        monkeypatch.setenv("AZURE_CLIENT_ID", "user assigned")
        assert got(AzureToken(SCOPE)).value == SECRET
    first, second = (request.decode() for request in seen)
    assert "Metadata: true\r\n" in first
    url = urlsplit(first.split()[1])
    assert url.path == "/metadata/identity/oauth2/token"
    assert parse_qs(url.query) == {
        "api-version": ["2018-02-01"],
        "resource": ["https://ns.servicebus.windows.net"],
    }
    assert parse_qs(urlsplit(second.split()[1]).query)["client_id"] == ["user assigned"]


def test_azure_gives_the_identity_of_an_app(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bytes] = []
    with Peer(asked_for(access(), seen)) as peer:
        monkeypatch.setenv("IDENTITY_ENDPOINT", f"http://127.0.0.1:{peer.broker.port}/msi/token")
        monkeypatch.setenv("IDENTITY_HEADER", "s3cret-header")
        assert got(AzureToken(SCOPE)) == Token(SECRET, 3600.0)
    assert b"X-IDENTITY-HEADER: s3cret-header\r\n" in seen[0]
    assert b"GET /msi/token?api-version=2019-08-01&resource=https%3A%2F%2Fns.servicebus" in seen[0]


@pytest.mark.parametrize("proof", ["AZURE_CLIENT_SECRET", "AZURE_FEDERATED_TOKEN_FILE"])
def test_azure_gives_tokens_to_an_application(
    proof: str, certificates: Certificates, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text("s3cret.federated\n")
    monkeypatch.setenv("AZURE_TENANT_ID", "tenant/1")
    monkeypatch.setenv("AZURE_CLIENT_ID", "me")
    monkeypatch.setenv(proof, "s3cret" if proof == "AZURE_CLIENT_SECRET" else str(tmp_path / "token"))
    seen: list[bytes] = []
    source = AzureToken(SCOPE, Tls(certificates.authority.read_text()))
    bad = http_answer({"error": "invalid_client", "error_description": "s3cret"}, "401 No")
    server = server_of(certificates.server)
    with Peer(serving(server, asked_for(access(), seen)), serving(server, asked_for(bad))) as peer:
        monkeypatch.setenv("AZURE_AUTHORITY_HOST", f"https://{SERVER_NAME}:{peer.broker.port}/")
        assert got(source) == Token(SECRET, 3600.0)
        forget_all()
        assert refused(source).endswith(
            f"rejects {proof}: HTTP status 401 invalid_client; check that it knows this client"
        )
    head, _, body = seen[0].decode().partition("\r\n\r\n")
    assert head.startswith("POST /tenant%2F1/oauth2/v2.0/token HTTP/1.1\r\n")
    form = {name: value for name, [value] in parse_qs(body).items()}
    proofs = {
        "AZURE_CLIENT_SECRET": {"client_secret": "s3cret"},
        "AZURE_FEDERATED_TOKEN_FILE": {
            "client_assertion": "s3cret.federated",
            "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
        },
    }
    assert form == {
        "grant_type": "client_credentials", "client_id": "me", "scope": SCOPE, **proofs[proof]
    }  # fmt: skip


@pytest.mark.parametrize(
    ("answer", "kind", "message"),
    [
        (
            http_answer({"error": SECRET}, "400 Bad"),
            AuthenticationError,
            "refuses the request: HTTP status 400",
        ),
        (http_answer({}, "302 Found", "Location: http://h/"), AuthenticationError, "HTTP status 302"),
        (http_answer({}, "429 Later"), ConnectFailed, "HTTP status 429"),
        (http_answer({}), AuthenticationError, "answers with no token"),
        (access(access_token="s3cret\x01"), AuthenticationError, "answers with no token"),
        (http_answer(b"[" * 100_000), AuthenticationError, "answers with no token"),
        (http_answer(bytes(2 << 20)), ConnectFailed, "the answer is longer than"),
    ],
)
def test_a_bad_metadata_service_of_azure_is_reported(
    answer: bytes, kind: type[KafkaWireError], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Peer(asked_for(answer)) as peer:
        monkeypatch.setenv("AZURE_POD_IDENTITY_AUTHORITY_HOST", f"http://127.0.0.1:{peer.broker.port}")
        result = refused(AzureToken(SCOPE), kind)
    assert result.startswith("Azure: ")
    assert message in result


@pytest.mark.parametrize("expires_in", [None, "", "soon", "-1", "\N{FULLWIDTH DIGIT NINE}", [1], True])
def test_a_token_of_unknown_life_is_used_once(expires_in: object, monkeypatch: pytest.MonkeyPatch) -> None:
    with Peer(asked_for(access(expires_in=expires_in))) as peer:
        monkeypatch.setenv("AZURE_POD_IDENTITY_AUTHORITY_HOST", f"http://127.0.0.1:{peer.broker.port}")
        assert got(AzureToken(SCOPE)) == got(AzureToken(SCOPE)) == Token(SECRET, 0.0)
        assert peer.connection_count == 2


@pytest.mark.parametrize(
    ("variable", "source"),
    [("GCE_METADATA_HOST", GoogleToken()), ("AZURE_POD_IDENTITY_AUTHORITY_HOST", AzureToken(SCOPE))],
)
def test_silent_metadata_ends_in_time(
    variable: str, source: TokenSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Peer(stalling()) as peer:
        scheme = "" if variable == "GCE_METADATA_HOST" else "http://"
        monkeypatch.setenv(variable, f"{scheme}127.0.0.1:{peer.broker.port}")
        began_s = time.monotonic()
        assert "no answer within 0.3 s (requestTimeout)" in refused(source, RequestTimedOut, 0.3)
        assert time.monotonic() - began_s < 0.3 + GRACE_S


# --- Amazon MSK ---

#: Keys of AWS's own documentation, and one that may not be shown.
KEY_ID: Final = "AKIDEXAMPLE"
AWS_SECRET: Final = "s3cret/K7MDENG+bPxRfiCYEXAMPLEKEY"
SESSION: Final = "s3cret//+FwoGZXIvYXdz=="
NOW: Final = datetime.datetime(2026, 11, 25, 3, 50, 0, tzinfo=datetime.timezone.utc)
STAMP: Final = "20261125T035000Z"
HOST: Final = "b-1.demo.abc123.c2.kafka.eu-west-1.amazonaws.com"
ROLE: Final = "arn:aws:iam::123456789012:role/kafka"


def keys_of(login: AwsLogin, timeout_s: float = 5) -> Keys:
    return login.keys(REGION, Deadline.after(timeout_s))


def aws_refused(
    login: AwsLogin, kind: type[KafkaWireError] = AuthenticationError, timeout_s: float = 5
) -> str:
    return reported(lambda: keys_of(login, timeout_s), kind, IN_SECRETS)


# Signatures


@pytest.mark.parametrize("session", [None, SESSION])
@pytest.mark.parametrize("region", ["eu-west-1", "us-gov-east-1", "cn-north-1"])
def test_a_token_is_the_url_that_botocore_signs(session: str | None, region: str) -> None:
    token = sign_token(region, Keys(KEY_ID, AWS_SECRET, session), NOW)
    assert "=" not in token
    url = urlsplit(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode())
    assert (url.scheme, url.netloc, url.path) == ("https", f"kafka.{region}.amazonaws.com", "/")
    ours = dict(parse_qsl(url.query, strict_parsing=True))
    assert ours.pop("User-Agent").startswith("spark-kafkawire/")
    connect = {"Action": "kafka-cluster:Connect"}
    keys = (KEY_ID, AWS_SECRET, session)
    assert ours == signed_url_query(
        f"https://kafka.{region}.amazonaws.com/", "kafka-cluster", region, keys, connect, 900, STAMP
    )


@pytest.mark.parametrize("session", [None, SESSION])
def test_the_message_of_aws_msk_iam_is_what_botocore_signs(session: str | None) -> None:
    message = json.loads(payload(HOST, REGION, Keys(KEY_ID, AWS_SECRET, session), NOW))
    assert message == signed_payload(message, KEY_ID, AWS_SECRET)
    names = {
        "version", "host", "user-agent", "action", "x-amz-algorithm", "x-amz-credential", "x-amz-date",
        "x-amz-signedheaders", "x-amz-expires", "x-amz-signature",
    }  # fmt: skip
    assert set(message) == (names | {"x-amz-security-token"} if session else names)
    assert message["version"] == "2020_10_22"
    assert message["action"] == "kafka-cluster:Connect"
    assert message["x-amz-date"] == STAMP
    assert message["x-amz-expires"] == "900"
    assert AWS_SECRET not in str(message)


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
def test_the_region_is_in_the_brokers_name(host: str, region: str, monkeypatch: pytest.MonkeyPatch) -> None:
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


@pytest.mark.parametrize("answer", [b"", b"{}", b"[]", b"\xff", b"[" * 100_000, AWS_SECRET.encode()])
def test_a_broker_that_does_not_accept_the_signature_is_refused(answer: bytes) -> None:
    login = AwsLogin(role_keys=Keys(KEY_ID, AWS_SECRET))
    tokens = MECHANISMS["AWS_MSK_IAM"].tokens(login, HOST, Deadline.after(5))
    assert json.loads(next(tokens))["host"] == HOST
    with pytest.raises(AuthenticationError, match=rf"does not accept .* of {len(answer)} byte") as error:
        tokens.send(answer)
    assert "s3cret" not in str(error.value)


def test_a_client_logs_in_with_another_token_on_each_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", REGION)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY_ID)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", AWS_SECRET)

    def login() -> Generator[bytes, bytes, None]:
        token = (yield b"").decode().partition("auth=Bearer ")[2].partition("\x01")[0]
        url = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode()
        query = dict(parse_qsl(urlsplit(url).query))
        agent = query.pop("User-Agent")
        stamp, keys = query["X-Amz-Date"], (KEY_ID, AWS_SECRET, None)
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


# Places of credentials, which botocore knows


def test_keys_of_the_environment_and_of_profiles(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tmp_path / ".aws"
    folder.mkdir()
    (folder / "credentials").write_text(
        f"[default]\naws_access_key_id={KEY_ID}\naws_secret_access_key = {AWS_SECRET}\n"
        f"[p%q]\naws_access_key_id=OTHER\naws_secret_access_key={AWS_SECRET}\naws_session_token={SESSION}\n"
    )
    assert keys_of(AwsLogin()) == Keys(KEY_ID, AWS_SECRET)
    assert keys_of(AwsLogin("p%q")) == Keys("OTHER", AWS_SECRET, SESSION)
    forget_all()
    for name, value in {"ACCESS_KEY_ID": "MINE", "SECRET_ACCESS_KEY": "x", "SESSION_TOKEN": SESSION}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    assert keys_of(AwsLogin()) == Keys("MINE", "x", SESSION)
    assert "s3cret" not in repr(keys_of(AwsLogin()))


def test_without_botocore_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("botocore", "botocore.session"):
        monkeypatch.setitem(sys.modules, name, None)
    assert "run pip install botocore, for the driver and the executors" in aws_refused(AwsLogin())


def test_what_botocore_does_not_find_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert "botocore finds no credentials on the machine that connects" in aws_refused(AwsLogin())
    assert "(ProfileNotFound) of profile p" in aws_refused(AwsLogin("p"))
    (tmp_path / ".aws").mkdir()
    process = "echo s3cret >&2; exit 1"
    (tmp_path / ".aws" / "config").write_text(f"[profile p]\ncredential_process = sh -c '{process}'\n")
    assert "(CredentialRetrievalError) of profile p" in aws_refused(AwsLogin("p"))
    (tmp_path / ".aws" / "config").write_text(f"{AWS_SECRET}\n[profile p]\n")
    assert "(ConfigParseError)" in aws_refused(AwsLogin())
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY_ID)
    monkeypatch.setenv("AWS_CONFIG_FILE", os.devnull)
    assert "(PartialCredentialsError)" in aws_refused(AwsLogin())


def test_botocore_that_hangs_is_given_up_in_time(tmp_path: Path) -> None:
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "config").write_text("[profile p]\ncredential_process = sleep 3\n")
    began_s = time.monotonic()
    assert "no answer within 0.3 s (requestTimeout)" in aws_refused(AwsLogin("p"), RequestTimedOut, 0.3)
    assert time.monotonic() - began_s < 0.3 + GRACE_S


# Roles


def role_answer(expires_s: float = 3600) -> bytes:
    """The answer of STS, as its API reference shows it."""
    until = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=expires_s)
    text = f"""<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult>
      <AssumedRoleUser><Arn>arn:aws:sts::123456789012:assumed-role/demo/x</Arn></AssumedRoleUser>
      <Credentials>
        <AccessKeyId>ASIAROLE</AccessKeyId>
        <SecretAccessKey>{AWS_SECRET}role</SecretAccessKey>
        <SessionToken>{SESSION}role</SessionToken>
        <Expiration>{until:%Y-%m-%dT%H:%M:%SZ}</Expiration>
      </Credentials></AssumeRoleResult></AssumeRoleResponse>"""
    return http_answer(text.encode())


def role_login(**changes: Any) -> AwsLogin:
    return AwsLogin(role_arn=ROLE, role_keys=Keys(KEY_ID, AWS_SECRET), **changes)


@contextlib.contextmanager
def sts(
    certificates: Certificates,
    *answers: bytes,
    monkeypatch: pytest.MonkeyPatch,
    seen: list[bytes] | None = None,
) -> Iterator[Peer]:
    """The service of AWS, at the address that botocore is given."""
    server = server_of(certificates.server)
    with Peer(*(serving(server, asked_for(answer, seen)) for answer in answers)) as peer:
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", f"https://{SERVER_NAME}:{peer.broker.port}")
        monkeypatch.setenv("AWS_CA_BUNDLE", str(certificates.authority))
        yield peer


def test_a_role_is_assumed_and_renewed_in_time(
    certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bytes] = []
    login = role_login(role_session_name="my session", role_external_id="ext/1", sts_region="us-east-2")
    # botocore renews credentials that are valid for less than ten minutes.
    answers = role_answer(300), role_answer()
    with sts(certificates, *answers, monkeypatch=monkeypatch, seen=seen) as peer:
        for _ in range(4):
            result = keys_of(login)
            assert result == Keys("ASIAROLE", f"{AWS_SECRET}role", f"{SESSION}role")
        assert peer.connection_count == 2
    head, _, body = seen[0].decode().partition("\r\n\r\n")
    assert "/us-east-2/sts/aws4_request" in head
    assert parse_qs(body) == {
        "Action": ["AssumeRole"],
        "Version": ["2011-06-15"],
        "RoleArn": [ROLE],
        "RoleSessionName": ["my session"],
        "ExternalId": ["ext/1"],
    }
    assert AWS_SECRET not in seen[0].decode()


def error_answer(code: str, status: str = "403 No") -> bytes:
    text = f"<ErrorResponse><Error><Code>{code}</Code><Message>{AWS_SECRET}</Message></Error></ErrorResponse>"
    return http_answer(text.encode(), status)


@pytest.mark.parametrize(
    ("answer", "kind", "message"),
    [
        (
            error_answer("AccessDenied"),
            AuthenticationError,
            "refuses the role: HTTP status 403 AccessDenied;",
        ),
        (error_answer("s3cret"), AuthenticationError, "refuses the role: HTTP status 403;"),
        (error_answer("Throttling", "503 Later"), ConnectFailed, "HTTP status 503"),
        (http_answer({}), AuthenticationError, "botocore finds no credentials (ResponseParserError)"),
        (b"", ConnectFailed, "botocore finds no credentials (ConnectionClosedError)"),
    ],
)
def test_a_refused_role_is_reported(
    answer: bytes,
    kind: type[KafkaWireError],
    message: str,
    certificates: Certificates,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with sts(certificates, answer, monkeypatch=monkeypatch):
        result = aws_refused(role_login(), kind)
    assert result.startswith("AWS: ")
    assert message in result


def test_no_request_goes_without_trust(certificates: Certificates, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bytes] = []
    with sts(certificates, role_answer(), monkeypatch=monkeypatch, seen=seen):
        monkeypatch.delenv("AWS_CA_BUNDLE")
        assert "is not trusted; set AWS_CA_BUNDLE" in aws_refused(role_login())
    assert seen == []


def test_no_secret_is_in_a_repr() -> None:
    login = AwsLogin(role_keys=Keys(KEY_ID, AWS_SECRET, SESSION))
    texts: list[Any] = [login, MskToken(login), Sasl("AWS_MSK_IAM", login)]
    assert all("s3cret" not in f"{item!r} {item!s}" for item in texts)
