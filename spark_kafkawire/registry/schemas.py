"""Schemas as a registry has them, and what its answers say.

    GET  /schemas/ids/7                 {"schemaType": "PROTOBUF", "schema": "…", "references": [{…}]}
    GET  /subjects/s/versions/latest    the same, with "subject", "version" and "id"
    POST /subjects/s/versions           {"id": 7}
    any  other status than 200          {"error_code": 40403, "message": "…"}

Source: the API reference of Confluent's Schema Registry.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NoReturn, TypeVar

from ..errors import ConnectFailed, printable

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
        """The text of the schema itself."""
        return self.schema.text

    @property
    def references(self) -> dict[str, str]:
        """The texts of all imported schemas by their names, each after those that it imports itself."""
        return dict(self.dependencies)


def object_in(body: bytes) -> dict[str, Any]:
    """The JSON object of an answer. Raises ``ConnectFailed`` (retriable) for anything else: a proxy's page,
    or half of an answer."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        found = None
    return found if isinstance(found, dict) else _broken("is not a JSON object")


def error_in(body: bytes) -> tuple[int | None, str]:
    """Code and message of an answer that is an error; None if it has no code, as errors of other servers."""
    try:
        found = object_in(body)
    except ConnectFailed:
        return None, ""
    code, message = found.get("error_code"), found.get("message")
    has_code = isinstance(code, int) and not isinstance(code, bool)
    return code if has_code else None, message if isinstance(message, str) else ""


def schema_in(found: Mapping[str, Any]) -> Schema:
    """The schema of an answer. Raises ``ConnectFailed`` (retriable)."""
    form = _field(found, "schemaType", str, AVRO)
    if form not in FORMATS:
        _broken(f"has a schemaType other than {', '.join(FORMATS)}")
    references = found.get("references")
    if not isinstance(references, list | None):
        _broken("has references that are not a list")
    return Schema(form, _field(found, "schema", str), tuple(map(_reference, references or ())))


def registered_in(
    found: Mapping[str, Any], *, schema_id: int | None = None, guid: str | None = None
) -> RegisteredSchema:
    """The schema of an answer, without its dependencies. Raises ``ConnectFailed`` (retriable) if the answer
    is for another id or GUID; many registries repeat neither of them."""
    answered_id = number_in(found, "id", -1 if schema_id is None else schema_id)
    if schema_id is not None and answered_id != schema_id:
        _broken(f"is for schema id {answered_id}")
    answered_guid = _field(found, "guid", str, guid or "")
    if guid is not None and answered_guid.lower() != guid:
        _broken(f"is for schema GUID {printable(answered_guid)}")
    return RegisteredSchema(answered_id, schema_in(found))


def version_in(found: Mapping[str, Any], subject: str, version: int | None) -> RegisteredSchema:
    """The schema of an answer about a version of a subject, None for the latest one, without its
    dependencies. Raises ``ConnectFailed`` (retriable) if the answer has no id or no version, or is for
    another version or subject."""
    answered_subject, answered_version = _field(found, "subject", str, subject), number_in(found, "version")
    # A context in the URL is in the subject of the answer, and the default context is not.
    if _without_context(answered_subject) != _without_context(subject):
        _broken(f"is for subject {printable(answered_subject)}")
    if version not in (None, answered_version):
        _broken(f"is for version {answered_version}")
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
    return _broken(f"has no {name} from 0 to {_ID_MAX}")


def request_of(schema: Schema) -> bytes:
    """The body that registers a schema, or looks it up."""
    body: dict[str, Any] = {"schema": schema.text}
    if schema.format != AVRO:  # registries of old know no other format, and no name of it
        body["schemaType"] = schema.format
    if schema.references:
        body["references"] = [
            {"name": each.name, "subject": each.subject, "version": each.version}
            for each in schema.references
        ]
    return json.dumps(body).encode()


def _without_context(subject: str) -> str:
    """The name behind ``:.context:``."""
    return subject.split(":", 2)[2] if re.match(r":\.[^:]*:", subject) else subject


def _reference(found: object) -> Reference:
    if not isinstance(found, dict):
        _broken("has a reference that is not an object")
    return Reference(_field(found, "name", str), _field(found, "subject", str), number_in(found, "version"))


def _field(found: Mapping[str, Any], name: str, kind: type[T], default: T | None = None) -> T:
    value = found.get(name)
    if value is None and default is not None:
        return default
    return value if isinstance(value, kind) else _broken(f"has no {name}")


def _broken(problem: str) -> NoReturn:
    raise ConnectFailed(f"the server's answer {problem}; is it a schema registry?")
