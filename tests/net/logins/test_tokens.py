"""Tokens from an authorization server and other sources: good ones, bad ones, and in time."""

from __future__ import annotations

import base64
import io
import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any, Final, cast
from urllib.parse import parse_qs

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa, utils

from spark_kafkawire.errors import (
    AuthenticationError,
    ConnectFailed,
    KafkaWireError,
    OptionError,
    RequestTimedOut,
)
from spark_kafkawire.net.client import Client
from spark_kafkawire.net.http import ANSWER_BYTES_MAX, answer_in
from spark_kafkawire.net.logins.oauthbearer import Bearer
from spark_kafkawire.net.logins.tokens.oauth import (
    Claims,
    ClientCredentials,
    JwtAssertion,
    Patience,
    Signer,
    token_in,
)
from spark_kafkawire.net.logins.tokens.token import (
    LIFETIME_MAX_S,
    Renewal,
    Token,
    TokenFile,
    TokenProvider,
    TokenSource,
    current_token,
)
from spark_kafkawire.net.sasl import Sasl
from spark_kafkawire.net.settings import Security
from spark_kafkawire.net.tls import Tls
from spark_kafkawire.net.transport import Deadline
from spark_kafkawire.options import ReadOptions
from spark_kafkawire.protocol.modern.metadata import MetadataRequest
from tests.net.login_broker import TOKEN, asked_for, granted, http_answer, login_broker, reported
from tests.net.modern_peers import METADATA_RESPONSE
from tests.net.peers import Peer, closed_port, server_of, serving, stalling
from tests.support.cases import for_each
from tests.support.certificates import SERVER_NAME, Certificates
from tests.support.polling import GRACE_S
from tests.support.settings import settings_modern

SECRET: Final = "s3cret:€"
#: What all secrets here begin with.
IN_SECRETS: Final = "s3cret"


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    yield
    sys.modules.pop(MODULE, None)


def credentials(peer: Peer, certificates: Certificates, **changes: Any) -> ClientCredentials:
    url = f"https://{SERVER_NAME}:{peer.broker.port}/oauth/token?tenant=1"
    made = ClientCredentials(url, "me", SECRET, tls=Tls(certificates.authority.read_text()))
    return replace(made, **changes)


def token(peer: Peer, certificates: Certificates, timeout_s: float = 5, **changes: Any) -> str:
    return credentials(peer, certificates, **changes).token(Deadline.after(timeout_s))


def test_a_token_is_asked_for_with_the_clients_credentials(certificates: Certificates) -> None:
    seen: list[bytes] = []
    with Peer(serving(server_of(certificates.server), asked_for(http_answer(granted()), seen))) as peer:
        assert token(peer, certificates, scope="kafka all") == TOKEN
    head, _, body = seen[0].decode().partition("\r\n\r\n")
    login = base64.b64encode(f"me:{SECRET}".encode()).decode()
    assert head.splitlines() == [
        "POST /oauth/token?tenant=1 HTTP/1.1",
        f"Host: {SERVER_NAME}:{peer.broker.port}",
        f"Authorization: Basic {login}",
        "Accept: application/json",
        "Content-Type: application/x-www-form-urlencoded",
        f"Content-Length: {len(body)}",
        "Connection: close",
    ]
    assert body == "grant_type=client_credentials&scope=kafka+all"


def test_a_token_is_used_while_it_lasts(certificates: Certificates, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [http_answer(granted(f"token-{number}", expires_in=100)) for number in (1, 2)]
    now_s = time.monotonic()
    with secured(certificates, *answers) as peer:
        assert token(peer, certificates) == token(peer, certificates) == "token-1"
        monkeypatch.setattr("spark_kafkawire.net.logins.tokens.token.time.monotonic", lambda: now_s + 79)
        assert token(peer, certificates, timeout_s=1e9) == "token-1"
        monkeypatch.setattr("spark_kafkawire.net.logins.tokens.token.time.monotonic", lambda: now_s + 90)
        assert token(peer, certificates, timeout_s=1e9) == "token-2"
        assert peer.connection_count == 2


@pytest.mark.parametrize("expires_in", [None, "soon", -1, True])
def test_a_token_of_unknown_life_is_used_once(expires_in: object, certificates: Certificates) -> None:
    answer = http_answer(granted(expires_in=expires_in))
    with Peer(serving(server_of(certificates.server), asked_for(answer))) as peer:
        assert token(peer, certificates) == token(peer, certificates) == TOKEN
        assert peer.connection_count == 2


def fails(answer: bytes, certificates: Certificates, kind: type[KafkaWireError] = AuthenticationError) -> str:
    login = base64.b64encode(f"me:{SECRET}".encode()).decode()
    with secured(certificates, answer) as peer:
        message = reported(lambda: token(peer, certificates), kind, IN_SECRETS, login)
    assert message.startswith(f"token endpoint {SERVER_NAME}: ")
    return message


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (http_answer({"error": "invalid_client"}, "401 No"), "HTTP status 401 invalid_client"),
        (http_answer({"error": f"{SECRET}\n"}, "400 Bad"), "of kafka.sasl.jaas.config: HTTP status 400"),
        (http_answer(b"<html>", "403 No"), "HTTP status 403"),
        (http_answer({}, "302 Found", "Location: https://elsewhere/"), "HTTP status 302"),
        (http_answer({}), "response has no access_token; check that the URL"),
        (http_answer([TOKEN]), "response has no access_token; check that the URL"),
        (http_answer(b"not json"), "response has no access_token; check that the URL"),
        (http_answer(b"[" * 100_000), "response has no access_token; check that the URL"),
        (http_answer(granted(5)), "response has no access_token; check that the URL"),
        (http_answer(granted("")), "response has no access_token; check that the URL"),
        (http_answer(granted("a\x01auth=b")), "response has no access_token; check that the URL"),
    ],
)  # fmt: skip
def test_report_a_refusal(answer: bytes, message: str, certificates: Certificates) -> None:
    assert message in fails(answer, certificates)


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 2x0 OK\r\n\r\n",
        http_answer(bytes(ANSWER_BYTES_MAX)),
        http_answer({}, "500 Oh"),
        http_answer({}, "503 Later"),
        http_answer({}, "429 Later"),
    ],
)
def test_a_broken_answer_may_be_asked_for_again(answer: bytes, certificates: Certificates) -> None:
    fails(answer, certificates, ConnectFailed)


def read_token(answer: bytes) -> tuple[str, float]:
    result = token_in(answer_in(cast(io.RawIOBase, io.BytesIO(answer)), "POST"), "the login")
    return result.value, result.lifetime_s


def test_a_token_that_lives_forever_is_asked_for_again_some_day() -> None:
    for expires_in in (b"1e999", b"1" + b"0" * 400):
        answer = http_answer(b'{"access_token": "t", "expires_in": %s}' % expires_in)
        assert read_token(answer) == ("t", LIFETIME_MAX_S)


def test_an_endpoint_that_is_not_trusted_gets_no_secret(certificates: Certificates) -> None:
    seen: list[bytes] = []
    with Peer(serving(server_of(certificates.server), asked_for(b"", seen))) as peer:
        for tls in (Tls(), Tls(certificates.other_authority.read_text(), checks_host_name=False)):
            with pytest.raises(AuthenticationError, match="certificate is not trusted"):
                token(peer, certificates, tls=tls)
        wrong_name = f"https://127.0.0.1:{peer.broker.port}/"
        unchecked = Tls(certificates.authority.read_text(), checks_host_name=False)
        with pytest.raises(AuthenticationError, match="IP address mismatch"):
            token(peer, certificates, endpoint_url=wrong_name, tls=unchecked)
    assert seen == []


def test_report_an_endpoint_that_is_not_there_or_silent_in_time(certificates: Certificates) -> None:
    broker = closed_port()
    with Peer(serving(server_of(certificates.server), stalling())) as peer:
        with pytest.raises(ConnectFailed, match="token endpoint localhost: cannot connect"):
            token(peer, certificates, endpoint_url=f"https://{SERVER_NAME}:{broker.port}/")
        began_s = time.monotonic()
        with pytest.raises(RequestTimedOut, match=r"token endpoint localhost: no answer within 0\.4 s"):
            token(peer, certificates, timeout_s=0.4)
        assert time.monotonic() - began_s < 0.4 + GRACE_S


@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
@pytest.mark.parametrize("store", ["location", "certificates"])
def test_the_token_endpoint_is_trusted_by_the_trust_store_with_tls_and_without(
    protocol: str, store: str, certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    trust = certificates.authority
    with_tls = server_of(certificates.server)
    listener = serving(with_tls, login_broker()) if protocol == "SASL_SSL" else login_broker()
    with Peer(serving(with_tls, asked_for(http_answer(granted())))) as server, Peer(listener) as peer:
        options = {
            "subscribe": "t",
            "kafka.bootstrap.servers": f"{SERVER_NAME}:{peer.broker.port}",
            "kafka.security.protocol": protocol,
            "kafka.sasl.mechanism": "OAUTHBEARER",
            "kafka.sasl.jaas.config": "OAuthBearerLoginModule required clientId='me' "
            "clientSecret='credentials' extension_logicalCluster='lkc';",
            "kafka.sasl.oauthbearer.token.endpoint.url": f"https://{SERVER_NAME}:{server.broker.port}/",
        }
        with pytest.raises(AuthenticationError, match="certificate is not trusted"):
            connected(options)
        options[f"kafka.ssl.truststore.{store}"] = str(trust) if store == "location" else trust.read_text()
        with connected(options) as client:
            assert client.request(MetadataRequest(topics=None)) == METADATA_RESPONSE
        assert server.connection_count == (1 if protocol == "SASL_SSL" else 2)
    assert not caplog.messages


def test_a_token_that_cannot_be_got_is_an_error_of_the_connection(certificates: Certificates) -> None:
    answer = http_answer({"error": "invalid_client"}, "401 No")
    with (
        Peer(serving(server_of(certificates.server), asked_for(answer))) as server,
        Peer(login_broker()) as peer,
    ):
        how = Sasl("OAUTHBEARER", Bearer(credentials(server, certificates)))
        settings = replace(settings_modern(10), security=Security(sasl=how))
        with pytest.raises(
            AuthenticationError, match=r"^broker 7 .*: token endpoint localhost: the server rejects"
        ):
            Client.connect(peer.broker, settings)


# --- Tokens of files, of assertions and of functions ---

SOURCES_SECRET: Final = "s3cret-of-the-function"
MODULE: Final = "kafkawire_test_tokens"


def secured(certificates: Certificates, *answers: bytes, seen: list[bytes] | None = None) -> Peer:
    server = server_of(certificates.server)
    return Peer(*(serving(server, asked_for(answer, seen)) for answer in answers))


def url_of(peer: Peer) -> str:
    return f"https://{SERVER_NAME}:{peer.broker.port}/token"


def got(source: TokenSource, timeout_s: float = 5) -> Token:
    return current_token(source, "broker", Deadline.after(timeout_s))


def refused(source: TokenSource, kind: type[KafkaWireError] = AuthenticationError) -> str:
    return reported(lambda: got(source), kind, IN_SECRETS)


# Files


def test_a_file_is_read_again_for_each_connection(tmp_path: Path) -> None:
    path = tmp_path / "token"
    for token in ("first.token", "second.token"):
        path.write_text(f" {token}\n")
        assert got(TokenFile(str(path))) == Token(token)
    path.unlink()
    (tmp_path / "..data").mkdir()
    (tmp_path / "..data" / "token").write_text("projected.token")
    (tmp_path / "token").symlink_to("..data/token")
    assert got(TokenFile(str(tmp_path / "token"))).value == "projected.token"


def test_bad_files_are_reported_and_block_nothing(tmp_path: Path) -> None:
    path = tmp_path / "token"
    source = TokenFile(str(path))
    assert "cannot be read where the client connects: No such file" in refused(source)
    for content in (
        b"",
        b" \n",
        f"{SOURCES_SECRET} {SOURCES_SECRET}".encode(),
        b"\xff\xfe",
        f"{SOURCES_SECRET}\x01auth=x".encode(),
    ):
        path.write_bytes(content)
        assert "does not hold a token" in refused(source)
    path.write_bytes(bytes(2 << 20))
    assert "longer than 1048576 bytes" in refused(source)
    path.unlink()
    os.mkfifo(path)
    assert "it is a pipe, and a regular file is needed" in refused(source)
    assert "it is a device, and a regular file is needed" in refused(TokenFile("/dev/zero"))
    assert "Is a directory" in refused(TokenFile(str(tmp_path)))
    assert "cannot be a file's name" in refused(TokenFile("a\0b"))


# Assertions


def pem_of(key: Any) -> str:
    pkcs8 = serialization.PrivateFormat.PKCS8
    plain = serialization.NoEncryption()
    return str(key.private_bytes(serialization.Encoding.PEM, pkcs8, plain).decode())


def decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


@pytest.mark.parametrize("algorithm", ["RS256", "ES256"])
def test_an_assertion_is_one_that_the_public_key_verifies(algorithm: str, certificates: Certificates) -> None:
    key: Any = rsa.generate_private_key(65537, 2048)
    if algorithm == "ES256":
        key = ec.generate_private_key(ec.SECP256R1())
    claims = Claims((("aud", "kafka"), ("sub", "me")), '{"kid": "k"}', '{"sub": "x", "t": 1}', 100, 10, True)
    seen: list[bytes] = []
    answer = http_answer(granted(expires_in=0))
    with secured(certificates, answer, seen=seen) as peer:
        source = JwtAssertion(
            url_of(peer),
            Signer(algorithm, pem_of(key)),
            claims,
            scope="a b",
            tls=Tls(certificates.authority.read_text()),
        )
        for _ in range(2):
            assert got(source).value == TOKEN
    forms = [parse_qs(request.partition(b"\r\n\r\n")[2].decode()) for request in seen]
    ids = set()
    for form in forms:
        assert form["grant_type"] == ["urn:ietf:params:oauth:grant-type:jwt-bearer"]
        assert form["scope"] == ["a b"]
        signed, _, signature = form["assertion"][0].rpartition(".")
        verify(key, signed.encode(), decoded(signature))
        header, payload = (json.loads(decoded(part)) for part in signed.split("."))
        assert header == {"alg": algorithm, "typ": "JWT", "kid": "k"}
        assert {name: payload[name] for name in ("aud", "sub", "t")} == {"aud": "kafka", "sub": "me", "t": 1}
        assert abs(payload["iat"] - time.time()) < GRACE_S
        assert payload["exp"] - payload["iat"] == 100
        assert payload["iat"] - payload["nbf"] == 10
        ids.add(payload["jti"])
    assert len(ids) == 2


def verify(key: Any, signed: bytes, signature: bytes) -> None:
    if isinstance(key, rsa.RSAPrivateKey):
        key.public_key().verify(signature, signed, padding.PKCS1v15(), hashes.SHA256())
        return
    assert len(signature) == 64
    numbers = int.from_bytes(signature[:32], "big"), int.from_bytes(signature[32:], "big")
    key.public_key().verify(utils.encode_dss_signature(*numbers), signed, ec.ECDSA(hashes.SHA256()))


def test_an_assertion_of_a_file_is_read_for_each_token(certificates: Certificates, tmp_path: Path) -> None:
    path = tmp_path / "assertion"
    seen: list[bytes] = []
    with secured(certificates, http_answer(granted(expires_in=0)), seen=seen) as peer:
        tls = Tls(certificates.authority.read_text())
        source = JwtAssertion(url_of(peer), assertion_file=str(path), tls=tls)
        for item in ("one.a.b", "two.a.b"):
            path.write_text(item)
            assert got(source).value == TOKEN
            assert f"assertion={item}".encode() in seen[-1]
        path.write_text("")
        assert refused(source).startswith("option kafka.sasl.oauthbearer.assertion.file: ")
    assert len(seen) == 2


def test_a_refused_assertion_is_reported(certificates: Certificates, tmp_path: Path) -> None:
    path = tmp_path / "assertion"
    path.write_text(SOURCES_SECRET)
    answer = http_answer({"error": "invalid_grant", "error_description": SOURCES_SECRET}, "400 Bad")
    with secured(certificates, answer) as peer:
        tls = Tls(certificates.authority.read_text())
        message = refused(JwtAssertion(url_of(peer), assertion_file=str(path), tls=tls))
    assert message.endswith(
        "rejects the assertion of kafka.sasl.oauthbearer.assertion.*: HTTP status 400 invalid_grant; check "
        "that it knows this client"
    )


def test_assertions_go_to_https_only() -> None:
    with pytest.raises(OptionError, match="plain http is not allowed"):
        JwtAssertion("http://h/", assertion_file="a")


# How an endpoint is asked


@pytest.mark.parametrize("encodes", [False, True])
def test_name_and_secret_are_encoded_if_the_server_asks(encodes: bool, certificates: Certificates) -> None:
    seen: list[bytes] = []
    with secured(certificates, http_answer(granted()), seen=seen) as peer:
        how = {"client_id": "me:/", "client_secret": f"{SOURCES_SECRET} +", "encodes_header": encodes}
        got(credentials(peer, certificates, **how))
    login = seen[0].partition(b"Authorization: Basic ")[2].split(b"\r\n")[0]
    expected = f"me%3A%2F:{SOURCES_SECRET}+%2B" if encodes else f"me:/:{SOURCES_SECRET} +"
    assert base64.b64decode(login).decode() == expected


def test_a_server_that_fails_is_asked_again_and_one_that_refuses_not(certificates: Certificates) -> None:
    bad, good = http_answer({}, "503 Later"), http_answer(granted())
    with secured(certificates, bad, b"", good) as peer:
        source = credentials(peer, certificates, patience=Patience(retry_backoff_s=0.01, retry_s=60))
        assert got(source, 60).value == TOKEN
        assert peer.connection_count == 3
    with secured(certificates, bad) as peer:
        began_s = time.monotonic()
        message = refused(
            credentials(peer, certificates, patience=Patience(None, None, 0.01, 0.1)), ConnectFailed
        )
        assert "HTTP status 503" in message
        assert 1 < peer.connection_count < 10
        assert time.monotonic() - began_s < 5 + GRACE_S
    with secured(certificates, http_answer({"error": "invalid_client"}, "401 No")) as peer:
        refused(credentials(peer, certificates, patience=Patience(retry_backoff_s=0.01, retry_s=60)))
        assert peer.connection_count == 1


def test_the_times_of_a_request_are_bounded_by_their_own_options(certificates: Certificates) -> None:
    with Peer(serving(server_of(certificates.server), stalling())) as peer:
        source = credentials(peer, certificates, patience=Patience(read_timeout_s=0.3))
        with pytest.raises(RequestTimedOut, match=r"0\.3 s \(kafka\.sasl\.login\.read\.timeout\.ms\)"):
            got(source, 60)
        with pytest.raises(RequestTimedOut, match=r"0\.2 s \(requestTimeout\)"):
            got(replace(source, patience=Patience(read_timeout_s=50)), 0.2)
    bound = Patience(connect_timeout_s=2).bound(Deadline.after(30))
    assert str(bound.to_dial()) == "2 s (kafka.sasl.login.connect.timeout.ms)"
    assert str(bound) == "30 s (requestTimeout)"
    longer = Patience(connect_timeout_s=60).bound(Deadline.after(30))
    assert str(longer.to_dial()) == "30 s (requestTimeout)"


@for_each(
    ("renewal", "lifetime_s", "draw", "used_s"),
    [
        (Renewal(), 100.0, 0.9, 80.0),
        (Renewal(0.6), 100.0, 0.9, 60.0),
        (Renewal(0.75, 0.25), 100.0, 0.5, 87.5),
        (Renewal(0.8, 0.0, 60.0, 300.0), 3600.0, 0.0, 2880.0),
        (Renewal(0.8, 0.0, 60.0, 300.0), 900.0, 0.0, 600.0),
        (Renewal(0.8, 0.0, 60.0, 300.0), 350.0, 0.0, 280.0),
        (Renewal(0.8, 0.0, 90.0, 0.0), 100.0, 0.0, 90.0),
        (Renewal(1.0, 0.25), 100.0, 1.0, 100.0),
        (Renewal(), 1e99, 0.0, 0.8 * LIFETIME_MAX_S),
    ],
)
def test_options_say_when_to_renew(renewal: Renewal, lifetime_s: float, draw: float, used_s: float) -> None:
    assert renewal.used_s(lifetime_s, draw) == used_s


# Functions


def provided(function: Any) -> TokenProvider:
    """The source that calls a function of a module made for it."""
    module = ModuleType(MODULE)
    module.token = function  # type: ignore[attr-defined]
    sys.modules[MODULE] = module
    return TokenProvider(f"{MODULE}:token")


def test_a_function_is_called_once_for_most_of_the_life_of_its_token(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[Any, ...]] = []

    def token(*arguments: Any) -> tuple[str, float]:
        calls.append(arguments)
        return f"token-{len(calls)}", time.time() + 100

    source = provided(token)
    now_s = time.monotonic()
    assert got(source).value == got(source).value == "token-1"
    monkeypatch.setattr("spark_kafkawire.net.logins.tokens.token.time.monotonic", lambda: now_s + 90)
    assert current_token(source, "b", Deadline(now_s + 1e6, 1e6)).value == "token-2"
    assert calls == [(), ()]


def test_a_function_may_have_the_argument_that_oauth_cb_has() -> None:
    def oauth_cb(config: str) -> tuple[str, float]:
        assert config == ""
        return TOKEN, time.time() + 100

    assert got(provided(oauth_cb)).value == TOKEN


@pytest.mark.parametrize("more", [(), ("principal",), ("principal", {"logicalCluster": "lkc"}), (None, None)])
def test_a_client_logs_in_with_the_token_of_a_function(more: tuple[Any, ...]) -> None:
    given = () if more and more[-1] == {"logicalCluster": "lkc"} else (("logicalCluster", "lkc"),)
    how = Bearer(provided(lambda: (TOKEN, time.time() + 100, *more)), given)
    settings = replace(settings_modern(10), security=Security(sasl=Sasl("OAUTHBEARER", how)))
    with Peer(login_broker()) as peer, Client.connect(peer.broker, settings) as connected:
        assert connected.request(MetadataRequest(topics=None)) == METADATA_RESPONSE


def in_a_day() -> float:
    return time.time() + 86_400


@for_each(
    ("returned", "message"),
    [
        (None, "returned something else than (token, expires_at_seconds"),
        (SOURCES_SECRET, "returned something else than (token, expires_at_seconds"),
        ((SOURCES_SECRET,), "returned something else than (token, expires_at_seconds"),
        ((SOURCES_SECRET, 1, 2, 3, 4), "returned something else than (token, expires_at_seconds"),
        ((SOURCES_SECRET.encode(), in_a_day()), "returned a token that is not one word of ASCII"),
        ((f"{SOURCES_SECRET} x", in_a_day()), "returned a token that is not one word of ASCII"),
        ((f"{SOURCES_SECRET}\x01", in_a_day()), "returned a token that is not one word of ASCII"),
        ((SOURCES_SECRET, "soon"), "returned a time that is not a number of seconds"),
        ((SOURCES_SECRET, True), "returned a time that is not a number of seconds"),
        ((SOURCES_SECRET, float("nan")), "returned a time that is not in seconds since 1970"),
        ((SOURCES_SECRET, float("inf")), "returned a time that is not in seconds since 1970"),
        ((SOURCES_SECRET, 10**400), "returned a time that is not in seconds since 1970"),
        ((SOURCES_SECRET, in_a_day() * 1000),
         "returned a time that is not in seconds since 1970: divide milliseconds"),
        ((SOURCES_SECRET, time.time() - 1), "returned a token that has expired"),
        ((SOURCES_SECRET, 3600), "returned a token that has expired"),
        ((SOURCES_SECRET, in_a_day(), "p", [1]), "returned extensions that are not a dict"),
        ((SOURCES_SECRET, in_a_day(), "p", {"auth": SOURCES_SECRET}),
         "returned extensions that are not a dict"),
        ((SOURCES_SECRET, in_a_day(), "p", {"a-b": SOURCES_SECRET}),
         "returned extensions that are not a dict"),
        ((SOURCES_SECRET, in_a_day(), "p", {"a": f"{SOURCES_SECRET}\x01"}),
         "returned extensions that are not a dict"),
        ((SOURCES_SECRET, in_a_day(), "p", {1: SOURCES_SECRET}), "returned extensions that are not a dict"),
    ],
)  # fmt: skip
def test_what_is_not_a_token_is_reported(returned: object, message: str) -> None:
    reported = refused(provided(lambda: returned))
    assert reported.startswith(f"option saslTokenProvider: {MODULE}:token {message}")


def test_an_error_of_a_function_shows_its_line_and_no_text() -> None:
    def failing() -> None:
        raise ValueError(f"no token for {SOURCES_SECRET}\nand more")

    def exiting() -> None:
        raise SystemExit(SOURCES_SECRET)

    message = refused(provided(failing))
    assert f"{MODULE}:token raised ValueError at test_tokens.py:" in message
    assert "its text is not shown" in message
    assert "raised SystemExit" in refused(provided(exiting))


def test_a_function_that_is_not_there_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert "no_such_module:f cannot be imported: ModuleNotFoundError" in refused(
        TokenProvider("no_such_module:f")
    )
    assert "cannot be imported: AttributeError" in refused(TokenProvider("json:no_such_function"))
    assert "is not a function" in refused(TokenProvider("sys:version"))
    (tmp_path / "broken_tokens.py").write_text(f"raise RuntimeError('{SOURCES_SECRET}')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    message = refused(TokenProvider("broken_tokens:f"))
    assert "cannot be imported: RuntimeError at broken_tokens.py:1" in message
    assert "send it with --py-files" in message


def test_a_function_that_hangs_is_given_up_in_time() -> None:
    end = threading.Event()
    source = provided(lambda: end.wait(60))
    began_s = time.monotonic()
    with pytest.raises(RequestTimedOut, match=r"no answer within 0\.3 s \(requestTimeout\)"):
        got(source, 0.3)
    assert time.monotonic() - began_s < 0.3 + GRACE_S
    end.set()


# --- Token endpoints that mean harm ---

HOSTILE_SECRET: Final = "s3cret-of-the-client"
URL: Final = "kafka.sasl.oauthbearer.token.endpoint.url"
OK: Final = b"HTTP/1.1 200 OK\r\n"


@pytest.fixture(params=["client credentials", "assertion"])
def grant(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    """The options of a source of tokens that sends a secret to the endpoint."""
    if request.param == "client credentials":
        name = "kafka.sasl.oauthbearer.client.credentials.client"
        return {f"{name}.id": "me", f"{name}.secret": HOSTILE_SECRET}
    path = tmp_path / "assertion"
    path.write_text(HOSTILE_SECRET)
    return {"kafka.sasl.oauthbearer.assertion.file": str(path)}


def hostile_refused(
    endpoint: str, grant: dict[str, str], certificates: Certificates, kind: type[KafkaWireError]
) -> str:
    """The one line of a login whose token cannot be had."""
    with Peer(login_broker()) as broker:
        options = {
            "subscribe": "t",
            "kafka.bootstrap.servers": f"{SERVER_NAME}:{broker.broker.port}",
            "kafka.security.protocol": "SASL_PLAINTEXT",
            "kafka.sasl.mechanism": "OAUTHBEARER",
            "kafka.ssl.truststore.location": str(certificates.authority),
            "requestTimeout": "5s",
            URL: endpoint,
            **grant,
        }
        return reported(lambda: connected(options), kind, HOSTILE_SECRET)


def connected(options: dict[str, str]) -> Client:
    parsed = ReadOptions.parse(options)
    return Client.connect(parsed.discovery.bootstrap_servers[0], parsed.net.connection)


def test_no_secret_goes_over_http(grant: dict[str, str], certificates: Certificates) -> None:
    with Peer(stalling()) as endpoint:
        url = f"http://{SERVER_NAME}:{endpoint.broker.port}/token"
        message = hostile_refused(url, grant, certificates, OptionError)
        assert endpoint.connection_count == 0
    assert message.startswith(f"option {URL} is not of the form https://host:port/path (its value")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_redirects_end(grant: dict[str, str], certificates: Certificates, status: int, scheme: str) -> None:
    with_tls = server_of(certificates.server)
    other_script = asked_for(http_answer(granted()))
    with Peer(serving(with_tls, other_script) if scheme == "https" else other_script) as other:
        location = f"Location: {scheme}://{SERVER_NAME}:{other.broker.port}/token"
        script = asked_for(http_answer(granted(), f"{status} Elsewhere", location))
        with Peer(serving(with_tls, script)) as endpoint:
            url = f"https://{SERVER_NAME}:{endpoint.broker.port}/token"
            message = hostile_refused(url, grant, certificates, AuthenticationError)
            assert endpoint.connection_count == 1
        assert other.connection_count == 0
    assert f"HTTP status {status}" in message
