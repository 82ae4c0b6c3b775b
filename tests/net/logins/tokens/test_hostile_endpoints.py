"""Token endpoints that mean harm: they get no secret over http, and end no later than requestTimeout."""

from __future__ import annotations

import socket
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from spark_kafkawire.errors import AuthenticationError, KafkaWireError, OptionError
from spark_kafkawire.net.client import Client
from spark_kafkawire.net.logins.tokens.token import forget_tokens
from spark_kafkawire.options import ReadOptions
from tests.net.login_broker import login_broker
from tests.net.peers import Peer, Script, stalling
from tests.net.tls_peers import server_of, serving
from tests.net.token_answers import asked_for, granted, http_answer
from tests.support.certificates import SERVER_NAME, Certificates
from tests.support.polling import GRACE_S

SECRET: Final = "s3cret-of-the-client"
URL: Final = "kafka.sasl.oauthbearer.token.endpoint.url"
OK: Final = b"HTTP/1.1 200 OK\r\n"


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    yield
    forget_tokens()


@pytest.fixture(params=["client credentials", "assertion"])
def grant(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    """The options of a source of tokens that sends a secret to the endpoint."""
    if request.param == "client credentials":
        name = "kafka.sasl.oauthbearer.client.credentials.client"
        return {f"{name}.id": "me", f"{name}.secret": SECRET}
    path = tmp_path / "assertion"
    path.write_text(SECRET)
    return {"kafka.sasl.oauthbearer.assertion.file": str(path)}


def refused(endpoint: str, grant: dict[str, str], certificates: Certificates, timeout: str) -> str:
    """The one line of a login whose token cannot be had."""
    with Peer(login_broker()) as broker:
        options = {
            "subscribe": "t",
            "kafka.bootstrap.servers": f"{SERVER_NAME}:{broker.broker.port}",
            "kafka.security.protocol": "SASL_PLAINTEXT",
            "kafka.sasl.mechanism": "OAUTHBEARER",
            "kafka.ssl.truststore.location": str(certificates.authority),
            "requestTimeout": timeout,
            URL: endpoint,
            **grant,
        }
        with pytest.raises(KafkaWireError) as caught:
            connected(options)
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    assert "\n" not in str(caught.value)
    return f"{type(caught.value).__name__}: {caught.value}"


def connected(options: dict[str, str]) -> Client:
    parsed = ReadOptions.parse(options)
    return Client.connect(parsed.discovery.bootstrap_servers[0], parsed.net.connection)


def test_no_secret_goes_over_http(grant: dict[str, str], certificates: Certificates) -> None:
    with Peer(stalling()) as endpoint:
        url = f"http://{SERVER_NAME}:{endpoint.broker.port}/token"
        message = refused(url, grant, certificates, "5s")
        assert endpoint.connection_count == 0
    assert message.startswith(
        f"{OptionError.__name__}: option {URL}: not of the form https://host:port/path; "
    )


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_no_redirect_is_followed(
    grant: dict[str, str], certificates: Certificates, status: int, scheme: str
) -> None:
    with_tls = server_of(certificates.server)
    other_script = asked_for(http_answer(granted()))
    with Peer(serving(with_tls, other_script) if scheme == "https" else other_script) as other:
        place = f"Location: {scheme}://{SERVER_NAME}:{other.broker.port}/token"
        script = asked_for(http_answer(granted(), f"{status} Elsewhere", place))
        with Peer(serving(with_tls, script)) as endpoint:
            url = f"https://{SERVER_NAME}:{endpoint.broker.port}/token"
            message = refused(url, grant, certificates, "5s")
            assert endpoint.connection_count == 1
        assert other.connection_count == 0
    assert f"HTTP status {status}" in message
    assert AuthenticationError.__name__ in message


def dripping(data: bytes, rest: bytes) -> Script:
    """Answer a request with the data, and then with the rest again and again, until the client closes."""

    def script(connection: socket.socket) -> None:
        asked_for(data)(connection)
        connection.settimeout(0.02)
        while True:
            try:
                if not connection.recv(1 << 16):
                    return
            except TimeoutError:
                connection.sendall(rest)

    return script


def pouring(data: bytes, rest: bytes) -> Script:
    """Answer a request with the data, and then with the rest as fast as the client takes it."""

    def script(connection: socket.socket) -> None:
        asked_for(data)(connection)
        while True:
            connection.sendall(rest)

    return script


SLOW: Final[dict[str, Script]] = {
    "never answers": stalling(),
    "drips a status": dripping(b"", b"H"),
    "drips a head": dripping(OK, b"X"),
    "drips lines of a head": dripping(OK, b"X: y\r\n"),
    "drips a body": dripping(OK + b"Content-Length: 10000000000\r\n\r\n{", b" "),
    "drips a body without a length": dripping(OK + b"\r\n{", b" "),
    "drips chunks": dripping(OK + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
    "goes on": dripping(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
}
ENDLESS: Final[dict[str, Script]] = {
    "10 GB": pouring(OK + b"Content-Length: 10000000000\r\n\r\n", bytes(1 << 16)),
    "no length": pouring(OK + b"\r\n", b" " * (1 << 16)),
    "chunks": pouring(OK + b"Transfer-Encoding: chunked\r\n\r\n", b"10000\r\n" + b" " * (1 << 16) + b"\r\n"),
    "head": pouring(OK, b"X: y\r\n" * 1000),
    "line": pouring(OK, b"X" * (1 << 16)),
    "chunk": pouring(OK + b"Transfer-Encoding: chunked\r\n\r\n", b"F" * (1 << 16)),
    "goes on": pouring(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 1000),
}


@pytest.mark.parametrize("how", SLOW)
def test_a_slow_endpoint_ends_within_the_request_timeout(
    grant: dict[str, str], certificates: Certificates, how: str
) -> None:
    with Peer(serving(server_of(certificates.server), SLOW[how])) as endpoint:
        began_s = time.monotonic()
        message = refused(f"https://{SERVER_NAME}:{endpoint.broker.port}/", grant, certificates, "600ms")
        assert time.monotonic() - began_s < GRACE_S
    assert "token endpoint localhost: no answer within 0.6 s (requestTimeout)" in message


def test_a_handshake_of_tls_that_drips_ends_within_the_request_timeout(
    grant: dict[str, str], certificates: Certificates
) -> None:
    def hello(connection: socket.socket) -> None:
        connection.recv(1 << 16)
        connection.sendall(b"\x16\x03\x03\x40\x00")
        connection.settimeout(0.02)
        while True:
            try:
                if not connection.recv(1 << 16):
                    return
            except TimeoutError:
                connection.sendall(b"\0")

    with Peer(hello) as endpoint:
        began_s = time.monotonic()
        message = refused(f"https://{SERVER_NAME}:{endpoint.broker.port}/", grant, certificates, "400ms")
        assert time.monotonic() - began_s < GRACE_S
    assert "token endpoint localhost: " in message


@pytest.mark.parametrize("how", ENDLESS)
def test_an_endless_answer_is_bounded(grant: dict[str, str], certificates: Certificates, how: str) -> None:
    with Peer(serving(server_of(certificates.server), ENDLESS[how])) as endpoint:
        message = refused(f"https://{SERVER_NAME}:{endpoint.broker.port}/", grant, certificates, "20s")
    assert "token endpoint localhost: the answer is " in message
    assert "no answer within" not in message
