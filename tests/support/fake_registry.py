"""A schema registry on loopback that tests can break: slow, away, wrong answers, answers that end early.

It answers what Confluent's answers, GUIDs included, which Apicurio does not have. ``tests/interop`` compares
the client with a real registry.
"""

from __future__ import annotations

import base64
import contextlib
import json
import re
import socket
import ssl
import threading
import time
import uuid
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

from .certificates import SERVER_NAME

if TYPE_CHECKING:
    from typing_extensions import Self

#: The namespace from which GUIDs of schemas are made.
_NAMESPACE: Final = uuid.UUID(int=7)

#: Something that goes wrong with one request, in place of its answer.
Fault = Callable[[BaseHTTPRequestHandler], None]
#: A fault in place of the answer to a path, with its status and its content; None to let it be.
Lie = Callable[[str, int, dict[str, Any]], Fault | None]


def guid_header(guid: bytes) -> bytes:
    """The value of the header that names a schema by its GUID."""
    return b"\1" + guid


def status(code: int, body: bytes = b"", **headers: str) -> Fault:
    """A status with any body."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(code)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(body)

    return answer


def refusal(code: int, error_code: int, message: str) -> Fault:
    """An error of the registry itself."""
    return status(code, json.dumps({"error_code": error_code, "message": message}).encode())


def raw(data: bytes) -> Fault:
    """Any bytes, then the end of the connection."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(data)

    return answer


def cut(handler: BaseHTTPRequestHandler) -> None:
    """The connection ends without an answer."""
    with contextlib.suppress(OSError):
        handler.connection.shutdown(socket.SHUT_RDWR)


def slow(seconds: float) -> Fault:
    """No answer for that time, then the end of the connection."""

    def answer(_: BaseHTTPRequestHandler) -> None:
        time.sleep(seconds)

    return answer


class FakeRegistry:
    """A registry from ``with`` to its end. ``users`` are passwords of those who may log in, ``tokens`` what
    bearers may have; without both no login is needed. ``server`` is the PEM file of its key for https, and
    ``clients`` the authority of the clients' certificates that it demands then. One that goes away and comes
    back needs a ``port`` that nobody else is given meanwhile."""

    def __init__(
        self,
        *,
        users: dict[str, str] | None = None,
        tokens: tuple[str, ...] = (),
        server: Path | None = None,
        clients: Path | None = None,
        path: str = "",
        port: int = 0,
    ) -> None:
        self.users, self.tokens, self.path = users or {}, tokens, path
        #: Ids with the bodies that answer a request for them.
        self.schemas: dict[int, dict[str, Any]] = {}
        #: Subjects with the ids of their versions, the first one first.
        self.subjects: dict[str, list[int]] = {}
        #: What goes wrong with the next requests, one each.
        self.faults: list[Fault] = []
        #: May replace any answer.
        self.lie: Lie | None = None
        #: All requests: method, path and query.
        self.requests: list[str] = []
        #: The headers of the last request.
        self.headers: dict[str, str] = {}
        self._scheme = "http" if server is None else "https"
        self._context: ssl.SSLContext | None = None
        if server is not None:
            self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._context.load_cert_chain(server)
            if clients is not None:
                self._context.verify_mode = ssl.CERT_REQUIRED
                self._context.load_verify_locations(clients)
        self._listen(port)

    def _listen(self, port: int) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", port), _handler_of(self))
        self._server.daemon_threads = True
        # Clients that leave early are what some tests are about.
        self._server.handle_error = lambda *_: None  # type: ignore[method-assign]
        if self._context is not None:
            self._server.socket = self._context.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    def go_away(self) -> None:
        """Refuse connections until it comes back."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def come_back(self) -> None:
        """Listen on the same port with the same schemas."""
        self._listen(self._server.server_port)
        self._thread.start()

    @property
    def url(self) -> str:
        """Its address, as ``schema.registry.url`` has it."""
        host = SERVER_NAME if self._scheme == "https" else "127.0.0.1"
        return f"{self._scheme}://{host}:{self._server.server_port}{self.path}"

    def add(
        self,
        subject: str,
        text: str,
        schema_type: str = "AVRO",
        references: tuple[tuple[str, str, int], ...] = (),
    ) -> int:
        """Register a schema, which has name, subject and version of those that it imports; returns its id."""
        body: dict[str, Any] = {"schema": text}
        if schema_type != "AVRO":
            body["schemaType"] = schema_type
        if references:
            body["references"] = [
                {"name": name, "subject": of, "version": version} for name, of, version in references
            ]
        return self._register(subject, body)

    @staticmethod
    def guid(schema_id: int) -> bytes:
        """The GUID of a schema, 16 bytes."""
        return uuid.uuid5(_NAMESPACE, str(schema_id)).bytes

    def _register(self, subject: str, body: dict[str, Any]) -> int:
        known = [number for number, schema in self.schemas.items() if schema == body]
        schema_id = known[0] if known else len(self.schemas) + 1
        self.schemas[schema_id] = body
        versions = self.subjects.setdefault(subject, [])
        if schema_id not in versions:
            versions.append(schema_id)
        return schema_id

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, dict[str, Any]]:
        """Status and body of the answer to a request."""
        location = [unquote(part) for part in urlsplit(path).path.removeprefix(self.path).split("/")[1:]]
        match method, location:
            case "GET", ["schemas", "ids", number] if re.fullmatch("[0-9]+", number):
                result = self.schemas.get(int(number))
                return (200, result) if result is not None else _unknown(40403, "Schema")
            case "GET", ["schemas", "guids", guid]:
                for schema_id, schema in self.schemas.items():
                    if uuid.UUID(bytes=self.guid(schema_id)) == uuid.UUID(guid):
                        return 200, {**schema, "guid": guid}
                return _unknown(40403, "Schema")
            case "GET", ["subjects", subject, "versions", number]:
                return self._version(subject, number)
            case "POST", ["subjects", subject, "versions"]:
                schema_id = self._register(subject, json.loads(body))
                return 200, {"id": schema_id, "guid": str(uuid.UUID(bytes=self.guid(schema_id)))}
            case "POST", ["subjects", subject]:
                return self._looked_up(subject, json.loads(body))
        return 404, {}

    def _version(self, subject: str, number: str) -> tuple[int, dict[str, Any]]:
        versions = self.subjects.get(subject)
        if versions is None:
            return _unknown(40401, "Subject")
        version = len(versions) if number == "latest" else int(number)
        if not 1 <= version <= len(versions):
            return _unknown(40402, "Version")
        schema_id = versions[version - 1]
        result = {"subject": subject, "version": version, "id": schema_id}
        return 200, {**result, **self.schemas[schema_id]}

    def _looked_up(self, subject: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if subject not in self.subjects:
            return _unknown(40401, "Subject")
        for version, schema_id in enumerate(self.subjects[subject], 1):
            if self.schemas[schema_id] == body:
                return 200, {"subject": subject, "version": version, "id": schema_id, **body}
        return _unknown(40403, "Schema")

    def lets_in(self, authorization: str) -> bool:
        """True if a request with this header needs no other login."""
        if not self.users and not self.tokens:
            return True
        kind, _, word = authorization.partition(" ")
        if kind == "Bearer":
            return word in self.tokens
        user, _, password = base64.b64decode(word).decode().partition(":")
        return kind == "Basic" and user in self.users and self.users[user] == password

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.go_away()


def _unknown(code: int, what: str) -> tuple[int, dict[str, Any]]:
    return 404, {"error_code": code, "message": f"{what} not found"}


class _Whole:
    """Bytes of a connection, which ends where a line or a body ends early: ``http.server`` takes a head that
    is cut off for a whole one."""

    def __init__(self, received: Any) -> None:
        self._received = received
        self.close = received.close

    def readline(self, size: int = -1) -> bytes:
        line = self._received.readline(size)
        if not line.endswith(b"\n"):
            raise ConnectionAbortedError
        return bytes(line)

    def read(self, size: int) -> bytes:
        data = self._received.read(size)
        if len(data) < size:
            raise ConnectionAbortedError
        return bytes(data)


def _handler_of(registry: FakeRegistry) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            super().setup()
            self.rfile = _Whole(self.rfile)  # type: ignore[assignment]

        def _serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            registry.requests.append(f"{self.command} {self.path}")
            registry.headers = dict(self.headers.items())
            if registry.faults:
                registry.faults.pop(0)(self)
                self.close_connection = True
            elif not registry.lets_in(self.headers.get("Authorization", "")):
                refusal(401, 40101, "Unauthorized")(self)
            else:
                code, result = registry.answer(self.command, self.path, body)
                lie = registry.lie and registry.lie(self.path, code, result)
                (lie or status(code, json.dumps(result).encode() if result else b""))(self)
                self.close_connection = self.close_connection or lie is not None

        do_GET = do_POST = _serve

        def log_message(self, *_: object) -> None:
            pass

    return Handler
