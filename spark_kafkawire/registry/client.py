"""A client of a schema registry: schemas by id, GUID or subject, each requested once in a process.

    registry = registry_of(settings)
    registry.schema(7).text
    registry.register("orders-value", Schema("AVRO", text))

A registry that has no such schema raises ``UnknownSchemaError``: nothing but its own error code is evidence
for that. A registry that is away, slow, broken or replaced by a proxy's page is a failed request: each server
is asked in turn, retries follow, and then the error is fatal. ``requestTimeout`` bounds what one server takes
for a schema with all that it imports; the imports that have come are kept for the next attempt.

Source: the API reference of Confluent's Schema Registry.
"""

from __future__ import annotations

import base64
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar
from urllib.parse import quote

from ..errors import (
    AuthenticationError,
    ConnectFailed,
    KafkaWireError,
    LimitError,
    RegistryError,
    TransportError,
    UnknownSchemaError,
    peer_text,
    printable,
)
from ..net.http import Answer, Url, ask
from ..net.retry import retried
from ..net.transport import Deadline
from ..secrecy import keep_secret
from .schemas import (
    Reference,
    RegisteredSchema,
    Schema,
    error_in,
    number_in,
    object_in,
    registered_in,
    request_of,
    version_in,
)
from .settings import BasicLogin, BearerToken, RegistrySettings

T = TypeVar("T")

#: Longest answer, bytes. Registries refuse schemas of more than 1 MB by default.
ANSWER_BYTES_MAX: Final = 16 << 20
#: Schemas that one schema may import, directly and indirectly, and how deep imports may nest.
DEPENDENCIES_MAX: Final = 1_000
DEPTH_MAX: Final = 64
#: Answers that are kept, the newest ones.
KEPT_MAX: Final = 10_000
#: Time for which the registry is not asked again for a schema that it does not have, seconds. A follower of
#: the registry learns of a new schema within that time.
UNKNOWN_KEPT_S: Final = 10.0

_OK: Final = 200
_REDIRECTS: Final = range(300, 400)
_REFUSED: Final = (401, 403)
_NOT_FOUND: Final = 404
#: The registry's own codes: no such subject, version, schema.
_UNKNOWN: Final = (40401, 40402, 40403)
_CHECK_LOGIN: Final = "check basic.auth.user.info or bearer.auth.*, and what that user may do"
_NO_REDIRECT: Final = "the login would go there, too, so set schema.registry.url to that address"
_CHECK_PATH: Final = "check the path in schema.registry.url"
_JSON: Final = "application/vnd.schemaregistry.v1+json"
#: The beginning of a subject that is not in the default context.
_CONTEXT: Final = ":."


@dataclass(frozen=True, slots=True)
class _Turn:
    """A server whose turn it is, and the deadline for all that is asked of it."""

    url: Url
    deadline: Deadline


class Registry:
    """A registry with the schemas that this process knows. Threads may share it."""

    def __init__(self, settings: RegistrySettings) -> None:
        self._settings = settings
        self._answers: dict[tuple[object, ...], Any] = {}
        self._unknown: dict[tuple[object, ...], tuple[float, str]] = {}
        # One request at a time: threads that need the same schema wait for one answer.
        self._lock = threading.RLock()
        #: The server that answered last.
        self._first = 0

    def schema(self, schema_id: int, subject: str | None = None) -> RegisteredSchema:
        """The schema of an id. ``subject`` matters only if it names a context, which has ids of its own.

        Raises ``UnknownSchemaError`` (fatal) if there is no such id, ``AuthenticationError`` (fatal), other
        errors after the retries.
        """
        in_context = subject is not None and subject.startswith(_CONTEXT)
        query = f"?subject={quote(subject or '', safe='')}" if in_context else ""

        def fetch(turn: _Turn) -> RegisteredSchema:
            found = self._request(turn, "GET", f"/schemas/ids/{schema_id}{query}")
            return self._resolved(turn, registered_in(found, schema_id=schema_id), subject)

        what = f"schema id {schema_id}"
        return self._kept(("id", schema_id, query), what, fetch)

    def schema_of_guid(self, guid: bytes) -> RegisteredSchema:
        """The schema of a GUID, 16 bytes. Raises as ``schema`` does."""
        text = str(uuid.UUID(bytes=guid))

        def fetch(turn: _Turn) -> RegisteredSchema:
            found = self._request(turn, "GET", f"/schemas/guids/{text}")
            return self._resolved(turn, registered_in(found, guid=text), None)

        what = f"schema GUID {text}"
        return self._kept(("guid", guid), what, fetch)

    def latest(self, subject: str) -> RegisteredSchema:
        """The newest version of a subject, which is asked for each time. Raises as ``schema`` does."""
        what = f"the latest version of subject {printable(subject)}"
        with self._lock:
            return self._attempted(what, lambda turn: self._version(turn, subject, None))

    def version(self, subject: str, number: int) -> RegisteredSchema:
        """A version of a subject. Raises as ``schema`` does."""
        what = f"version {number} of subject {printable(subject)}"
        key = "version", subject, number
        return self._kept(key, what, lambda turn: self._version(turn, subject, number))

    def register(self, subject: str, schema: Schema) -> int:
        """Register a schema and return its id: a registered one again gets the id that it has.

        Raises ``RegistryError`` (fatal) with the registry's own words if it refuses the schema.
        """
        return self._posted("register", f"/subjects/{quote(subject, safe='')}/versions", subject, schema)

    def look_up(self, subject: str, schema: Schema) -> int:
        """The id of a schema in a subject. Raises ``UnknownSchemaError`` (fatal) if it is not registered."""
        return self._posted("look up", f"/subjects/{quote(subject, safe='')}", subject, schema)

    def _posted(self, verb: str, path: str, subject: str, schema: Schema) -> int:
        what = f"{verb} a schema in subject {printable(subject)}"
        body = request_of(schema)

        def fetch(turn: _Turn) -> int:
            return number_in(self._request(turn, "POST", path, body), "id")

        return self._kept((verb, subject, schema), what, fetch)

    def _version(self, turn: _Turn, subject: str, number: int | None) -> RegisteredSchema:
        path = f"/subjects/{quote(subject, safe='')}/versions/{'latest' if number is None else number}"
        found = version_in(self._request(turn, "GET", path), subject, number)
        return self._resolved(turn, found, subject)

    # Caches

    def _kept(self, key: tuple[object, ...], what: str, fetch: Callable[[_Turn], T]) -> T:
        """The answer of an earlier request, or a new one."""
        with self._lock:
            if (answer := self._answers.get(key)) is not None:
                found: T = answer
                return found
            asked_s, problem = self._unknown.get(key, (-UNKNOWN_KEPT_S, ""))
            if time.monotonic() - asked_s < UNKNOWN_KEPT_S:
                raise UnknownSchemaError(problem)
            try:
                found = self._attempted(what, fetch)
            except UnknownSchemaError as error:
                _keep(self._unknown, key, (time.monotonic(), str(error)))
                raise
            _keep(self._answers, key, found)
            return found

    # Imported schemas

    def _resolved(self, turn: _Turn, found: RegisteredSchema, subject: str | None) -> RegisteredSchema:
        """The schema with the texts of all that it imports."""
        texts: dict[str, tuple[Reference, str]] = {}
        self._add_imports(turn, found.schema, texts, _context_of(subject), 0)
        return RegisteredSchema(
            found.id,
            found.schema,
            tuple((name, text) for name, (_, text) in texts.items()),
            found.subject,
            found.version,
        )

    def _add_imports(
        self, turn: _Turn, schema: Schema, texts: dict[str, tuple[Reference, str]], context: str, depth: int
    ) -> None:
        if depth > DEPTH_MAX:
            raise LimitError(
                f"imports of schemas are nested more than {DEPTH_MAX} deep: register the schema with fewer "
                "of them"
            )
        for reference in schema.references:
            known = texts.get(reference.name)
            if known is not None:
                if known[0] != reference:
                    raise RegistryError(
                        f"two imported schemas have the name {printable(reference.name)}: "
                        f"{_version_of(known[0])} and {_version_of(reference)}; register the schemas that "
                        "import them again with one version of it"
                    )
                continue
            if len(texts) >= DEPENDENCIES_MAX:
                raise LimitError(
                    f"a schema imports more than {DEPENDENCIES_MAX} others: register it with fewer of them"
                )
            imported = self._imported(turn, reference, context)
            self._add_imports(turn, imported, texts, context, depth + 1)
            texts[reference.name] = reference, imported.text

    def _imported(self, turn: _Turn, reference: Reference, context: str) -> Schema:
        subject = reference.subject
        if context and not subject.startswith(_CONTEXT):
            subject = context + subject
        key = ("text", subject, reference.version)
        if (answer := self._answers.get(key)) is None:
            # A version that was deleted is still what others import.
            path = f"/subjects/{quote(subject, safe='')}/versions/{reference.version}?deleted=true"
            try:
                found = self._request(turn, "GET", path)
                answer = version_in(found, subject, reference.version).schema
            except TransportError as error:
                raise error.located(f"the imported {_version_of(reference)}") from error
            except UnknownSchemaError as error:
                # The schema that imports it exists, so this is no answer about the schema itself.
                raise RegistryError(f"an imported schema is missing: {error}; register it again") from error
            _keep(self._answers, key, answer)
        schema: Schema = answer
        return schema

    # Requests

    def _attempted(self, what: str, fetch: Callable[[_Turn], T]) -> T:
        try:
            return retried(lambda: self._fetched(fetch), self._settings.retry)
        except KafkaWireError as error:
            raise error.located(f"schema registry: {what}") from error

    def _fetched(self, fetch: Callable[[_Turn], T]) -> T:
        """The result of the first server that answers, with ``timeout_s`` for all requests of ``fetch``."""
        urls = self._settings.urls
        failure: TransportError | None = None
        for turn in range(len(urls)):
            index = (self._first + turn) % len(urls)
            url = urls[index]
            try:
                found = fetch(_Turn(url, Deadline.after(self._settings.timeout_s)))
            except TransportError as error:
                failure = error.located(_place(url))
            except KafkaWireError as error:
                raise error.located(_place(url)) from error
            else:
                self._first = index
                return found
        assert failure is not None
        raise failure

    def _request(self, turn: _Turn, method: str, path: str, body: bytes | None = None) -> dict[str, Any]:
        """The JSON object that the server sends."""
        settings, url = self._settings, turn.url
        headers = {"Accept": f"{_JSON}, application/json", **dict(settings.headers)}
        if body is not None:
            headers["Content-Type"] = _JSON
        if login := _authorization(settings, turn.deadline):
            headers["Authorization"] = login
        target = Url(url.scheme, url.host, url.port, url.target.rstrip("/") + path, url.netloc)
        answer = ask(target, method, headers, body, settings.tls, turn.deadline, ANSWER_BYTES_MAX)
        return _object_of(answer)


def _object_of(answer: Answer) -> dict[str, Any]:
    """The JSON object of an answer, or the error that it is."""
    if answer.status == _OK:
        return object_in(answer.body)
    code, message = error_in(answer.body)
    status = f"HTTP status {answer.status}" + (f", code {code}" if code is not None else "")
    # No words of the server are shown about a login.
    if answer.status in _REFUSED:
        raise AuthenticationError(f"the server refuses the login: {status}; {_CHECK_LOGIN}")
    if answer.status in _REDIRECTS:
        raise RegistryError(f"the server redirects to another address: {status}; {_NO_REDIRECT}")
    if answer.is_temporary:
        raise ConnectFailed(f"the server answers with {status}; see its log")
    if code is None:
        raise ConnectFailed(
            f"the server answers with {status} and no code of a schema registry; {_CHECK_PATH}"
        )
    if answer.status == _NOT_FOUND and code in _UNKNOWN:
        raise UnknownSchemaError(
            f"the server has no such schema, subject or version: {status}; check the name, and "
            "schema.registry.url"
        )
    raise RegistryError(
        f"the server refuses the request: {status}: {peer_text(message)}; change the schema as it says"
    )


def _authorization(settings: RegistrySettings, deadline: Deadline) -> str | None:
    login = settings.login
    if login is None:
        return None
    if isinstance(login, BasicLogin):
        word = base64.b64encode(f"{login.user}:{login.password}".encode()).decode()
        keep_secret(login.password, word)
        return f"Basic {word}"
    token = login.token if isinstance(login, BearerToken) else login.token(deadline)
    keep_secret(token)
    return f"Bearer {token}"


def _context_of(subject: str | None) -> str:
    """``:.context:`` of a subject that names one; imports name subjects of the same context."""
    if subject is None or not subject.startswith(_CONTEXT):
        return ""
    return subject[: subject.find(":", 1) + 1]


def _version_of(reference: Reference) -> str:
    return f"version {reference.version} of subject {printable(reference.subject)}"


def _place(url: Url) -> str:
    return f"{url.scheme}://{printable(url.netloc)}"


def _keep(answers: dict[tuple[object, ...], T], key: tuple[object, ...], answer: T) -> None:
    answers[key] = answer
    if len(answers) > KEPT_MAX:
        del answers[next(iter(answers))]


#: The registries of this process.
_registries: Final[dict[RegistrySettings, Registry]] = {}
_lock: Final = threading.Lock()


def registry_of(settings: RegistrySettings) -> Registry:
    """The registry of these settings, with all schemas that this process knows of it."""
    with _lock:
        return _registries.setdefault(settings, Registry(settings))


def forget_registries() -> None:
    """Forget all registries and their schemas."""
    with _lock:
        _registries.clear()
