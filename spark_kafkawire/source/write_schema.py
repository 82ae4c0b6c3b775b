"""The columns that can be written, and the errors for other columns."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from ..errors import LOG, OptionError, close_matches, quoted
from ..model import Generation

_TEXT: Final = (StringType(), BinaryType())
_HEADERS: Final = ArrayType(
    StructType([StructField("key", StringType()), StructField("value", BinaryType())])
)


@dataclass(frozen=True, slots=True)
class WriteSchema:
    """The columns of a write to brokers of one generation.

    ``columns`` are those that are stored or that choose the log, and the types they may have;
    ``stored`` those that are stored. ``ignored`` are columns of a read that do not choose where a row goes,
    so that a job can write the rows of a read as they are. Another column is an error, or left out with a
    warning where Spark's own connector leaves it out (``drops_others``).
    """

    generation: Generation
    columns: Mapping[str, tuple[DataType, ...]]
    stored: frozenset[str]
    ignored: tuple[str, ...]
    drops_others: bool = False

    def check(self, schema: StructType, *, topic_given: bool, typed: Container[str] = ()) -> None:
        """Check names and types of the columns to write. Columns that are ``typed`` may have any type.

        Raises ``OptionError`` (fatal) naming the column, its type and what it may be.
        """
        names = schema.fieldNames()
        for field in schema.fields:
            if field.name in self.ignored:
                continue
            if field.name not in self.columns:
                self._refuse(field)
            elif field.name not in typed and not self._fits(field):
                raise self._wrong_type(field)
            elif names.count(field.name) > 1:
                raise OptionError(f"schema: column {quoted(field.name)} appears twice; drop or rename one")
        if "value" not in names:
            raise OptionError(
                "schema: Required attribute 'value' not found; add the column, string or binary, with the "
                "message"
            )
        if not topic_given and "topic" not in names:
            raise OptionError(
                "topic option required when no 'topic' attribute is present. Use the topic option for "
                "setting a topic, or add a column"
            )

    def _fits(self, field: StructField) -> bool:
        return any(_fits(field.dataType, allowed) for allowed in self.columns[field.name])

    def _wrong_type(self, field: StructField) -> OptionError:
        allowed = " or ".join(each.simpleString() for each in self.columns[field.name])
        has_format = field.name in ("key", "value")
        return OptionError(
            f"schema: {field.name} attribute unsupported type {field.dataType.simpleString()}. "
            f"{field.name} must be a(n) {allowed}: cast it"
            + (f", or set {field.name}Format to the format of its messages" if has_format else "")
        )

    def _refuse(self, field: StructField) -> None:
        close = close_matches(field.name.lower(), self.columns, 1)
        hint = f"did you mean {quoted(close[0])}?" if close else "drop it or put it into the value."
        kind = field.dataType.simpleString()
        problem = f"schema: there is no column {quoted(field.name)} ({kind}) in Kafka {self.generation.value}"
        if not self.drops_others:
            raise OptionError(f"{problem}; {hint} Known are {', '.join(self.columns)}")
        LOG.warning("%s, it is left out; known are %s", problem, ", ".join(self.columns))


def _fits(given: DataType, allowed: DataType) -> bool:
    # What a type says of nulls does not count.
    if isinstance(allowed, ArrayType):
        return given.simpleString() == allowed.simpleString()
    return isinstance(given, type(allowed))


WRITE_SCHEMAS: Final[Mapping[Generation, WriteSchema]] = MappingProxyType(
    {
        Generation.V07: WriteSchema(
            generation=Generation.V07,
            columns={
                "key": _TEXT,
                "value": _TEXT,
                "topic": (StringType(),),
                "partition": (IntegerType(),),
                "broker": (IntegerType(),),
            },
            stored=frozenset({"value"}),
            ignored=("offset", "timestamp", "timestampType", "index", "nextOffset"),
        ),
        Generation.MODERN: WriteSchema(
            generation=Generation.MODERN,
            columns={
                "key": _TEXT,
                "value": _TEXT,
                "headers": (_HEADERS,),
                "topic": (StringType(),),
                "partition": (IntegerType(),),
                "timestamp": (TimestampType(),),
            },
            stored=frozenset({"key", "value", "headers", "timestamp"}),
            ignored=("offset", "timestampType"),
            drops_others=True,
        ),
    }
)
