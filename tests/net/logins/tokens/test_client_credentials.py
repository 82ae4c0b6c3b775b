"""Tokens from an authorization server, good ones, bad ones, and in time."""

from __future__ import annotations

import base64
import io
import json
import random
import time
import traceback
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final, cast

import pytest

from spark_kafkawire.errors import AuthenticationError, ConnectFailed, KafkaWireError, RequestTimedOut
from spark_kafkawire.net.client import Client
from spark_kafkawire.net.http import ANSWER_BYTES_MAX, answer_in
from spark_kafkawire.net.logins.oauthbearer import Bearer
from spark_kafkawire.net.logins.tokens import endpoint
from spark_kafkawire.net.logins.tokens.client_credentials import ClientCredentials
from spark_kafkawire.net.logins.tokens.token import LIFETIME_MAX_S, forget_tokens
from spark_kafkawire.net.sasl import Sasl
from spark_kafkawire.net.settings import Security
from spark_kafkawire.net.tls import Tls
from spark_kafkawire.net.transport import Deadline
from spark_kafkawire.options import ReadOptions
from spark_kafkawire.protocol.modern.metadata import MetadataRequest
from tests.net.login_broker import TOKEN, login_broker
from tests.net.modern_peers import METADATA_RESPONSE, mutated
from tests.net.peers import Peer, closed_port, stalling
from tests.net.tls_peers import server_of, serving
from tests.net.token_answers import granted, http_answer, saying
from tests.support.certificates import SERVER_NAME, Certificates
from tests.support.polling import GRACE_S
from tests.support.settings import settings_modern

SECRET: Final = "s3cret:€"
MUTATION_COUNT: Final = 5_000


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    yield
    forget_tokens()


def credentials(peer: Peer, certificates: Certificates, **changes: Any) -> ClientCredentials:
    url = f"https://{SERVER_NAME}:{peer.broker.port}/oauth/token?tenant=1"
    made = ClientCredentials(url, "me", SECRET, tls=Tls(certificates.authority.read_text()))
    return replace(made, **changes)


def token(peer: Peer, certificates: Certificates, timeout_s: float = 5, **changes: Any) -> str:
    return credentials(peer, certificates, **changes).token(Deadline.after(timeout_s))


def test_a_token_is_asked_for_with_the_clients_credentials(certificates: Certificates) -> None:
    seen: list[bytes] = []
    with Peer(serving(server_of(certificates.server), saying(http_answer(granted()), seen))) as peer:
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


def test_a_chunked_answer_is_read(certificates: Certificates) -> None:
    body = json.dumps(granted()).encode()
    chunked = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked
    with Peer(serving(server_of(certificates.server), saying(answer))) as peer:
        assert token(peer, certificates) == TOKEN


def test_a_token_is_used_for_most_of_its_life(
    certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = [http_answer(granted(f"token-{number}", expires_in=100)) for number in (1, 2)]
    scripts = [serving(server_of(certificates.server), saying(answer)) for answer in answers]
    now_s = time.monotonic()
    with Peer(*scripts) as peer:
        assert token(peer, certificates) == token(peer, certificates) == "token-1"
        monkeypatch.setattr("spark_kafkawire.net.logins.tokens.token.time.monotonic", lambda: now_s + 79)
        assert token(peer, certificates, timeout_s=1e9) == "token-1"
        monkeypatch.setattr("spark_kafkawire.net.logins.tokens.token.time.monotonic", lambda: now_s + 90)
        assert token(peer, certificates, timeout_s=1e9) == "token-2"
        assert peer.connection_count == 2


@pytest.mark.parametrize("expires_in", [None, "soon", -1, True])
def test_a_token_of_unknown_life_is_used_once(expires_in: object, certificates: Certificates) -> None:
    answer = http_answer(granted(expires_in=expires_in))
    with Peer(serving(server_of(certificates.server), saying(answer))) as peer:
        assert token(peer, certificates) == token(peer, certificates) == TOKEN
        assert peer.connection_count == 2


def fails(answer: bytes, certificates: Certificates, kind: type[KafkaWireError] = AuthenticationError) -> str:
    with (
        Peer(serving(server_of(certificates.server), saying(answer))) as peer,
        pytest.raises(kind) as error,
    ):
        token(peer, certificates)
    whole = "".join(traceback.format_exception(error.value))
    assert "s3cret" not in whole
    assert base64.b64encode(f"me:{SECRET}".encode()).decode() not in whole
    assert str(error.value).startswith(f"token endpoint {SERVER_NAME}: ")
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (http_answer({"error": "invalid_client"}, "401 No"), "HTTP status 401 invalid_client"),
        (http_answer({"error": f"{SECRET}\n"}, "400 Bad"), "of kafka.sasl.jaas.config: HTTP status 400"),
        (http_answer(b"<html>", "403 No"), "HTTP status 403"),
        (http_answer({}, "302 Found", "Location: https://elsewhere/"), "HTTP status 302"),
        (http_answer({}), "its response has no access_token; check that the URL"),
        (http_answer([TOKEN]), "its response has no access_token; check that the URL"),
        (http_answer(b"not json"), "its response has no access_token; check that the URL"),
        (http_answer(b"[" * 100_000), "its response has no access_token; check that the URL"),
        (http_answer(granted(5)), "its response has no access_token; check that the URL"),
        (http_answer(granted("")), "its response has no access_token; check that the URL"),
        (http_answer(granted("a\x01auth=b")), "its response has no access_token; check that the URL"),
    ],
)  # fmt: skip
def test_a_refusal_is_told(answer: bytes, message: str, certificates: Certificates) -> None:
    assert message in fails(answer, certificates)


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"\0\0\0\x05",
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"f" * 30 + b"\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: " + b"9" * 40 + b"\r\n\r\n{}",
        b"HTTP/1.1 2x0 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 200 + b"\r\n",
        http_answer(bytes(ANSWER_BYTES_MAX)),
        http_answer({}, "500 Oh"),
        http_answer({}, "503 Later"),
        http_answer({}, "429 Later"),
    ],
)
def test_a_broken_answer_may_be_asked_for_again(answer: bytes, certificates: Certificates) -> None:
    fails(answer, certificates, ConnectFailed)


def token_in(answer: bytes) -> tuple[str, float]:
    found = endpoint.token_in(answer_in(cast(io.RawIOBase, io.BytesIO(answer)), "POST"), "the login")
    return found.value, found.lifetime_s


def test_a_token_that_lives_forever_is_asked_for_again_some_day() -> None:
    for expires_in in (b"1e999", b"1" + b"0" * 400):
        answer = http_answer(b'{"access_token": "t", "expires_in": %s}' % expires_in)
        assert token_in(answer) == ("t", LIFETIME_MAX_S)


def test_mutations_of_an_answer_give_a_token_or_an_error_of_ours() -> None:
    draw, good = random.Random(MUTATION_COUNT), http_answer(granted())
    tokens = 0
    for _ in range(MUTATION_COUNT):
        try:
            found, lifetime_s = token_in(mutated(good, draw))
        except KafkaWireError as error:
            reported = str(error)
        else:
            reported = found
            tokens += 1
            assert 0 <= lifetime_s <= LIFETIME_MAX_S
        assert len(reported.splitlines()) == 1
    assert MUTATION_COUNT // 20 < tokens < MUTATION_COUNT


def test_an_endpoint_that_is_not_trusted_gets_no_secret(certificates: Certificates) -> None:
    seen: list[bytes] = []
    with Peer(serving(server_of(certificates.server), saying(b"", seen))) as peer:
        for tls in (Tls(), Tls(certificates.other_authority.read_text(), checks_host_name=False)):
            with pytest.raises(AuthenticationError, match="certificate is not trusted"):
                token(peer, certificates, tls=tls)
        wrong_name = f"https://127.0.0.1:{peer.broker.port}/"
        unchecked = Tls(certificates.authority.read_text(), checks_host_name=False)
        with pytest.raises(AuthenticationError, match="IP address mismatch"):
            token(peer, certificates, endpoint_url=wrong_name, tls=unchecked)
    assert seen == []


def test_an_endpoint_that_is_not_there_or_silent_is_told_in_time(certificates: Certificates) -> None:
    broker = closed_port()
    with Peer(serving(server_of(certificates.server), stalling())) as peer:
        with pytest.raises(ConnectFailed, match="token endpoint localhost: cannot connect"):
            token(peer, certificates, endpoint_url=f"https://{SERVER_NAME}:{broker.port}/")
        began_s = time.monotonic()
        with pytest.raises(RequestTimedOut, match=r"token endpoint localhost: no answer within 0\.4 s"):
            token(peer, certificates, timeout_s=0.4)
        assert time.monotonic() - began_s < 0.4 + GRACE_S


def test_a_client_logs_in_with_a_token_that_it_got(certificates: Certificates) -> None:
    answer = http_answer(granted())
    with (
        Peer(serving(server_of(certificates.server), saying(answer))) as server,
        Peer(login_broker()) as peer,
    ):
        how = Bearer(credentials(server, certificates), (("logicalCluster", "lkc"),))
        settings = replace(settings_modern(10), security=Security(sasl=Sasl("OAUTHBEARER", how)))
        for _ in range(2):
            with Client.connect(peer.broker, settings) as client:
                assert client.request(MetadataRequest(topics=None)) == METADATA_RESPONSE
        assert server.connection_count == 1
        assert "s3cret" not in repr(settings)


@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
@pytest.mark.parametrize("store", ["location", "certificates"])
def test_the_token_endpoint_is_trusted_by_the_trust_store_with_tls_and_without(
    protocol: str, store: str, certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    trust = certificates.authority
    with_tls = server_of(certificates.server)
    listener = serving(with_tls, login_broker()) if protocol == "SASL_SSL" else login_broker()
    with Peer(serving(with_tls, saying(http_answer(granted())))) as server, Peer(listener) as peer:
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
            _connected(options)
        options[f"kafka.ssl.truststore.{store}"] = str(trust) if store == "location" else trust.read_text()
        _connected(options)
        assert server.connection_count == (1 if protocol == "SASL_SSL" else 2)
    assert not caplog.messages


def _connected(options: dict[str, str]) -> None:
    """Parse options as a read does, connect and ask."""
    parsed = ReadOptions.parse(options)
    [server] = parsed.discovery.bootstrap_servers
    with Client.connect(server, parsed.net.connection) as client:
        assert client.request(MetadataRequest(topics=None)) == METADATA_RESPONSE


def test_a_token_that_cannot_be_got_is_an_error_of_the_connection(certificates: Certificates) -> None:
    answer = http_answer({"error": "invalid_client"}, "401 No")
    with (
        Peer(serving(server_of(certificates.server), saying(answer))) as server,
        Peer(login_broker()) as peer,
    ):
        how = Sasl("OAUTHBEARER", Bearer(credentials(server, certificates)))
        settings = replace(settings_modern(10), security=Security(sasl=how))
        with pytest.raises(
            AuthenticationError, match=r"^broker 7 .*: token endpoint localhost: the server rejects"
        ):
            Client.connect(peer.broker, settings)
