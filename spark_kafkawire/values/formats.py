"""Formats of keys and values: one row for each, with the functions that every format offers.

    parse(text, references)                   a schema of the format
    decoder(writer, reader, arrow_type)       messages to a column, ``Decoder``
    encoder(schema, arrow_type)               a column to messages, ``Encoder``
    new_field(writer, reader)                 a field that only the writer's schema has
    schema_of(arrow_type, name)               a schema derived from a column

A row imports the modules of its format when one of its functions is called: options need the names alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    import pyarrow as pa

    from .payloads import Decoded, Payloads


class Schema(Protocol):
    """A schema of any format. What travels to tasks is its ``FixedSchema``."""

    @property
    def arrow_type(self) -> pa.DataType:
        """The Arrow type of a value."""

    @property
    def text(self) -> str:
        """The text that the schema was parsed from."""

    @property
    def name(self) -> str | None:
        """The full name of the record or the message that it is; None if it has none."""


@dataclass(frozen=True, slots=True)
class FixedSchema:
    """The text of a schema that does not change while a query runs, and the texts of those that it uses.

    ``schema_id`` is -1 where it is not known. ``origin`` names its place in a registry, for errors.
    ``message`` is the name of a message type of Protobuf; None for the first one of the schema.
    ``recursion_depth`` is how often a record or a message may be inside of itself; None for the format's own.
    """

    text: str
    references: tuple[tuple[str, str], ...] = ()
    schema_id: int = -1
    origin: str = ""
    message: str | None = None
    recursion_depth: int | None = None


class Encoder(Protocol):
    """An encoder of a column of one type with one schema."""

    def encode(self, column: pa.Array) -> pa.BinaryArray:
        """The messages of a column, without frames; null for a null.

        Raises ``RowError`` (fatal) for a value that the schema does not allow, with its row and field."""


class Decoder(Protocol):
    """A decoder of messages that were written with one schema."""

    def decode(self, payloads: Payloads) -> Decoded:
        """The messages' values, and the faults of those that have none."""


@dataclass(frozen=True, slots=True)
class Format:
    """A format of keys or values whose messages have schemas.

    ``registered_as`` is its ``schemaType`` in a schema registry. ``has_indexes`` is true if messages name
    their type by indexes behind the schema's id: its schemas have ``indexes`` and ``find_message_type``, and
    ``decoder`` takes the indexes of messages as a fourth argument. By default they are those of the writer's
    schema. ``has_depth`` is true if types of its schemas may contain themselves.
    ``needs_writer`` is false if messages are read without the schema that they were written with: ``decoder``
    gets None for it then. ``new_field`` is needed for ``avroSchemaEvolutionMode`` alone.
    """

    name: str
    registered_as: str
    parse: Callable[[str, Mapping[str, str] | None], Schema]
    decoder: Callable[..., Decoder]
    encoder: Callable[[Any, pa.DataType], Encoder]
    schema_of: Callable[[pa.DataType, str], Schema]
    has_depth: bool = False
    has_indexes: bool = False
    needs_writer: bool = True
    new_field: Callable[[Any, Any], str | None] | None = None

    def parsed(self, fixed: FixedSchema) -> Schema:
        """The schema of a column. Raises ``OptionError`` (fatal)."""
        schema: Any = self.parse(fixed.text, dict(fixed.references))
        if fixed.recursion_depth is not None:
            schema = replace(schema, recursion_depth=fixed.recursion_depth)
        parsed: Schema = schema if fixed.message is None else schema.find_message_type(fixed.message)
        return parsed

    def indexes(self, fixed: FixedSchema) -> tuple[int, ...]:
        """The place of a column's message type in its schema. The format ``has_indexes``."""
        schema: Any = self.parsed(fixed)
        indexes: tuple[int, ...] = schema.indexes
        return indexes


def _call_lazily(module: str, name: str, *arguments: Any) -> Any:
    return getattr(import_module(f".{module}", __package__), name)(*arguments)


def _format(name: str, **more: Any) -> Format:
    def of(module: str, function: str) -> Callable[..., Any]:
        return partial(_call_lazily, f"{name}.{module}", function)

    parse, schema_of = of("schema", "parse"), of("schema", "schema_of")
    return Format(
        name, name.upper(), parse, of("decoding", "Decoder"), of("encoding", "Encoder"), schema_of, **more
    )


#: Formats whose bytes are themselves the value.
BINARY: Final = "binary"
STRING: Final = "string"
#: Formats with schemas, by the words of ``valueFormat`` and ``keyFormat``.
FORMATS: Final[Mapping[str, Format]] = MappingProxyType(
    {
        "avro": _format(
            "avro", has_depth=True, new_field=partial(_call_lazily, "avro.decoding", "new_field")
        ),
        "protobuf": _format("protobuf", has_depth=True, has_indexes=True),
        "json": _format("json", needs_writer=False),
    }
)
#: All words of ``valueFormat`` and ``keyFormat``.
FORMAT_NAMES: Final = (BINARY, STRING, *FORMATS)
