"""A client of a schema registry: schemas by id, GUID or subject, each requested once in a process.

    registry = registry_of(settings)
    registry.schema(7).text
    registry.register("orders-value", Schema("AVRO", text))

A registry that has no such schema raises ``UnknownSchemaError``: nothing but its own error code is evidence
for that. If the registry is down, slow or behind an error page of a proxy, the request fails: each server
is asked in turn, retries follow, and then the error is fatal. ``requestTimeout`` bounds what one server takes
for a schema with all that it imports; the imports that have come are kept for the next attempt.

    GET  /schemas/ids/7                 {"schemaType": "PROTOBUF", "schema": "…", "references": [{…}]}
    GET  /subjects/s/versions/latest    the same, with "subject", "version" and "id"
    POST /subjects/s/versions           {"id": 7}
    any  other status than 200          {"error_code": 40403, "message": "…"}

Source: the API reference of Confluent's Schema Registry.
"""

from __future__ import annotations

import base64
import json
import re
import threading
import uuid
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar, Union
from urllib.parse import quote

from .errors import (
    AuthenticationError,
    ConnectFailed,
    KafkaWireError,
    LimitError,
    OptionError,
    RegistryError,
    TransportError,
    UnknownSchemaError,
    peer_text,
    printable,
)
from .kept import Kept
from .net.http import Answer, Url, ask, object_in
from .net.retry import RetryPolicy, call_with_retries
from .net.transport import Deadline
from .secrecy import keep_secret

if TYPE_CHECKING:
    from .net.logins.tokens.oauth import ClientCredentials
    from .net.tls import Tls


@dataclass(frozen=True, slots=True)
class BasicLogin:
    """User and password of HTTP's basic authentication."""

    user: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class BearerToken:
    """A token that the user has."""

    token: str = field(repr=False)


#: Logins to a registry.
Login = Union[BasicLogin, BearerToken, "ClientCredentials"]


@dataclass(frozen=True, slots=True)
class RegistrySettings:
    """Everything that requests to a registry need. Plain data, hashable: processes keep one client, with its
    schemas, for equal settings. Secrets travel to the executors, and are in no repr.

    ``urls`` are servers of one registry. ``headers`` are sent with each request. ``tls`` is needed for https.
    ``timeout_s`` bounds the requests to one server for a schema with all that it imports, ``retry`` what
    follows failed ones.
    """

    urls: tuple[Url, ...]
    login: Login | None = None
    headers: tuple[tuple[str, str], ...] = ()
    tls: Tls | None = None
    timeout_s: float = 30.0
    retry: RetryPolicy = RetryPolicy()


def subject_of(strategy: str, topic: str, record: str | None, *, is_key: bool) -> str:
    """The subject by ``subjectNameStrategy``. ``record`` is the full name of the schema's record or message.

    Raises ``OptionError`` (fatal) if the strategy needs a record and there is no name.

    Source: Confluent's TopicNameStrategy, RecordNameStrategy, TopicRecordNameStrategy.
    """
    column = "key" if is_key else "value"
    if strategy == "TopicName":
        return f"{topic}-{column}"
    if record is None:
        raise OptionError(
            f"option subjectNameStrategy: {strategy} needs a schema that has a name, and this one has none; "
            f"set {column}Subject"
        )
    return record if strategy == "RecordName" else f"{topic}-{record}"


T = TypeVar("T")

#: The format of a schema whose answer names none: registries were for Avro alone at first.
AVRO: Final = "AVRO"
FORMATS: Final = (AVRO, "PROTOBUF", "JSON")
#: Ids and versions are int32 on the wire and in the registry's own code.
_ID_MAX: Final = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class Reference:
    """A schema that another one imports by ``name``: a version of a subject."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class Schema:
    """Text of a schema, and what it imports."""

    format: str
    text: str
    references: tuple[Reference, ...] = ()


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema of the registry with the texts of all that it imports.

    ``dependencies`` are pairs of a name and a text, each after those that it imports itself. ``id`` is -1
    where the registry did not say it, as for GUIDs. ``subject`` and ``version`` are known if it was asked for
    by them.
    """

    id: int
    schema: Schema
    dependencies: tuple[tuple[str, str], ...] = ()
    subject: str | None = None
    version: int | None = None

    @property
    def format(self) -> str:
        """``AVRO``, ``PROTOBUF`` or ``JSON``."""
        return self.schema.format

    @property
    def text(self) -> str:
        return self.schema.text

    @property
    def references(self) -> dict[str, str]:
        """The texts of all imported schemas by their names, each after those that it imports itself."""
        return dict(self.dependencies)


def schema_in(found: Mapping[str, Any]) -> Schema:
    """The schema of an answer. Raises ``ConnectFailed`` (retriable)."""
    form = _field(found, "schemaType", str, AVRO)
    if form not in FORMATS:
        _raise_broken(f"has a schemaType other than {', '.join(FORMATS)}")
    references = found.get("references")
    if not isinstance(references, list | None):
        _raise_broken("has references that are not a list")
    return Schema(form, _field(found, "schema", str), tuple(map(_reference, references or ())))


def version_in(found: Mapping[str, Any], subject: str, version: int | None) -> RegisteredSchema:
    """The schema of an answer about a version of a subject, None for the latest one, without its
    dependencies. Raises ``ConnectFailed`` (retriable) if the answer has no id or no version, or is for
    another version or subject."""
    answered_subject, answered_version = _field(found, "subject", str, subject), number_in(found, "version")
    # A context in the URL is in the subject of the answer, and the default context is not.
    if _without_context(answered_subject) != _without_context(subject):
        _raise_broken(f"is for subject {printable(answered_subject)}")
    if version not in (None, answered_version):
        _raise_broken(f"is for version {answered_version}")
    return RegisteredSchema(
        number_in(found, "id"), schema_in(found), subject=answered_subject, version=answered_version
    )


def number_in(found: Mapping[str, Any], name: str, default: int | None = None) -> int:
    """An id or a version. Raises ``ConnectFailed`` (retriable)."""
    number = found.get(name)
    if number is None and default is not None:
        return default
    if isinstance(number, int) and not isinstance(number, bool) and 0 <= number <= _ID_MAX:
        return number
    return _raise_broken(f"has no {name} from 0 to {_ID_MAX}")


def _without_context(subject: str) -> str:
    """The name behind ``:.context:``."""
    return subject.split(":", 2)[2] if re.match(r":\.[^:]*:", subject) else subject


def _reference(result: object) -> Reference:
    if not isinstance(result, dict):
        _raise_broken("has a reference that is not an object")
    return Reference(
        _field(result, "name", str), _field(result, "subject", str), number_in(result, "version")
    )


def _field(result: Mapping[str, Any], name: str, kind: type[T], default: T | None = None) -> T:
    value = result.get(name)
    if value is None and default is not None:
        return default
    return value if isinstance(value, kind) else _raise_broken(f"has no {name}")


def _raise_broken(problem: str) -> NoReturn:
    raise ConnectFailed(f"the server's answer {problem}; is it a schema registry?")


#: Longest answer, bytes. Registries refuse schemas of more than 1 MB by default.
ANSWER_BYTES_MAX: Final = 16 << 20
#: Schemas that one schema may import, directly and indirectly, and how deep imports may nest.
DEPENDENCIES_MAX: Final = 1_000
DEPTH_MAX: Final = 64
#: Time for which the registry is not asked again for a schema that it does not have, seconds. A follower of
#: the registry learns of a new schema within that time.
UNKNOWN_KEPT_S: Final = 10.0

_OK: Final = 200
_REDIRECTS: Final = range(300, 400)
_REFUSED: Final = (401, 403)
_NOT_FOUND: Final = 404
#: The registry's own codes: no such subject, version, schema.
_UNKNOWN: Final = (40401, 40402, 40403)
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
        self._answers = Kept[tuple[object, ...], Any]()
        #: What the registry said about schemas that it does not have.
        self._unknown = Kept[tuple[object, ...], str]()
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
            result = self._request(turn, "GET", f"/schemas/ids/{schema_id}{query}")
            answered = number_in(result, "id", schema_id)  # many registries repeat neither an id nor a GUID
            if answered != schema_id:
                _raise_broken(f"is for schema id {answered}")
            return self._resolve(turn, RegisteredSchema(schema_id, schema_in(result)), subject)

        return self._kept(("id", schema_id, query), f"schema id {schema_id}", fetch)

    def schema_of_guid(self, guid: bytes) -> RegisteredSchema:
        """The schema of a GUID, 16 bytes. Raises as ``schema`` does."""
        text = str(uuid.UUID(bytes=guid))

        def fetch(turn: _Turn) -> RegisteredSchema:
            result = self._request(turn, "GET", f"/schemas/guids/{text}")
            answered = _field(result, "guid", str, text)
            if answered.lower() != text:
                _raise_broken(f"is for schema GUID {printable(answered)}")
            return self._resolve(turn, RegisteredSchema(number_in(result, "id", -1), schema_in(result)), None)

        return self._kept(("guid", guid), f"schema GUID {text}", fetch)

    def latest(self, subject: str) -> RegisteredSchema:
        """The newest version of a subject, which is asked for each time. Raises as ``schema`` does."""
        what = f"the latest version of subject {printable(subject)}"
        with self._lock:
            return self._attempt(what, lambda turn: self._version(turn, subject, None))

    def version(self, subject: str, number: int) -> RegisteredSchema:
        """A version of a subject. Raises as ``schema`` does."""
        what = f"version {number} of subject {printable(subject)}"
        return self._kept(
            ("version", subject, number), what, lambda turn: self._version(turn, subject, number)
        )

    def register(self, subject: str, schema: Schema) -> int:
        """Register a schema and return its id: a registered one again gets the id that it has.

        Raises ``RegistryError`` (fatal) with the registry's own words if it refuses the schema.
        """
        return self._post("register", f"/subjects/{quote(subject, safe='')}/versions", subject, schema)

    def look_up(self, subject: str, schema: Schema) -> int:
        """The id of a schema in a subject. Raises ``UnknownSchemaError`` (fatal) if it is not registered."""
        return self._post("look up", f"/subjects/{quote(subject, safe='')}", subject, schema)

    def _post(self, verb: str, path: str, subject: str, schema: Schema) -> int:
        what = f"{verb} a schema in subject {printable(subject)}"
        body: dict[str, Any] = {"schema": schema.text}
        if schema.format != AVRO:  # registries of old know no other format, and no name of it
            body["schemaType"] = schema.format
        if schema.references:
            body["references"] = [asdict(item) for item in schema.references]

        def fetch(turn: _Turn) -> int:
            return number_in(self._request(turn, "POST", path, json.dumps(body).encode()), "id")

        return self._kept((verb, subject, schema), what, fetch)

    def _version(self, turn: _Turn, subject: str, number: int | None) -> RegisteredSchema:
        path = f"/subjects/{quote(subject, safe='')}/versions/{'latest' if number is None else number}"
        result = version_in(self._request(turn, "GET", path), subject, number)
        return self._resolve(turn, result, subject)

    # Caches

    def _kept(self, key: tuple[object, ...], what: str, fetch: Callable[[_Turn], T]) -> T:
        """The answer of an earlier request, or a new one."""
        with self._lock:
            if (answer := self._answers.get(key)) is not None:
                result: T = answer
                return result
            if (problem := self._unknown.get(key)) is not None:
                raise UnknownSchemaError(problem)
            try:
                result = self._attempt(what, fetch)
            except UnknownSchemaError as error:
                self._unknown.keep(key, str(error), UNKNOWN_KEPT_S)
                raise
            self._answers.keep(key, result)
            return result

    # Imported schemas

    def _resolve(self, turn: _Turn, result: RegisteredSchema, subject: str | None) -> RegisteredSchema:
        """The schema with the texts of all that it imports."""
        texts: dict[str, tuple[Reference, str]] = {}
        self._add_imports(turn, result.schema, texts, _context_of(subject), 0)
        return replace(result, dependencies=tuple((name, text) for name, (_, text) in texts.items()))

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
            imported = self._import(turn, reference, context)
            self._add_imports(turn, imported, texts, context, depth + 1)
            texts[reference.name] = reference, imported.text

    def _import(self, turn: _Turn, reference: Reference, context: str) -> Schema:
        subject = reference.subject
        if context and not subject.startswith(_CONTEXT):
            subject = context + subject
        key = ("text", subject, reference.version)
        if (answer := self._answers.get(key)) is None:
            # A version that was deleted is still what others import.
            path = f"/subjects/{quote(subject, safe='')}/versions/{reference.version}?deleted=true"
            try:
                result = self._request(turn, "GET", path)
                answer = version_in(result, subject, reference.version).schema
            except TransportError as error:
                raise error.locate(f"the imported {_version_of(reference)}") from error
            except UnknownSchemaError as error:
                # The schema that imports it exists, so this is no answer about the schema itself.
                raise RegistryError(f"an imported schema is missing: {error}; register it again") from error
            self._answers.keep(key, answer)
        schema: Schema = answer
        return schema

    # Requests

    def _attempt(self, what: str, fetch: Callable[[_Turn], T]) -> T:
        try:
            return call_with_retries(lambda: self._fetched(fetch), self._settings.retry)
        except KafkaWireError as error:
            raise error.locate(f"schema registry: {what}") from error

    def _fetched(self, fetch: Callable[[_Turn], T]) -> T:
        """The result of the first server that answers, with ``timeout_s`` for all requests of ``fetch``."""
        urls = self._settings.urls
        failure: TransportError | None = None
        for turn in range(len(urls)):
            index = (self._first + turn) % len(urls)
            url = urls[index]
            try:
                result = fetch(_Turn(url, Deadline.after(self._settings.timeout_s)))
            except TransportError as error:
                failure = error.locate(_place(url))
            except KafkaWireError as error:
                raise error.locate(_place(url)) from error
            else:
                self._first = index
                return result
        assert failure is not None
        raise failure

    def _request(self, turn: _Turn, method: str, path: str, body: bytes | None = None) -> dict[str, Any]:
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
        result = object_in(answer.body)
        return _raise_broken("is not a JSON object") if result is None else result
    fault = object_in(answer.body) or {}
    code, message = fault.get("error_code"), fault.get("message")
    if not isinstance(code, int) or isinstance(code, bool):  # errors of other servers have none
        code = None
    message = message if isinstance(message, str) else ""
    status = f"HTTP status {answer.status}" + (f", code {code}" if code is not None else "")
    # No words of the server are shown about a login.
    if answer.status in _REFUSED:
        advice = "check basic.auth.user.info or bearer.auth.*, and what that user may do"
        raise AuthenticationError(f"the server refuses the login: {status}; {advice}")
    if answer.status in _REDIRECTS:
        advice = "the login would go there, too, so set schema.registry.url to that address"
        raise RegistryError(f"the server redirects to another address: {status}; {advice}")
    if answer.is_temporary:
        raise ConnectFailed(f"the server answers with {status}; see its log")
    if code is None:
        raise ConnectFailed(
            f"the server answers with {status} and no code of a schema registry; check the path in "
            "schema.registry.url"
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


_REGISTRIES: Final = Kept[RegistrySettings, Registry]()
_lock: Final = threading.Lock()


def registry_of(settings: RegistrySettings) -> Registry:
    """The registry of these settings, with all schemas that this process knows of it."""
    with _lock:
        return _REGISTRIES.get(settings) or _REGISTRIES.keep(settings, Registry(settings))
