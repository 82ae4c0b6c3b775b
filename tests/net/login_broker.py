"""Brokers that want a login before they answer anything."""

from __future__ import annotations

import json
import pickle
import socket
import traceback
from collections.abc import Callable, Generator
from typing import Any, Final

import pytest
from scramp import ScramException, ScramMechanism

from spark_kafkawire.errors import KafkaWireError
from spark_kafkawire.protocol import modern
from spark_kafkawire.protocol.api import VersionRange
from spark_kafkawire.protocol.modern.sasl import SaslAuthenticateResponse, SaslHandshakeResponse

from .aws_judge import signed_payload
from .modern_peers import METADATA_RESPONSE, OFFERED, Asked, answer, api_versions, asked, read
from .peers import Script, read_frame

SECRET: Final = "s3cret=,\\ü"
USER: Final = "ali=ce,"
#: How brokers from 1.0 on and before carry tokens: SaslHandshake's versions.
IN_REQUESTS: Final = OFFERED
INVALID: Final = "Authentication failed: Invalid username or password"
#: A broker's side of a mechanism: is sent the client's tokens, yields its own, and returns or refuses.
Login = Callable[[], Generator[bytes, bytes, None]]


class Refused(Exception):
    """The broker does not let the client in."""


def plain() -> Generator[bytes, bytes, None]:
    if (yield b"") != f"\0{USER}\0{SECRET}".encode():
        raise Refused(INVALID)
    yield b""


def scram(mechanism: str, extension: str = "") -> Login:
    """SCRAM of scramp. The client's first message ends with the extension, which the proofs cover."""

    def login() -> Generator[bytes, bytes, None]:
        judge = ScramMechanism(mechanism)
        users = {USER: judge.make_auth_info(SECRET, iteration_count=4096)}
        server = judge.make_server(users.get)
        try:
            first = (yield b"").decode()
            if not first.endswith(extension) or (not extension and "tokenauth" in first):
                raise Refused(INVALID)
            server.set_client_first(first.removesuffix(extension))
            server.client_first_bare += extension  # which scramp itself does not read
            server.set_client_final((yield server.get_server_first().encode()).decode())
        except ScramException as error:
            raise Refused(INVALID) from error
        yield server.get_server_final().encode()

    return login


def oauthbearer() -> Generator[bytes, bytes, None]:
    if (yield b"") != f"n,,\x01auth=Bearer {TOKEN}\x01logicalCluster=lkc\x01\x01".encode():
        assert (yield b'{"status":"invalid_token"}') == b"\x01"
        raise Refused("{'status':'invalid_token'}")
    yield b""


def aws_msk_iam() -> Generator[bytes, bytes, None]:
    message = json.loads((yield b""))
    if message != signed_payload(message, KEY_ID, SECRET):
        raise Refused("Access denied")
    yield b'{"version":"2020_10_22","request-id":"7a3c"}'


#: The name of the key of AWS whose secret is SECRET, and the region of the broker.
KEY_ID: Final = "AKIDEXAMPLE"
REGION: Final = "eu-west-1"
TOKEN: Final = "s3cret.token"
#: All mechanisms but GSSAPI, whose side needs files: that is in ``kerberos_peer``.
LOGINS: Final[dict[str, Login]] = {
    "PLAIN": plain,
    "SCRAM-SHA-256": scram("SCRAM-SHA-256"),
    "SCRAM-SHA-512": scram("SCRAM-SHA-512"),
    "OAUTHBEARER": oauthbearer,
    "AWS_MSK_IAM": aws_msk_iam,
}


def login_broker(
    logins: dict[str, Login] = LOGINS,
    offered: dict[int, VersionRange] = IN_REQUESTS,
    session_lifetime_ms: int = 0,
    reply: Callable[[Asked], object] = lambda _: METADATA_RESPONSE,
) -> Script:
    """A listener that wants a login first, and then answers with ``reply``. A client may log in again."""

    def script(connection: socket.socket) -> None:
        question = asked(connection)
        while question is not None:
            if question.api is modern.API_VERSIONS:
                answer(connection, question, api_versions(offered))
                question = asked(connection)
            elif question.api is not modern.SASL_HANDSHAKE:
                return
            elif question.request.mechanism not in logins:
                names = tuple(logins)
                answer(connection, question, SaslHandshakeResponse(error_code=33, mechanisms=names))
                question = asked(connection)
            else:
                answer(connection, question, SaslHandshakeResponse(error_code=0, mechanisms=tuple(logins)))
                login = logins[question.request.mechanism]()
                next(login)
                carry = in_request if question.version else bare
                try:
                    while (question := carry(connection, login)) is None:
                        pass
                except Refused:
                    return
                question = serve(connection, question, reply)

    def in_request(connection: socket.socket, login: Generator[bytes, bytes, None]) -> Asked | None:
        question = asked(connection)
        if question is None:
            raise Refused
        if question.api is not modern.SASL_AUTHENTICATE:
            return question
        try:
            token = login.send(bytes(question.request.auth_bytes))
        except (Refused, StopIteration) as error:
            refusal = SaslAuthenticateResponse(error_code=58, error_message=str(error), auth_bytes=b"")
            answer(connection, question, refusal)
            raise Refused from error
        lifetime_ms = session_lifetime_ms if question.version else 0
        response = SaslAuthenticateResponse(error_code=0, auth_bytes=token, session_lifetime_ms=lifetime_ms)
        answer(connection, question, response)
        return None

    return script


def handshaken(hostile: Script, offered: dict[int, VersionRange] = IN_REQUESTS) -> Script:
    """A broker that takes the mechanism, and does with the client's first token what it likes."""

    def script(connection: socket.socket) -> None:
        while (question := asked(connection)) is not None:
            if question.api is modern.API_VERSIONS:
                answer(connection, question, api_versions(offered))
            elif question.api is modern.SASL_HANDSHAKE:
                answer(connection, question, SaslHandshakeResponse(error_code=0, mechanisms=tuple(LOGINS)))
                hostile(connection)
                return

    return script


def bare(connection: socket.socket, login: Generator[bytes, bytes, None]) -> Asked | None:
    """Answer one token, in a frame without a header; the request that comes where no token does."""
    frame = read_frame(connection)
    try:
        said = login.send(frame)
    except StopIteration:
        return read(memoryview(frame))
    connection.sendall(len(said).to_bytes(4, "big") + said)
    return None


def serve(
    connection: socket.socket, question: Asked | None, reply: Callable[[Asked], object]
) -> Asked | None:
    """Answer the requests of a client that has logged in. Returns the request of another login."""
    while question is not None and question.api is not modern.SASL_HANDSHAKE:
        answer(connection, question, reply(question))
        question = asked(connection)
    return question


def granted(token: object = TOKEN, **more: object) -> dict[str, Any]:
    return {"access_token": token, "token_type": "Bearer", "expires_in": 3600, **more}


def http_answer(found: object, status: str = "200 OK", *headers: str) -> bytes:
    body = found if isinstance(found, bytes) else json.dumps(found).encode()
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def asked_for(answer: bytes | Callable[[bytes], bytes], seen: list[bytes] | None = None) -> Script:
    """Read one request as long as its head says, and answer it: always with the same bytes, or with those
    that a function makes of the request."""

    def script(connection: socket.socket) -> None:
        data = b""
        while b"\r\n\r\n" not in data:
            if not (chunk := connection.recv(1 << 16)):
                return
            data += chunk
        head, _, body = data.partition(b"\r\n\r\n")
        size = head.lower().partition(b"content-length:")[2].split()
        while size and len(body) < int(size[0]):
            body += connection.recv(1 << 16)
        request = head + b"\r\n\r\n" + body
        if seen is not None:
            seen.append(request)
        connection.sendall(answer if isinstance(answer, bytes) else answer(request))

    return script


def reported(call: Callable[[], object], kind: type[KafkaWireError], *secrets: str) -> str:
    """The one line that is reported, without a secret in it or in its causes."""
    with pytest.raises(kind) as caught:
        call()
    error: BaseException | None = caught.value
    whole = "".join(traceback.format_exception(caught.value)) + str(pickle.dumps(caught.value))
    while error is not None:
        whole += f"{error!s} {error!r}"
        error = error.__cause__ or error.__context__
    assert not [secret for secret in secrets if secret in whole]
    assert "\n" not in str(caught.value)
    return str(caught.value)
