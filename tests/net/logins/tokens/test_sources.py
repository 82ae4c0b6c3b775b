"""Tokens of files, of assertions and of functions; how an endpoint is asked, and when tokens are renewed."""

from __future__ import annotations

import base64
import json
import os
import socket
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any, Final
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
from spark_kafkawire.net.logins.oauthbearer import Bearer
from spark_kafkawire.net.logins.tokens.client_credentials import ClientCredentials
from spark_kafkawire.net.logins.tokens.endpoint import Patience
from spark_kafkawire.net.logins.tokens.jwt_assertion import Claims, JwtAssertion, Signer
from spark_kafkawire.net.logins.tokens.provider import TokenProvider
from spark_kafkawire.net.logins.tokens.token import (
    LIFETIME_MAX_S,
    Renewal,
    Token,
    TokenSource,
    current_token,
    forget_tokens,
)
from spark_kafkawire.net.logins.tokens.token_file import TokenFile
from spark_kafkawire.net.sasl import Sasl
from spark_kafkawire.net.settings import Security
from spark_kafkawire.net.tls import Tls
from spark_kafkawire.net.transport import Deadline
from spark_kafkawire.protocol.modern.metadata import MetadataRequest
from tests.net.login_broker import TOKEN, login_broker
from tests.net.modern_peers import METADATA_RESPONSE
from tests.net.peers import Peer, stalling
from tests.net.tls_peers import server_of, serving
from tests.net.token_answers import asked_for, granted, http_answer
from tests.support.cases import for_each
from tests.support.certificates import SERVER_NAME, Certificates
from tests.support.polling import GRACE_S
from tests.support.settings import settings_modern

SECRET: Final = "s3cret-of-the-function"
MODULE: Final = "kafkawire_test_tokens"


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    yield
    forget_tokens()
    sys.modules.pop(MODULE, None)


def secured(certificates: Certificates, *answers: bytes, seen: list[bytes] | None = None) -> Peer:
    server = server_of(certificates.server)
    return Peer(*(serving(server, asked_for(answer, seen)) for answer in answers))


def url_of(peer: Peer) -> str:
    return f"https://{SERVER_NAME}:{peer.broker.port}/token"


def got(source: TokenSource, timeout_s: float = 5) -> Token:
    return current_token(source, "broker", Deadline.after(timeout_s))


def refused(source: TokenSource, kind: type[KafkaWireError] = AuthenticationError) -> str:
    """The one line that is reported, without a secret in it or in its causes."""
    with pytest.raises(kind) as caught:
        got(source)
    error: BaseException | None = caught.value
    whole = "".join(traceback.format_exception(caught.value))
    while error is not None:
        whole += f"{error!s} {error!r}"
        error = error.__cause__ or error.__context__
    assert SECRET not in whole
    assert "\n" not in str(caught.value)
    return str(caught.value)


# Files


def test_a_file_is_read_again_for_each_connection(tmp_path: Path) -> None:
    path = tmp_path / "token"
    for token in ("first.token", "second.token"):
        path.write_text(f" {token}\n")
        assert got(TokenFile(str(path))) == Token(token)


def test_a_projected_token_is_a_link_to_a_file(tmp_path: Path) -> None:
    (tmp_path / "..data").mkdir()
    (tmp_path / "..data" / "token").write_text("projected.token")
    (tmp_path / "token").symlink_to("..data/token")
    assert got(TokenFile(str(tmp_path / "token"))).value == "projected.token"


def test_bad_files_are_reported_and_block_nothing(tmp_path: Path) -> None:
    path = tmp_path / "token"
    source = TokenFile(str(path))
    assert "cannot be read where the client connects: No such file" in refused(source)
    for content in (b"", b" \n", f"{SECRET} {SECRET}".encode(), b"\xff\xfe", f"{SECRET}\x01auth=x".encode()):
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
        for each in ("one.a.b", "two.a.b"):
            path.write_text(each)
            assert got(source).value == TOKEN
            assert f"assertion={each}".encode() in seen[-1]
        path.write_text("")
        assert refused(source).startswith("option kafka.sasl.oauthbearer.assertion.file: ")
    assert len(seen) == 2


def test_a_refused_assertion_is_reported(certificates: Certificates, tmp_path: Path) -> None:
    path = tmp_path / "assertion"
    path.write_text(SECRET)
    answer = http_answer({"error": "invalid_grant", "error_description": SECRET}, "400 Bad")
    with secured(certificates, answer) as peer:
        tls = Tls(certificates.authority.read_text())
        message = refused(JwtAssertion(url_of(peer), assertion_file=str(path), tls=tls))
    assert message.endswith(
        "rejects the assertion of kafka.sasl.oauthbearer.assertion.*: HTTP status 400 invalid_grant"
    )


def test_assertions_go_to_https_only() -> None:
    with pytest.raises(OptionError, match="plain http is not allowed"):
        JwtAssertion("http://h/", assertion_file="a")


# How an endpoint is asked


def client(peer: Peer, certificates: Certificates, **more: Any) -> ClientCredentials:
    tls = Tls(certificates.authority.read_text())
    return ClientCredentials(url_of(peer), "me:/", SECRET + " +", tls=tls, **more)


@pytest.mark.parametrize("encodes", [False, True])
def test_name_and_secret_are_encoded_if_the_server_wants_it(
    encodes: bool, certificates: Certificates
) -> None:
    seen: list[bytes] = []
    with secured(certificates, http_answer(granted()), seen=seen) as peer:
        got(client(peer, certificates, encodes_header=encodes))
    login = seen[0].partition(b"Authorization: Basic ")[2].split(b"\r\n")[0]
    expected = f"me%3A%2F:{SECRET}+%2B" if encodes else f"me:/:{SECRET} +"
    assert base64.b64decode(login).decode() == expected


def test_a_server_that_fails_is_asked_again_as_long_as_the_options_say(certificates: Certificates) -> None:
    bad, good = http_answer({}, "503 Later"), http_answer(granted())
    with secured(certificates, bad, b"", good) as peer:
        source = client(peer, certificates, patience=Patience(retry_backoff_s=0.01, retry_s=60))
        assert got(source, 60).value == TOKEN
        assert peer.connection_count == 3
    with secured(certificates, bad) as peer:
        began_s = time.monotonic()
        message = refused(client(peer, certificates, patience=Patience(None, None, 0.01, 0.1)), ConnectFailed)
        assert "HTTP status 503" in message
        assert 1 < peer.connection_count < 10
        assert time.monotonic() - began_s < 5 + GRACE_S


def test_a_refusal_is_not_asked_for_again(certificates: Certificates) -> None:
    with secured(certificates, http_answer({"error": "invalid_client"}, "401 No")) as peer:
        refused(client(peer, certificates, patience=Patience(retry_backoff_s=0.01, retry_s=60)))
        assert peer.connection_count == 1


def test_the_time_of_a_request_is_bounded_by_its_own_option(certificates: Certificates) -> None:
    with Peer(serving(server_of(certificates.server), stalling())) as peer:
        source = client(peer, certificates, patience=Patience(read_timeout_s=0.3))
        with pytest.raises(RequestTimedOut, match=r"0\.3 s \(kafka\.sasl\.login\.read\.timeout\.ms\)"):
            got(source, 60)
        with pytest.raises(RequestTimedOut, match=r"0\.2 s \(requestTimeout\)"):
            got(replace(source, patience=Patience(read_timeout_s=50)), 0.2)


def test_the_time_to_connect_is_bounded_by_its_own_option() -> None:
    bound = Patience(connect_timeout_s=2).bounded(Deadline.after(30))
    assert str(bound.to_dial()) == "2 s (kafka.sasl.login.connect.timeout.ms)"
    assert str(bound) == "30 s (requestTimeout)"
    longer = Patience(connect_timeout_s=60).bounded(Deadline.after(30))
    assert str(longer.to_dial()) == "30 s (requestTimeout)"


def test_an_endless_answer_ends(certificates: Certificates) -> None:
    def endless(connection: socket.socket) -> None:
        asked_for(b"HTTP/1.1 200 OK\r\nContent-Length: 10000000000\r\n\r\n")(connection)
        while True:
            connection.sendall(bytes(1 << 16))

    with Peer(serving(server_of(certificates.server), endless)) as peer:
        assert "the answer is longer than" in refused(client(peer, certificates), ConnectFailed)


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
def test_a_token_is_renewed_when_the_options_say(
    renewal: Renewal, lifetime_s: float, draw: float, used_s: float
) -> None:
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
        (None, "did not return (token, expires_at_seconds"),
        (SECRET, "did not return (token, expires_at_seconds"),
        ((SECRET,), "did not return (token, expires_at_seconds"),
        ((SECRET, 1, 2, 3, 4), "did not return (token, expires_at_seconds"),
        ((SECRET.encode(), in_a_day()), "returned a token that is not one word of ASCII"),
        ((f"{SECRET} x", in_a_day()), "returned a token that is not one word of ASCII"),
        ((f"{SECRET}\x01", in_a_day()), "returned a token that is not one word of ASCII"),
        ((SECRET, "soon"), "returned a time that is not a number of seconds"),
        ((SECRET, True), "returned a time that is not a number of seconds"),
        ((SECRET, float("nan")), "returned a time that is not in seconds since 1970"),
        ((SECRET, float("inf")), "returned a time that is not in seconds since 1970"),
        ((SECRET, 10**400), "returned a time that is not in seconds since 1970"),
        (
            (SECRET, in_a_day() * 1000),
            "returned a time that is not in seconds since 1970: divide milliseconds",
        ),
        ((SECRET, time.time() - 1), "returned a token that has expired"),
        ((SECRET, 3600), "returned a token that has expired"),
        ((SECRET, in_a_day(), "p", [1]), "returned extensions that are not a dict"),
        ((SECRET, in_a_day(), "p", {"auth": SECRET}), "returned extensions that are not a dict"),
        ((SECRET, in_a_day(), "p", {"a-b": SECRET}), "returned extensions that are not a dict"),
        ((SECRET, in_a_day(), "p", {"a": f"{SECRET}\x01"}), "returned extensions that are not a dict"),
        ((SECRET, in_a_day(), "p", {1: SECRET}), "returned extensions that are not a dict"),
    ],
)
def test_what_is_not_a_token_is_reported(returned: object, message: str) -> None:
    reported = refused(provided(lambda: returned))
    assert reported.startswith(f"option saslTokenProvider: {MODULE}:token {message}")


def test_an_error_of_a_function_shows_its_line_and_no_text() -> None:
    def failing() -> None:
        raise ValueError(f"no token for {SECRET}\nand more")

    def exiting() -> None:
        raise SystemExit(SECRET)

    message = refused(provided(failing))
    assert f"{MODULE}:token raised ValueError at test_sources.py:" in message
    assert "its text is not shown" in message
    assert "raised SystemExit" in refused(provided(exiting))


def test_a_function_that_is_not_there_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert "no_such_module:f cannot be imported: ModuleNotFoundError" in refused(
        TokenProvider("no_such_module:f")
    )
    assert "cannot be imported: AttributeError" in refused(TokenProvider("json:no_such_function"))
    assert "is not a function" in refused(TokenProvider("sys:version"))
    (tmp_path / "broken_tokens.py").write_text(f"raise RuntimeError('{SECRET}')\n")
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
