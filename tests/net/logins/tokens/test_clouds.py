"""Tokens of Google and Azure, from endpoints on loopback that answer as the clouds' own do."""

from __future__ import annotations

import base64
import json
import os
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from spark_kafkawire.errors import AuthenticationError, ConnectFailed, KafkaWireError, RequestTimedOut
from spark_kafkawire.net.logins.tokens.azure import AzureToken
from spark_kafkawire.net.logins.tokens.google import GoogleToken
from spark_kafkawire.net.logins.tokens.token import Token, TokenSource, current_token, forget_tokens
from spark_kafkawire.net.tls import Tls
from spark_kafkawire.net.transport import Deadline
from tests.net.peers import Peer, stalling
from tests.net.tls_peers import server_of, serving
from tests.net.token_answers import asked_for, http_answer
from tests.support.certificates import SERVER_NAME, Certificates
from tests.support.polling import GRACE_S

SECRET: Final = "s3cret.access.token"
ACCOUNT: Final = "kafka@project.iam.gserviceaccount.com"
SCOPE: Final = "https://ns.servicebus.windows.net/.default"


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """No credentials of this machine, and a home without files."""
    for name in list(os.environ):
        if name.startswith(("AZURE_", "GOOGLE_", "GCE_", "IDENTITY_", "CLOUDSDK_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    yield
    forget_tokens()


def got(source: TokenSource, timeout_s: float = 5) -> Token:
    return current_token(source, "broker", Deadline.after(timeout_s))


def refused(
    source: TokenSource, kind: type[KafkaWireError] = AuthenticationError, timeout_s: float = 5
) -> str:
    """The one line that is reported, without a secret in it or in its causes."""
    with pytest.raises(kind) as caught:
        got(source, timeout_s)
    error: BaseException | None = caught.value
    whole = "".join(traceback.format_exception(caught.value))
    while error is not None:
        whole += f"{error!s} {error!r}"
        error = error.__cause__ or error.__context__
    assert "s3cret" not in whole
    assert "\n" not in str(caught.value)
    return str(caught.value)


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
    found = json.loads(claims)
    assert abs(found.pop("iat") - time.time()) < GRACE_S
    assert abs(found.pop("exp") - time.time() - 3600) < GRACE_S
    assert found == {"iss": "Google", "scope": "kafka", "sub": ACCOUNT}
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
def test_a_bad_metadata_service_of_google_is_reported(
    step: int, bad: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
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
            "no private key in PEM can be read without a passphrase",
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
        forget_tokens()
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
        forget_tokens()
        assert refused(source).endswith(f"rejects {proof}: HTTP status 401 invalid_client")
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
        found = refused(AzureToken(SCOPE), kind)
    assert found.startswith("Azure: ")
    assert message in found


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
def test_a_silent_metadata_service_ends_in_time(
    variable: str, source: TokenSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Peer(stalling()) as peer:
        scheme = "" if variable == "GCE_METADATA_HOST" else "http://"
        monkeypatch.setenv(variable, f"{scheme}127.0.0.1:{peer.broker.port}")
        began_s = time.monotonic()
        assert "no answer within 0.3 s (requestTimeout)" in refused(source, RequestTimedOut, 0.3)
        assert time.monotonic() - began_s < 0.3 + GRACE_S
