"""Functions for columns: messages of Avro or Protobuf to values and back, values of headers, and dead letters
of bad records.

The options are those of typed reads and writes of values. The schema is fixed when the column is made, on the
driver. The functions run as Arrow UDFs, without a Python object per row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, DataType

from ..clients.reading.typed_values import MessageDecoder, TypedTask
from ..clients.writing.typed_values import TypedRows
from ..errors import CorruptDataError, OptionError, close_matches, printable, quote
from ..options import BadRecords, NetOptions, ReadOptions, TypedOptions, WriteOptions
from ..options.security import Registry
from ..planner.schemas import fix_schemas, schema_in
from ..planner.write_schemas import column_encoding
from ..values.formats import STRING
from .edge import edge
from .spark_versions import arrow_udf, spark_type
from .worker import Packed

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

_OF_BOTH: Final = (
    *(TypedOptions.value_schema, TypedOptions.value_version, TypedOptions.value_subject),
    *(TypedOptions.schema_id_from, *Registry.options()),
    *(NetOptions.request_timeout, NetOptions.retries, NetOptions.retry_backoff),
)
_DEPTH: Final = TypedOptions.recursion_depth
_OF_READS: Final = (*_OF_BOTH, TypedOptions.bad_records, _DEPTH, *_DEPTH.aliases)
_OF_WRITES: Final = (*_OF_BOTH, TypedOptions.auto_register, TypedOptions.strategy)
#: A broker that no function connects to, because the options of reads and writes need one.
_NO_BROKER: Final = {"kafka.bootstrap.servers": "localhost:9092"}
_NAMED: Final = "valueSchema, valueSubject or valueSchemaVersion=id:N"


@edge
def from_avro(column: Column | str, options: Mapping[str, str]) -> Column:
    """Values of a column of Avro messages.

    ``options`` are those of a read with ``valueFormat=avro``: ``valueSchema``, ``valueSubject``,
    ``valueSchemaVersion``, ``schemaIdFrom`` (``prefix`` or ``none``), ``badRecords`` (``fail`` or ``null``),
    ``recursiveFieldMaxDepth`` and those of the schema registry. Null stays null.

    Raises ``OptionError`` and ``RegistryError`` (fatal) at once; a message that cannot be decoded fails the
    query with ``CorruptDataError``, or is null with ``badRecords=null``.
    """
    return _decode_column("avro", "from_avro", column, options)


@edge
def to_avro(column: Column | str, options: Mapping[str, str]) -> Column:
    """Avro messages of a column of values, as a write with ``valueFormat=avro`` makes them.

    ``options`` are those of such a write: ``valueSchema``, ``valueSubject``, ``valueSchemaVersion``,
    ``schemaIdFrom`` (``prefix`` or ``none``), ``autoRegisterSchemas`` and those of the schema registry. Null
    stays null.

    Raises ``OptionError`` and ``RegistryError`` (fatal) at once; a value that the schema does not allow fails
    the query with ``RowError``.
    """
    return _encode_column("avro", "to_avro", column, options)


@edge
def from_protobuf(column: Column | str, options: Mapping[str, str]) -> Column:
    """Values of a column of Protobuf messages.

    ``options`` are those of ``from_avro``, and ``valueMessage``, the message type in the schema. It raises
    what ``from_avro`` raises.
    """
    return _decode_column("protobuf", "from_protobuf", column, options)


@edge
def to_protobuf(column: Column | str, options: Mapping[str, str]) -> Column:
    """Protobuf messages of a column of values, as a write with ``valueFormat=protobuf`` makes them.

    ``options`` are those of ``to_avro``, and ``valueMessage``, the message type in the schema. It raises what
    ``to_avro`` raises.
    """
    return _encode_column("protobuf", "to_protobuf", column, options)


def header(headers: Column | str, key: str) -> Column:
    """The value of a header, binary, of a column ``headers`` as reads have it.

    Of several headers with this key the last one wins, as in Kafka's clients. Null for a record without it,
    and for a header without a value.
    """
    result = F.filter(headers, lambda item: item["key"] == F.lit(key))
    return F.try_element_at(result, F.lit(-1))["value"]


@edge
def dead_letters(rows: DataFrame) -> DataFrame:
    """The bad records of a read with ``badRecords=null``, as rows to write to another topic.

    ``rows`` has the columns ``topic``, ``partition``, ``offset`` and ``_corrupt_record``. The result has the
    original bytes as ``value``, those of the log where it is damaged, and ``headers`` with the
    names that Kafka Connect gives to dead letters:
    ``__connect.errors.topic``, ``.partition``, ``.offset`` and ``.exception.message``. A binary or string
    column ``key`` is kept. A record whose key is the bad part fails the query: its value is not known.

    Raises ``OptionError`` (fatal) for rows without these columns.
    """
    needed = ("topic", "partition", "offset", "_corrupt_record")
    if missing := [name for name in needed if name not in rows.columns]:
        raise OptionError(
            f"dead_letters: the rows have no column {missing[0]}; read them with badRecords=null and "
            f".schema() that names {', '.join(needed)}"
        )
    reason = F.col("_corrupt_record.reason")
    facts = {
        "topic": F.col("topic"),
        "partition": F.col("partition").cast("string"),
        "offset": F.col("offset").cast("string"),
        "exception.message": reason,
    }
    headers = [
        F.struct(F.lit(f"__connect.errors.{name}").alias("key"), F.encode(text, "UTF-8").alias("value"))
        for name, text in facts.items()
    ]
    refusal = F.raise_error(
        F.concat(
            F.lit("dead_letters: the key of a record is bad, so its value is not known: "),
            F.concat_ws(" ", "topic", F.col("partition").cast("string"), F.col("offset").cast("string")),
            F.lit("; read the keys with keyFormat=binary"),
        )
    )
    value = F.when(reason.startswith("key: "), refusal).otherwise(F.col("_corrupt_record.bytes"))
    has_key = dict(rows.dtypes).get("key") in ("binary", "string")
    return rows.where(F.col("_corrupt_record").isNotNull()).select(
        *(["key"] if has_key else []), value.alias("value"), F.array(*headers).alias("headers")
    )


def _decode_column(form: str, function: str, column: Column | str, options: Mapping[str, str]) -> Column:
    raw = _check_options(function, options, _list_known(form, _OF_READS))
    parsed = ReadOptions.parse({**_NO_BROKER, "subscribePattern": ".*", "valueFormat": form, **raw})
    typed = _parse_typed(function, parsed.typed)
    if typed.bad_records is BadRecords.DROP:
        raise OptionError(f"{function}: badRecords=drop is for reads: a function keeps all rows; set null")
    fixed = fix_schemas(parsed)
    arrow_type = schema_in(typed.value, fixed["value"]).arrow_type
    task = Packed((function, TypedTask(typed, fixed), arrow_type))
    return _udf(lambda values: _values(task, values), spark_type(arrow_type), column)


def _values(packed: Packed[tuple[str, TypedTask, pa.DataType]], messages: pa.Array) -> pa.Array:
    """The values of one batch of messages, in a task."""
    function, task, arrow_type = packed.value
    found = MessageDecoder(task, task.options.value, arrow_type).messages(messages)
    bad = (found.reason_of >= 0).nonzero()[0]
    if len(bad) and task.options.bad_records is BadRecords.FAIL:
        row = int(bad[0])
        schema_id = int(found.schema_ids[row])
        of = f" (schema id {schema_id})" if schema_id >= 0 else ""
        raise CorruptDataError(
            f"{function}: row {row} of a batch cannot be decoded{of}: {found.reasons[found.reason_of[row]]}; "
            "to read on, set badRecords=null"
        )
    return found.column


def _encode_column(form: str, function: str, column: Column | str, options: Mapping[str, str]) -> Column:
    raw = _check_options(function, options, _list_known(form, _OF_WRITES))
    typed = _parse_typed(function, WriteOptions.parse({**_NO_BROKER, "valueFormat": form, **raw}).typed)
    rows = Packed((column_encoding(typed, typed.value, None, None),))
    return _udf(lambda values: _messages(rows, values), BinaryType(), column)


def _messages(packed: Packed[Any], values: pa.Array) -> pa.Array:
    """The messages of one batch of values, in a task."""
    import pyarrow as pa

    batch = pa.RecordBatch.from_arrays([values], ["value"])
    return TypedRows(packed.value).encoded(batch).column(0)


def _udf(function: Callable[[pa.Array], pa.Array], returns: DataType, column: Column | str) -> Column:
    return arrow_udf(edge(function), returns)(column)


def _list_known(form: str, options: tuple[Any, ...]) -> tuple[Any, ...]:
    return (*options, TypedOptions.value_message) if form == "protobuf" else options


def _check_options(function: str, options: Mapping[str, str], known: tuple[Any, ...]) -> dict[str, str]:
    """The options of a function. Raises ``OptionError`` for an option of something else."""
    names = {item.name.lower(): item.name for item in known}
    for name in options:
        if name.lower() not in names:
            close = close_matches(name.lower(), names, 1)
            hint = f"did you mean {names[close[0]]}?" if close else f"known are {', '.join(names.values())}"
            raise OptionError(f"{function}: unknown option {quote(name)}; {printable(hint)}")
    return dict(options)


def _parse_typed(function: str, typed: TypedOptions | None) -> TypedOptions:
    assert typed is not None
    assert typed.value.format != STRING
    value = typed.value
    by_id = value.version is not None and value.version.schema_id is not None
    if value.schema_text is None and value.subject is None and not by_id:
        raise OptionError(f"{function}: the schema is not known; set {_NAMED}")
    if typed.schema_id_from == "header":
        raise OptionError(
            f"{function}: schemaIdFrom=header is for reads and writes: a column has no headers; set prefix "
            "or none"
        )
    return typed
