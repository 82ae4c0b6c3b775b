"""Change data: messages of Debezium as rows of a table, the last row of each key, and a merge into a table.

from spark_kafkawire.changes import changes, latest_per_key, merge_changes
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Final, Literal

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ByteType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructType,
)
from pyspark.sql.window import Window

from .errors import OptionError, list_some, printable, quote

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

__all__ = ["changes", "latest_per_key", "merge_changes"]

#: Create, update, delete, read in a snapshot, truncate.
_OPS: Final = ("c", "u", "d", "r", "t")
#: Columns that ``changes`` adds to those of the row, and those of a version in a history.
_ADDED: Final = ("_op", "_deleted", "_sequence", "_ts", "_before")
_OF_VERSIONS: Final = ("_valid_from", "_valid_to", "_end_sequence")
#: The setting by which a merge adds columns to a table of Delta.
_EVOLVES: Final = "spark.databricks.delta.schema.autoMerge.enabled"
#: Fields of ``source`` that order the changes of a database: PostgreSQL, MySQL and MariaDB, SQL Server and
#: Db2, Oracle, and any other one. The first whose first field is there is taken.
_POSITIONS: Final = (
    ("lsn",),
    ("file", "pos", "row"),
    ("commit_lsn", "change_lsn", "event_serial_no"),
    ("scn",),
    ("ts_ms",),
)
#: Types of positions. The name of a binlog ends in its number, which grows beyond its zeros.
_POSITION_TYPES: Final[Mapping[str, Callable[[Column], Column]]] = {
    "lsn": lambda field: field.cast("bigint"),
    "file": lambda field: F.regexp_extract(field, r"([0-9]+)$", 1).cast("bigint"),
    "scn": lambda field: field.cast("decimal(38,0)"),
}
#: Debezium's default of ``topic.heartbeat.prefix``.
_HEARTBEATS: Final = "__debezium-heartbeat"
#: Topics of Debezium that hold no rows, by fields of their values.
_NO_ROWS: Final = (
    ({"status", "id", "event_count"}, "transaction metadata"),
    ({"ddl", "tableChanges"}, "schema changes"),
    ({"prefix", "content"}, "messages of pg_logical_emit_message"),
)
#: Numbers of calls, because two observations of one query need two names.
_CALLS: Final = itertools.count(1)


# --- changes: messages of Debezium as rows ---


def changes(
    rows: DataFrame,
    *,
    before: bool = False,
    position: Sequence[str] | None = None,
    unavailable: str | None = "__debezium_unavailable_value",
) -> DataFrame:
    """Rows of tables from messages of Debezium, as a batch or a stream.

    ``rows`` are those of a read with ``valueFormat`` ``avro``, ``protobuf`` or ``json``, with the columns
    ``topic``, ``partition`` and ``offset``. The values are Debezium's envelope, the same in ``payload``
    (Kafka's JSON with ``schemas.enable``), or rows that ``ExtractNewRecordState`` unwrapped with
    ``delete.tombstone.handling.mode=rewrite``. The result has the columns of ``after``, or of ``before`` for
    deletes, and:

    =============  =========  ===================================================================
    ``_op``        string     ``c`` create, ``u`` update, ``d`` delete, ``r`` snapshot, ``t`` truncate
    ``_deleted``   boolean    true for deletes
    ``_sequence``  struct     the order of changes: the position in the database's log, then ``topic``,
                              ``partition`` and ``offset``
    ``_ts``        timestamp  time of the change in the database
    ``_before``    struct     with ``before=True``, the row before the change
    =============  =========  ===================================================================

    ``position`` names fields of ``source`` that order the changes, in place of those that the database has;
    an empty one leaves the order to the offsets. Tombstones and heartbeats are left out. Spark observes their
    counts as ``kafkawire_changes_N``, in the progress of a stream.

    Raises ``OptionError`` (fatal) for values of another form. A message fails the query if it has no
    change or no row, or could not be decoded (``_corrupt_record``). So does a column with the text
    ``unavailable``: Debezium writes it for a value that PostgreSQL did not log.
    """
    message = _Message.of(rows)
    op = message.op
    is_tombstone = F.col("value").isNull()
    is_heartbeat = F.col("topic").startswith(_HEARTBEATS) & ~is_tombstone & op.isNull()
    name = f"kafkawire_changes_{next(_CALLS)}"
    counts = (F.count_if(is_tombstone).alias("tombstones"), F.count_if(is_heartbeat).alias("heartbeats"))
    # The value of a message that could not be decoded is null, too.
    is_damaged = F.col("_corrupt_record").isNotNull() if "_corrupt_record" in rows.columns else F.lit(False)
    words = "it could not be decoded; leave such rows out with where('_corrupt_record IS NULL')"
    is_change = F.when(is_damaged, _refusal(message.place, words))
    is_change = is_change.when(is_tombstone | is_heartbeat, False)
    is_change = is_change.when(op.isNull() | ~op.isin(*_OPS), _no_change(message))
    if not message.is_unwrapped:
        for row, ops in (("after", ("c", "u", "r")), ("before", ("d",))):
            words = f" and no {row}: log the table's key by REPLICA IDENTITY, and name {row} in .schema()"
            is_change = is_change.when(
                op.isin(*ops) & message.root[row].isNull(), _refusal(message.place, "it has op ", op, words)
            )
    if unavailable is not None:
        for field in message.row.fields:
            if isinstance(field.dataType, StringType):
                text = (
                    f"column {printable(field.name)} is unavailable: set REPLICA IDENTITY FULL for the table"
                )
                is_change = is_change.when(
                    message.column(field.name) == F.lit(unavailable), _refusal(message.place, text)
                )
    columns = {field.name: message.column(field.name) for field in message.row.fields}
    if clashes := [name for name in columns if name.lower() in (*_ADDED, *_OF_VERSIONS)]:
        raise OptionError(f"changes: the table has a column {printable(clashes[0])}, which changes adds, too")
    columns |= {
        "_op": op,
        "_deleted": op == "d",
        "_sequence": message.sequence(position),
        "_ts": message.ts(rows),
    }
    if before:
        if message.is_unwrapped:
            raise OptionError(
                "changes: unwrapped values have no row before the change: leave before=True out"
            )
        columns["_before"] = message.root["before"]
    observed = rows.observe(name, *counts).where(is_change.otherwise(True))
    return observed.select(*(column.alias(name) for name, column in columns.items()))


@dataclass(frozen=True, slots=True)
class _Message:
    """A message of a change: ``type`` is that of ``root``, and ``row`` that of the table's row."""

    root: Column
    type: StructType
    row: StructType
    is_unwrapped: bool

    @classmethod
    def of(cls, rows: DataFrame) -> _Message:
        """Values of these rows. Raises ``OptionError`` if they are no changes."""
        if missing := [
            name for name in ("value", "topic", "partition", "offset") if name not in rows.columns
        ]:
            raise OptionError(
                f"changes: the rows have no column {missing[0]}: read them with all columns of Kafka"
            )
        root, result = F.col("value"), rows.schema["value"].dataType
        if isinstance(result, StructType) and "payload" in result.names and "op" not in result.names:
            root, result = root["payload"], result["payload"].dataType
        if not isinstance(result, StructType):
            raise OptionError(
                f"changes: value has the type {printable(result.simpleString())}: read the topic with "
                "valueFormat=avro, protobuf or json"
            )
        for fields, what in _NO_ROWS:
            if fields <= set(result.names):
                raise OptionError(
                    f"changes: the values are {what} and no rows: subscribe to topics of tables"
                )
        if "op" in result.names and "after" in result.names:
            row = result["after"].dataType
            if not isinstance(row, StructType):
                raise OptionError(f"changes: after has the type {row.simpleString()}, and must be a struct")
            if "before" not in result.names:
                raise OptionError(
                    "changes: the values have no before, which has the keys of deletes: name it in .schema()"
                )
            return cls(root, result, row, is_unwrapped=False)
        if "__deleted" in result.names:
            row = StructType([field for field in result.fields if not field.name.startswith("__")])
            return cls(root, result, row, is_unwrapped=True)
        if "__op" in result.names:
            raise OptionError(
                "changes: unwrapped values have no __deleted, so deletes are lost: set "
                "delete.tombstone.handling.mode=rewrite in ExtractNewRecordState, or name __deleted in "
                ".schema()"
            )
        raise OptionError(
            "changes: the values are no changes of Debezium: they have neither op and after nor __deleted, "
            f"but {printable(list_some(result.names, 8))}"
        )

    @property
    def op(self) -> Column:
        """The operation; unwrapped values without ``__op`` have two, and none without ``__deleted``."""
        if not self.is_unwrapped:
            return self.root["op"]
        deleted = self.root["__deleted"].cast("string")
        if "__op" in self.type.names:
            return F.when(deleted.isNotNull(), self.root["__op"])
        return F.when(deleted == "true", "d").when(deleted == "false", "u")

    @property
    def place(self) -> Column:
        """Words for an error."""
        return F.format_string("changes: topic %s partition %s offset %s: ", "topic", "partition", "offset")

    def column(self, name: str) -> Column:
        if self.is_unwrapped:
            return self.root[name]
        before = self.type["before"].dataType
        kept = (
            self.root["before"][name]
            if isinstance(before, StructType) and name in before.names
            else F.lit(None)
        )
        return F.when(self.root["op"] == "d", kept).otherwise(self.root["after"][name])

    def source(self, name: str) -> Column | None:
        """A field of ``source``, if it is there."""
        if self.is_unwrapped:
            result = [item for item in (f"__{name}", f"__source_{name}") if item in self.type.names]
            return self.root[result[0]] if result else None
        source = self.type["source"].dataType if "source" in self.type.names else None
        return self.root["source"][name] if isinstance(source, StructType) and name in source.names else None

    def sequence(self, position: Sequence[str] | None) -> Column:
        if position is None:
            names = next((item for item in _POSITIONS if self.source(item[0]) is not None), ())
            result = {name: field for name in names if (field := self.source(name)) is not None}
        else:
            result = {}
            for name in position:
                if (field := self.source(name)) is None:
                    raise OptionError(f"changes: source has no field {quote(name)}, which position names")
                result[name] = field
        typed = [
            (_POSITION_TYPES[name](field) if name in _POSITION_TYPES else field).alias(name)
            for name, field in result.items()
        ]
        return F.struct(*typed, "topic", "partition", "offset")

    def ts(self, rows: DataFrame) -> Column:
        """The time of the change; that of the record if there is none."""
        times = []
        if (us := self.source("ts_us")) is not None:
            times.append(F.timestamp_micros(us))
        if (ms := self.source("ts_ms")) is not None:
            times.append(F.timestamp_millis(ms))
        if "timestamp" in rows.columns:
            times.append(F.col("timestamp"))
        return F.coalesce(*times) if times else F.lit(None).cast("timestamp")


def _no_change(message: _Message) -> Column:
    """An error for a value that is no change of a row: topics are named by mistake."""
    what = F.coalesce(
        F.when(F.col("topic").endswith(".transaction"), "transaction metadata"),
        F.when(message.op.isNull(), "schema changes, or no topic of Debezium"),
        F.concat(F.lit("a message with op "), message.op),
    )
    return _refusal(message.place, "no change of a row, but ", what, "; subscribe to topics of tables")


def _refusal(*parts: Column | str) -> Column:
    """A condition that fails the query with these words."""
    words = [F.lit(part) if isinstance(part, str) else part for part in parts]
    return F.raise_error(F.concat(*words)).cast("boolean")


# --- latest_per_key: the last row of each key ---


def latest_per_key(
    rows: DataFrame,
    keys: str | Sequence[str],
    *,
    order_by: str | Sequence[str],
    tombstones: Literal["drop", "keep"] = "drop",
) -> DataFrame:
    """The last row of each key, as log compaction leaves it.

    ``keys`` and ``order_by`` name columns: ``"key"`` and ``"offset"`` for records of Kafka, the table's key
    and ``"_sequence"`` for ``changes``. Each task folds its rows before the shuffle. A key whose last row is
    a tombstone (``_deleted``, or a null ``value``) has no row, with ``tombstones="keep"`` that one.

    Raises ``OptionError`` (fatal) for columns that are not there, and for a stream: ``foreachBatch`` has
    batches. A row without a key fails the query.
    """
    names = columns_by_name("latest_per_key", rows, keys)
    order = columns_by_name("latest_per_key", rows, order_by)
    if tombstones not in ("drop", "keep"):
        raise OptionError(f"latest_per_key: tombstones is 'drop' or 'keep', not {quote(tombstones)}")
    if rows.isStreaming:
        raise OptionError("latest_per_key: the rows are a stream: call it in foreachBatch, with the batch")
    others = [name for name in rows.columns if name not in names]
    latest = Window.partitionBy(*map(_col, names)).orderBy(*(_col(name).desc() for name in order))
    has_key = reduce(lambda one, other: one | other, (_col(name).isNotNull() for name in names))
    refused = _refusal(f"latest_per_key: a row has no key in {printable(', '.join(names))}")
    # Of a row number that is limited to 1, Spark keeps one row per key in each task before the shuffle. An
    # aggregation, max_by, does so, too, but copies each row, and loses rows whose order is null.
    number = "_kafkawire_row_number"
    numbered = rows.withColumn(number, F.row_number().over(latest)).where(F.col(number) == 1).drop(number)
    result = numbered.where(F.when(has_key, True).otherwise(refused))
    if tombstones == "keep":
        return result
    if "_deleted" in others:
        return result.where(~F.col("_deleted").eqNullSafe(True))
    if "value" in others:
        return result.where(F.col("value").isNotNull())
    raise OptionError("latest_per_key: the rows have neither _deleted nor value: set tombstones='keep'")


def columns_by_name(function: str, rows: DataFrame, names: str | Sequence[str]) -> list[str]:
    """Columns of the rows by their names, whatever the case, as Spark finds them."""
    known = {name.lower(): name for name in rows.columns}
    asked = [names] if isinstance(names, str) else list(names)
    if missing := [name for name in asked if name.lower() not in known]:
        raise OptionError(
            f"{function}: the rows have no column {quote(missing[0])}, but "
            f"{printable(list_some(rows.columns, 8))}"
        )
    if not asked:
        raise OptionError(f"{function}: name one column or more")
    return [known[name.lower()] for name in asked]


def schema_of_table(function: str, session: SparkSession, table: str) -> StructType:
    """The columns of a table. Raises ``OptionError`` if there is no such table."""
    try:
        return session.table(table).schema
    except AnalysisException as error:
        if error.getCondition() != "TABLE_OR_VIEW_NOT_FOUND":
            raise
        raise OptionError(
            f"{function}: there is no table {printable(table)}: create it with the columns of the rows"
        ) from error


def _quote_name(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def _col(name: str) -> Column:
    return F.col(_quote_name(name))


# --- merge_changes: rows of changes into a table ---


def merge_changes(
    table: str,
    keys: str | Sequence[str],
    *,
    deletes: Literal["delete", "mark"] = "delete",
    history: bool = False,
    truncates: Literal["fail", "ignore", "apply"] = "fail",
) -> Callable[[DataFrame, int], None]:
    """A function for ``foreachBatch`` that merges rows of ``changes`` into a table of Delta or Iceberg.

    It folds a batch to the last change of each key and runs one ``MERGE INTO``. A change that is older than
    its row changes nothing, nor does a batch that comes again. The table exists. It has the columns of the
    rows and ``_sequence``, and gets ``_op``, ``_ts`` and the others of ``changes`` if it has them, too.

    ``deletes="mark"`` keeps deleted rows, with ``d`` in the table's column ``_op``. ``history=True`` keeps a
    row for each version, from ``_valid_from`` to ``_valid_to``, and the sequence that ended it,
    ``_end_sequence``; both are null in the version that is valid. Truncates fail the query; with
    ``truncates="apply"`` they delete or mark all rows that are older.

    Raises ``OptionError`` (fatal) when a batch comes whose columns are not those of the table. A new column
    is an error, too, unless Delta is set to add it (``spark.databricks.delta.schema.autoMerge.enabled``).
    """
    if deletes not in ("delete", "mark"):
        raise OptionError(f"merge_changes: deletes is 'delete' or 'mark', not {quote(deletes)}")
    if truncates not in ("fail", "ignore", "apply"):
        raise OptionError(f"merge_changes: truncates is 'fail', 'ignore' or 'apply', not {quote(truncates)}")
    if history and (deletes == "mark" or truncates == "apply"):
        raise OptionError(
            "merge_changes: a history keeps all versions: leave deletes and truncates='apply' out"
        )
    return _Merge(
        table, (keys,) if isinstance(keys, str) else tuple(keys), deletes == "mark", history, truncates
    )


@dataclass(frozen=True, slots=True)
class _Merge:
    """The function that ``merge_changes`` makes: Spark Connect pickles it."""

    table: str
    keys: tuple[str, ...]
    marks: bool
    history: bool
    truncates: str

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Merge a batch; its id does not matter, because rows have an order of their own."""
        del batch_id
        keys = columns_by_name("merge_changes", batch, self.keys)
        columns_by_name("merge_changes", batch, ("_op", "_deleted", "_sequence", "_ts"))
        columns = self._columns(batch)
        kept = self._truncate(batch) if self.truncates == "apply" else batch
        self._merge(kept.where(self._is_row(keys)), keys, columns)

    def _is_row(self, keys: Sequence[str]) -> Column:
        """A condition that leaves truncates out, and fails for a row without a key."""
        truncate = F.col("_op") == "t"
        if self.truncates == "fail":
            words = f"merge_changes: the topic truncates {printable(self.table)} ("
            advice = "); set truncates='apply' or 'ignore'"
            first = F.when(truncate, _refusal(words, F.to_json(F.col("_sequence")), advice))
        else:
            first = F.when(truncate, False)
        for name in keys:
            words = f"merge_changes: a change of {printable(self.table)} has no key {printable(name)} ("
            first = first.when(_col(name).isNull(), _refusal(words, F.to_json(F.col("_sequence")), ")"))
        return first.otherwise(True)

    def _merge(self, rows: DataFrame, keys: Sequence[str], columns: Sequence[str]) -> None:
        if self.history:
            source = self._versions(rows, keys)
        else:
            source = latest_per_key(rows, keys, order_by="_sequence", tombstones="keep")
        # A merge reads its source twice, and must find the same rows.
        source = source.persist()
        try:
            self._run(source, self._clauses(keys, columns))
        finally:
            source.unpersist()

    def _clauses(self, keys: Sequence[str], columns: Sequence[str]) -> str:
        """The statement after the words that name the table and the rows."""
        same = " AND ".join(f"t.{_quote_name(key)} = c.{_quote_name(key)}" for key in keys)
        names = ", ".join(map(_quote_name, columns))
        values = ", ".join(f"c.{_quote_name(name)}" for name in columns)
        insert = f"THEN INSERT ({names}) VALUES ({values})"
        if self.history:
            return (
                f"ON c._closes AND t._end_sequence IS NULL AND {same} "
                "WHEN MATCHED THEN UPDATE SET _valid_to = c._ts, _end_sequence = c._sequence "
                f"WHEN NOT MATCHED AND NOT c._closes {insert}"
            )
        newer = "(t._sequence IS NULL OR c._sequence > t._sequence)"
        # A delete knows the row's other columns only with REPLICA IDENTITY FULL.
        deleted = (
            f"UPDATE SET {_assign_columns([name for name in columns if name in _ADDED])}"
            if self.marks
            else "DELETE"
        )
        return (
            f"ON {same} WHEN MATCHED AND {newer} AND c._deleted THEN {deleted} "
            f"WHEN MATCHED AND {newer} THEN UPDATE SET {_assign_columns(columns)} "
            f"WHEN NOT MATCHED {'' if self.marks else 'AND NOT c._deleted '}{insert}"
        )

    def _versions(self, rows: DataFrame, keys: Sequence[str]) -> DataFrame:
        """New versions, and for each key a row that ``_closes`` the version which the table has."""
        known = F.max(F.coalesce("_end_sequence", "_sequence")).alias("_known")
        changed = rows.select(*map(_col, keys)).distinct()
        table = rows.sparkSession.table(self.table).join(changed, list(keys), "left_semi")
        # A view of a query on a table of Iceberg cannot be planned by a merge into that table.
        newest = table.groupBy(*map(_col, keys)).agg(known).localCheckpoint()
        fresh = rows.join(newest, list(keys), "left").where("_known IS NULL OR _sequence > _known")
        in_order = Window.partitionBy(*map(_col, keys)).orderBy("_sequence")
        versions = fresh.withColumns(
            {
                "_valid_from": F.col("_ts"),
                "_valid_to": F.lead("_ts").over(in_order),
                "_end_sequence": F.lead("_sequence").over(in_order),
                "_is_first": F.row_number().over(in_order) == 1,
            }
        )
        closes = F.when(F.col("_is_first"), F.array(F.lit(True), F.lit(False))).otherwise(
            F.array(F.lit(False))
        )
        return versions.withColumn("_closes", F.explode(closes)).where("_closes OR NOT _deleted")

    def _truncate(self, batch: DataFrame) -> DataFrame:
        """Empty the table where the batch says so. Returns the rows that came afterwards."""
        newest = batch.where("_op = 't'").orderBy(F.desc("_sequence")).limit(1)
        truncate = newest.select("_op", "_sequence").localCheckpoint()
        if truncate.isEmpty():
            return batch
        done = f"UPDATE SET {_assign_columns(['_op', '_sequence'])}" if self.marks else "DELETE"
        self._run(truncate, f"ON t._sequence < c._sequence WHEN MATCHED THEN {done}")
        after = truncate.select(F.col("_sequence").alias("_truncated"))
        return batch.crossJoin(F.broadcast(after)).where("_sequence >= _truncated").drop("_truncated")

    def _run(self, source: DataFrame, clauses: str) -> None:
        view = f"kafkawire_changes_{uuid.uuid4().hex}"
        source.createOrReplaceTempView(view)
        try:
            source.sparkSession.sql(f"MERGE INTO {self.table} t USING {view} c {clauses}").collect()
        finally:
            source.sparkSession.catalog.dropTempView(view)

    def _columns(self, batch: DataFrame) -> list[str]:
        """The columns that the merge fills. Raises ``OptionError`` if those of the table differ."""
        table = schema_of_table("merge_changes", batch.sparkSession, self.table)
        known = {field.name.lower(): field.dataType for field in table.fields}
        ours = {field.name.lower(): field for field in batch.schema.fields}
        needed = ("_sequence", *(("_op",) if self.marks else ()), *(_OF_VERSIONS if self.history else ()))
        for name in needed:
            if name not in known:
                raise OptionError(
                    f"merge_changes: the table {printable(self.table)} has no column {name}: add it"
                )
        added = [name for name in ours if name not in known and name not in (*_ADDED, *_OF_VERSIONS)]
        removed = [name for name in known if name not in ours and name not in (*_ADDED, *_OF_VERSIONS)]
        if removed:
            raise self._differs(
                batch,
                f"has no column {printable(removed[0])} any more, which table {printable(self.table)} has",
                "drop it from the table, or add it to the changes as null",
            )
        for name in (name for name in ours if name in known):
            if not _widens(ours[name].dataType, known[name]):
                raise self._differs(
                    batch,
                    f"has column {printable(name)} as {printable(ours[name].dataType.simpleString())}, and "
                    f"table {printable(self.table)} as {printable(known[name].simpleString())}",
                    "change the type in the table, or cast it in the changes",
                )
        if added and batch.sparkSession.conf.get(_EVOLVES, "false") != "true":
            new = ours[added[0]]
            raise self._differs(
                batch,
                f"has a new column {printable(new.name)} ({printable(new.dataType.simpleString())}), which "
                f"table {printable(self.table)} lacks",
                f"add it by ALTER TABLE, drop it from the changes, or let Delta add it: set {_EVOLVES}=true",
            )
        own = _OF_VERSIONS if self.history else ()
        return [*(field.name for name, field in ours.items() if name in known or name in added), *own]

    def _differs(self, batch: DataFrame, what: str, advice: str) -> OptionError:
        """An error about a column: the topic is that of a row of the batch."""
        row = batch.select("_sequence.topic").first()
        location = "a batch without rows" if row is None else f"topic {printable(row[0])}"
        return OptionError(f"merge_changes: {location} {what}; {advice}")


def _assign_columns(columns: Sequence[str]) -> str:
    return ", ".join(f"{_quote_name(name)} = c.{_quote_name(name)}" for name in columns)


_INTEGERS: Final = (ByteType, ShortType, IntegerType, LongType)


def _widens(ours: DataType, table: DataType) -> bool:
    """True if the table's type holds all values of ours."""
    if isinstance(ours, _INTEGERS) and isinstance(table, _INTEGERS):
        return _INTEGERS.index(type(ours)) <= _INTEGERS.index(type(table))
    if isinstance(ours, DecimalType) and isinstance(table, DecimalType):
        grown = table.scale - ours.scale
        return grown >= 0 and table.precision - ours.precision >= grown
    if isinstance(ours, FloatType) and isinstance(table, DoubleType):
        return True
    return ours.simpleString() == table.simpleString()
