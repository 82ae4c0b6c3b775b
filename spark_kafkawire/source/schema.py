"""The columns of a read, what a user's own schema may ask for, and the types of ``key`` and ``value``
that have formats, with what tasks need for them.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from ..errors import OptionError, quote
from ..model import Generation
from ..options import BadRecords, PartitionerCheck, ReadOptions
from ..values.formats import FORMATS, STRING, FixedSchema
from .worker import Packed

if TYPE_CHECKING:
    import pyarrow as pa

    from ..clients.reading.typed_values import TypedTask


#: The columns of Spark's own Kafka connector.
MODERN_SCHEMA: Final = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
    ]
)
#: Its column with ``includeHeaders``: null, not empty, where a record has no headers.
HEADERS_FIELD: Final = StructField(
    "headers", ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
)
#: The column of ``keyOrder``: how often partitions had been added before the record.
LAYOUT_FIELD: Final = StructField("layout", IntegerType())
#: The column of ``verifyPartitioner=true``: the reason why a key is not in the partition of its layout.
MISPLACED_FIELD: Final = StructField("misplaced", StringType())
#: The column of ``badRecords=null``: bytes that cannot become a row. A user's schema may have some
#: of its fields.
CORRUPT_FIELD: Final = StructField(
    "_corrupt_record",
    StructType(
        [
            StructField("bytes", BinaryType()),
            StructField("reason", StringType()),
            StructField("schemaId", IntegerType()),
            StructField("startOffset", LongType()),
            StructField("endOffset", LongType()),
        ]
    ),
)
#: The ids of the schemas of keys and values, by their columns. They are there if a user's schema names them.
SCHEMA_ID_FIELDS: Final = {name: StructField(f"{name}SchemaId", IntegerType()) for name in ("key", "value")}
#: The columns of 0.7: the same, and those that name a place in one of its partitions.
V07_SCHEMA: Final = StructType(
    [
        *MODERN_SCHEMA.fields,
        StructField("broker", IntegerType()),
        StructField("index", IntegerType()),
        StructField("nextOffset", LongType()),
    ]
)


#: Spark trusts a schema that says NOT NULL, and makes 1970 or an exception of its own of a null.
_NEVER_NULL: Final = frozenset(
    ("topic", "partition", "offset", "timestampType", "broker", "index", "nextOffset", "layout")
)
#: The option that adds a column.
_BROUGHT_BY: Final = {
    HEADERS_FIELD.name: "includeHeaders=true",
    LAYOUT_FIELD.name: "keyOrder=true",
    MISPLACED_FIELD.name: "keyOrder=true and verifyPartitioner=true",
    CORRUPT_FIELD.name: "badRecords=null",
    **{field.name: f"{name}Format=avro" for name, field in SCHEMA_ID_FIELDS.items()},
}
_BINARY: Final[Mapping[str, DataType]] = MappingProxyType({})
_SCHEMAS: Final = {Generation.V07: V07_SCHEMA, Generation.MODERN: MODERN_SCHEMA}


class ReadColumns(StructType):
    """The columns that ``schema()`` returns: Spark takes its own types, and an engine that asks for an Arrow
    schema, such as Sail, takes that. Sail's own conversion passes no time zone, which pyspark-client asks for
    from 4.2 on."""

    def __arrow_c_schema__(self) -> object:
        """A capsule with the Arrow schema. Source: Arrow's PyCapsule interface."""
        from .spark_versions import arrow_schema

        return arrow_schema(self).__arrow_c_schema__()

    @classmethod
    def typeName(cls) -> str:
        """The name in JSON, which pyspark takes from that of the class."""
        return StructType.typeName()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StructType) and self.fields == other.fields

    __hash__ = StructType.__hash__


def read_schema(options: ReadOptions, types: Mapping[str, DataType] = _BINARY) -> StructType:
    """All columns of a read; ``types`` are those of keys and values that are not binary."""
    schema = _SCHEMAS[options.discovery.generation]
    fields = [
        StructField(field.name, types[field.name]) if field.name in types else field
        for field in schema.fields
    ]
    if options.include_headers:
        fields.append(HEADERS_FIELD)
    if options.key_order is not None:
        fields.append(LAYOUT_FIELD)
        if options.key_order.check is PartitionerCheck.REPORT:
            fields.append(MISPLACED_FIELD)
    if options.fetch.bad_records is BadRecords.NULL:
        fields.append(CORRUPT_FIELD)
    return StructType(fields)


def check_read(schema: StructType, options: ReadOptions) -> None:
    """Check a user's schema against the columns of a read. Raises ``OptionError`` (fatal) naming the
    column."""
    formats = () if options.typed is None else options.typed.columns
    types: dict[str, DataType] = {item.column: StringType() for item in formats if item.format == STRING}
    free = [item.column for item in formats if item.has_schemas]
    ids = [field for name, field in SCHEMA_ID_FIELDS.items() if name in free]
    check_read_schema(schema, StructType([*read_schema(options, types).fields, *ids]), free)


def check_read_schema(schema: StructType, columns: StructType, free: Container[str] = ()) -> None:
    """A user's schema is a projection: some of the columns, in any order, each with its type. Those that are
    ``free`` have any type.

    Raises ``OptionError`` (fatal) naming the column.
    """
    types = {field.name: field.dataType for field in columns.fields}
    names = schema.fieldNames()
    for field in schema.fields:
        if field.name not in types:
            option = _BROUGHT_BY.get(field.name)
            hint = f"set {option}" if option else f"there are {', '.join(types)}"
            raise OptionError(f"schema: there is no column {quote(field.name)}; {hint}")
        is_free = field.name in free or _has_some_fields(field, CORRUPT_FIELD)
        _check_type(field, field.dataType if is_free else types[field.name])
        if names.count(field.name) > 1:
            raise OptionError(f"schema: column {quote(field.name)} is named twice; remove one")


def _has_some_fields(field: StructField, of: StructField) -> bool:
    """True if the struct ``field`` has some of the fields of the struct ``of``, in any order."""
    given, known = field.dataType, of.dataType
    if field.name != of.name or not isinstance(given, StructType) or not isinstance(known, StructType):
        return False
    names = given.fieldNames()
    return (
        bool(names) and len(set(names)) == len(names) and all(item in known.fields for item in given.fields)
    )


def _check_type(field: StructField, expected: DataType) -> None:
    is_named_so = field.dataType.simpleString() == expected.simpleString()
    if not is_named_so:
        raise OptionError(
            f"schema: column {quote(field.name)} is {expected.simpleString()}, not "
            f"{field.dataType.simpleString()}; cast it after load()"
        )
    if field.dataType != expected or not (field.nullable or field.name in _NEVER_NULL):
        raise OptionError(f"schema: column {quote(field.name)} may hold nulls; leave NOT NULL out")


#: Schemas by the columns that have them. ``schema()`` fixes those of a query, and its reader has the same.
Schemas = Mapping[str, FixedSchema]


def plan_columns(options: ReadOptions) -> tuple[StructType, Schemas]:
    """All columns of a read, and the schemas that are fixed for it.

    Raises ``OptionError`` (fatal), and the errors of the registry.
    """
    if options.typed is None:
        return read_schema(options), {}
    from ..planner.schemas import fix_schemas

    schemas = fix_schemas(options)
    return read_schema(options, _types(options, schemas)), schemas


def _types(options: ReadOptions, schemas: Schemas) -> dict[str, DataType]:
    """The types of the columns ``key`` and ``value`` that are not binary."""
    from ..planner.schemas import schema_in
    from .spark_versions import spark_type

    types: dict[str, DataType] = {}
    for column in options.typed.columns if options.typed is not None else ():
        if column.format == STRING:
            types[column.column] = StringType()
        elif column.column in schemas:
            types[column.column] = spark_type(schema_in(column, schemas[column.column]).arrow_type)
    return types


def pack_typed_task(
    options: ReadOptions, schema: StructType, columns: pa.Schema, schemas: Schemas | None
) -> Packed[TypedTask] | None:
    """Formats and schemas for the tasks of a read; None if keys and values are binary.

    ``schemas`` are None where the user gave ``schema``, so that none was fixed before. ``columns`` is
    ``schema`` in Arrow's types. Raises ``OptionError`` (fatal) for a column that cannot have its type, and
    the errors of the registry.
    """
    if options.typed is None:
        return None
    from ..clients.reading.typed_values import TypedTask
    from ..planner.schemas import check_schemas, fix_schemas, schema_in

    names = schema.fieldNames()
    if schemas is None:
        schemas = fix_schemas(options, names)
    check_schemas(options.typed, schemas, names)
    for column in options.typed.columns:
        if not column.has_schemas or column.column not in names:
            continue
        form, fixed = FORMATS[column.format], schemas.get(column.column)
        reader = None if fixed is None else schema_in(column, fixed)
        if reader is not None or not form.needs_writer:
            try:
                form.decoder(reader if form.needs_writer else None, reader, columns.field(column.column).type)
            except OptionError as error:
                raise error.locate(f"schema: column '{column.column}'") from error
    return Packed(TypedTask(options.typed, dict(schemas)))
