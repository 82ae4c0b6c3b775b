"""Confluent's own serializers and deserializers, which use a registry: judges of typed values.

    with Confluent(registry.url) as judge:
        messages = judge.avro("orders", TEXT, rows)     # the schema is registered, too
        judge.avro_rows("orders", messages)             # as AvroDeserializer returns them

The extra ``interop`` has what they need.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from confluent_kafka.schema_registry import (
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    header_schema_id_serializer,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import (
    ProtobufDeserializer,
    ProtobufSerializer,
)
from confluent_kafka.serialization import MessageField, SerializationContext

from tests.support.foreign import Record

if TYPE_CHECKING:
    from typing_extensions import Self

#: The subject is that of the topic, without a question for associations, which Apicurio does not answer.
_BY_TOPIC: Final = {"subject.name.strategy.type": "TOPIC"}
#: Their fields are known to mypy only where attrs is installed.
_SCHEMA: Final[Any] = Schema
_REFERENCE: Final[Any] = SchemaReference
_EPOCH: Final = dt.date(1970, 1, 1)


class Confluent:
    """Serializers and deserializers for the values of topics, with one registry, until the block ends."""

    def __init__(self, url: str) -> None:
        self.client: Any = SchemaRegistryClient({"url": url})

    def schema(
        self, text: str, schema_type: str = "AVRO", references: Sequence[tuple[str, str, int]] = ()
    ) -> Any:
        """A schema with the names, subjects and versions of those that it refers to."""
        named = [_REFERENCE(name, subject, version) for name, subject, version in references]
        return _SCHEMA(text, schema_type, named)

    def register(self, subject: str, schema: Any) -> int:
        """Register a schema and return its id."""
        return int(self.client.register_schema(subject, schema))

    def avro(self, topic: str, schema: Any, rows: Iterable[Any]) -> list[bytes]:
        """Messages of rows. ``schema`` is a text, or a ``schema`` with references."""
        return self._written(AvroSerializer(self.client, schema, conf=_BY_TOPIC), topic, rows)

    def avro_with_header(self, topic: str, text: str, row: Any) -> Record:
        """A record whose header has the schema's GUID."""
        conf = {**_BY_TOPIC, "schema.id.serializer": header_schema_id_serializer}
        headers: Any = []
        context = SerializationContext(topic, MessageField.VALUE, headers)
        value = AvroSerializer(self.client, text, conf=conf)(row, context)
        return Record(value, headers=tuple(headers))

    def avro_rows(self, topic: str, messages: Iterable[bytes | None], reader: str | None = None) -> list[Any]:
        """Values of messages, resolved to the reader's schema, if there is one."""
        return self._read(AvroDeserializer(self.client, reader), topic, messages)

    def json(self, topic: str, text: str, rows: Iterable[Any]) -> list[bytes]:
        """Messages of rows in JSON."""
        return self._written(JSONSerializer(text, self.client, conf=_BY_TOPIC), topic, rows)

    def json_rows(self, topic: str, messages: Iterable[bytes | None]) -> list[Any]:
        """Values of messages in JSON."""
        return self._read(JSONDeserializer(None, schema_registry_client=self.client), topic, messages)

    def protobuf(self, topic: str, messages: Sequence[Any]) -> list[bytes]:
        """Messages of Protobuf's own objects, all of one type."""
        return self._written(
            ProtobufSerializer(type(messages[0]), self.client, conf=_BY_TOPIC), topic, messages
        )

    def protobuf_objects(self, topic: str, of: Any, messages: Iterable[bytes]) -> list[Any]:
        """Protobuf's own objects of that type from messages."""
        return self._read(ProtobufDeserializer(of, {}, self.client), topic, messages)

    @staticmethod
    def _written(serializer: Any, topic: str, rows: Iterable[Any]) -> list[bytes]:
        return [serializer(row, SerializationContext(topic, MessageField.VALUE)) for row in rows]

    @staticmethod
    def _read(deserializer: Any, topic: str, messages: Iterable[bytes | None]) -> list[Any]:
        context = SerializationContext(topic, MessageField.VALUE)
        return [deserializer(message, context) for message in messages]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()


def as_spark(value: Any, of: pa.DataType) -> Any:
    """The value of an Avro deserializer as a column of this type has it, as ``from_avro`` of Spark does.

    Fields of records that the type lacks are left out: a record contains itself a few times only.
    """
    if value is None:
        return None
    if pa.types.is_struct(of):
        is_union = of.num_fields and all(item.name == f"member{index}" for index, item in enumerate(of))
        # A schema that follows from a column has a record there.
        if is_union and not (isinstance(value, dict) and "member0" in value):
            return _as_union(value, of)
        return {item.name: as_spark(value[item.name], item.type) for item in of}
    if pa.types.is_list(of):
        return [as_spark(item, of.value_type) for item in value]
    if pa.types.is_map(of):
        return [(key, as_spark(item, of.item_type)) for key, item in value.items()]
    if isinstance(value, uuid.UUID):
        return value.bytes if pa.types.is_binary(of) else str(value)
    if isinstance(value, dt.time):  # Spark reads numbers: milliseconds in 32 bits, microseconds in 64
        day = dt.datetime.combine(_EPOCH, value) - dt.datetime.combine(_EPOCH, dt.time())
        return day // dt.timedelta(**{"milliseconds" if of == pa.int32() else "microseconds": 1})
    return value


def _as_union(value: Any, of: pa.StructType) -> dict[str, Any]:
    """The members of a union, of which those have different types in Python."""
    [chosen] = [item.name for item in of if _fits(value, item.type)]
    return {item.name: as_spark(value, item.type) if item.name == chosen else None for item in of}


def _fits(value: Any, of: pa.DataType) -> bool:
    if isinstance(value, dict):
        return bool(pa.types.is_map(of) or pa.types.is_struct(of))
    return bool(pa.infer_type([value]) == of)
