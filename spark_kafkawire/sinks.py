"""Tables that streams append to: each batch once, and one stream of many topics into many tables.

from spark_kafkawire.sinks import Route, append_once, fan_out
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from pyspark import inheritable_thread_target
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

from .changes import columns_by_name, schema_of_table
from .errors import LOG, DeliveryError, OptionError, list_some, printable, quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Route", "append_once", "fan_out"]

#: The local property in which Spark keeps the id of a query, which is that of its checkpoint.
_QUERY_ID: Final = "sql.streaming.queryId"
#: The newest commits of a table of Delta among which a batch is looked for; Delta itself looks at all.
_COMMITS_READ: Final = 50
#: Settings by which Spark makes few large files of a batch.
_OF_FILES: Final = {
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
}
_FILE_BYTES: Final = "spark.sql.adaptive.advisoryPartitionSizeInBytes"
#: Options that tell batches apart.
_OWN_OPTIONS: Final = ("txnappid", "txnversion", "usermetadata", "snapshot-property.kafkawire.query")

#: A function for ``foreachBatch``.
ForBatch = Callable[["DataFrame", int], object]


# --- append_once: each batch of a stream once in a table ---


def append_once(
    table: str,
    *,
    format: Literal["delta", "iceberg", "parquet"],
    name: str | None = None,
    file_bytes: int | None = 128 << 20,
    options: Mapping[str, str] | None = None,
) -> Append:
    """A function for ``foreachBatch`` that appends each batch once, also one that comes again.

    A batch is known by its number and by the id of the query, which the checkpoint has. Delta keeps both with
    the rows in one commit (``txnAppId``, ``txnVersion``), and Iceberg in the properties of the snapshot: the
    function looks there before it writes. The table exists. With ``format="parquet"``, ``table`` is a folder,
    in which each batch has a folder ``query=ID/batch=NUMBER`` that a repetition replaces.

    ``name`` takes the place of the query's id. Spark Connect needs it, and each checkpoint one of its own.
    Rows are shuffled into files of about ``file_bytes``, as their shuffle counts bytes; with None each task
    writes a file. ``options`` are those of the format's writer.

    Raises ``OptionError`` (fatal) when a batch comes that is older than the newest one of the query in the
    table, or that lacks columns of the table.
    """
    if format not in ("delta", "iceberg", "parquet"):
        raise OptionError(f"append_once: format is 'delta', 'iceberg' or 'parquet', not {quote(format)}")
    if name is not None and not name.strip():
        raise OptionError("append_once: name is empty: give one, or leave it out")
    if file_bytes is not None and file_bytes < 1:
        raise OptionError(f"append_once: file_bytes is above zero, not {file_bytes}")
    for option in options or ():
        if option.lower() in _OWN_OPTIONS:
            raise OptionError(f"append_once: option {option} is set by append_once itself; leave it out")
    return Append(table, format, name, file_bytes, dict(options or {}))


@dataclass(frozen=True, slots=True)
class Append:
    """The function that ``append_once`` makes: Spark Connect pickles it."""

    table: str
    format: str
    name: str | None
    file_bytes: int | None
    options: Mapping[str, str] = field(default_factory=dict)

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Append a batch, unless the table has it."""
        session, query = batch.sparkSession, self.name or _query_of(batch)
        if self.format == "parquet":
            self._replace(batch, f"{self.table}/query={query}", batch_id)
            return
        self._check_columns(batch)
        newest = self.newest(session, query)
        if newest is not None and newest[0] >= batch_id:
            if newest[0] > batch_id:
                raise self._is_older(batch_id, query, f"has batch {newest[0]}")
            LOG.info(
                "append_once: %s has batch %d of query %s; it is not appended again",
                printable(self.table),
                batch_id,
                printable(query),
            )
            return
        if self.format == "iceberg" and newest is None and batch_id > 0:
            self._check_history(session, query, batch_id)
        self._files(batch).writeTo(self.table).options(
            **self.options, **self._marks(query, batch_id)
        ).append()

    def newest(self, session: SparkSession, query: str) -> tuple[int, int] | None:
        """The number of the query's newest batch in the table, and its rows, if the table knows one."""
        if self.format == "delta":
            commits = session.sql(f"DESCRIBE HISTORY {self.table} LIMIT {_COMMITS_READ}")
            batch = F.get_json_object("userMetadata", "$.kafkawire.batch")
            of_query = F.get_json_object("userMetadata", "$.kafkawire.query")
            rows = "operationMetrics['numOutputRows']"
        else:
            # The catalog of a session may keep what it has read.
            session.catalog.refreshTable(self.table)
            # Snapshots of other branches, and those from which the table was rolled back, do not count.
            current = session.table(f"{self.table}.history").where("is_current_ancestor")
            commits = session.table(f"{self.table}.snapshots").join(current, "snapshot_id", "left_semi")
            batch, of_query = F.expr("summary['kafkawire.batch']"), F.expr("summary['kafkawire.query']")
            rows = "summary['added-records']"
        result = (
            commits.where(of_query == query)
            .select(batch.cast("bigint").alias("batch"), F.expr(f"bigint({rows})").alias("rows"))
            .orderBy(F.desc("batch"))
            .first()
        )
        return None if result is None else (result.batch, result.rows or 0)

    def _marks(self, query: str, batch_id: int) -> dict[str, str]:
        """Options of a write, by which its commit names the batch."""
        if self.format == "delta":
            noted = json.dumps({"kafkawire": {"query": query, "batch": batch_id}})
            return {"txnAppId": query, "txnVersion": str(batch_id), "userMetadata": noted}
        location = "snapshot-property.kafkawire"
        return {f"{location}.query": query, f"{location}.batch": str(batch_id)}

    def _check_columns(self, batch: DataFrame) -> None:
        """Raise ``OptionError`` for a column that would be null, because the rows lack it."""
        ours = {name.lower() for name in batch.columns}
        for name in schema_of_table("append_once", batch.sparkSession, self.table).names:
            if name.lower() not in ours:
                raise OptionError(
                    f"append_once: table {printable(self.table)} has column {printable(name)}, which the "
                    "rows lack: add it to the rows, as null if it is to be null"
                )

    def _check_history(self, session: SparkSession, query: str, batch_id: int) -> None:
        """Raise ``OptionError`` if the snapshot of this batch may have expired."""
        snapshots = session.table(f"{self.table}.snapshots")
        known = snapshots.select(F.col("snapshot_id").alias("parent_id"))
        if snapshots.where("parent_id IS NOT NULL").join(known, "parent_id", "left_anti").isEmpty():
            return
        raise OptionError(
            f"append_once: table {printable(self.table)} has no snapshot of query {printable(query)}, and "
            f"old ones have expired, so it is not known whether it has batch {batch_id}: compare its rows "
            "with the topic, and start the query with a new checkpoint at the offsets that follow"
        )

    def _replace(self, batch: DataFrame, folder: str, batch_id: int) -> None:
        try:
            batch.sparkSession.read.text(f"{folder}/batch={batch_id + 1}").schema  # noqa: B018
        except AnalysisException as error:
            if error.getCondition() != "PATH_NOT_FOUND":
                raise
        else:
            raise self._is_older(batch_id, folder.rpartition("=")[2], f"has batch {batch_id + 1}")
        writer = self._files(batch).write.mode("overwrite").options(**self.options)
        writer.parquet(f"{folder}/batch={batch_id}")

    def _files(self, batch: DataFrame) -> DataFrame:
        """The rows, in as many tasks as there are to be files."""
        if self.file_bytes is None:
            return batch
        for name, value in {**_OF_FILES, _FILE_BYTES: str(self.file_bytes)}.items():
            batch.sparkSession.conf.set(name, value)
        return batch.hint("rebalance")

    def _is_older(self, batch_id: int, query: str, found: str) -> OptionError:
        return OptionError(
            f"append_once: {printable(self.table)} {found} of query {printable(query)}, and batch {batch_id} "
            "comes after it: the checkpoint is an older copy, or a new one with the name of another; put the "
            "newest one back, or give the new one another name"
        )


def _query_of(batch: DataFrame) -> str:
    """The id of the streaming query that calls. Raises ``OptionError`` where it is not known."""
    # Spark Connect has no such context.
    context = getattr(batch.sparkSession, "sparkContext", None)
    query = None if context is None else context.getLocalProperty(_QUERY_ID)
    if not query:
        raise OptionError(
            "append_once: Spark does not say here which query calls: give name=, another one for each "
            "checkpoint"
        )
    return str(query)


# --- fan_out: a stream of many topics into many tables ---


@dataclass(frozen=True, slots=True)
class Route:
    """A table that ``fan_out`` writes to: ``prepare`` makes its rows of those of Kafka, and ``write`` is a
    function for ``foreachBatch``, as ``append_once`` and ``merge_changes`` make them."""

    write: ForBatch
    prepare: Callable[[DataFrame], DataFrame] | None = None

    @property
    def table(self) -> str | None:
        """The table, if the function has one."""
        result = getattr(self.write, "table", None)
        return result if isinstance(result, str) else None

    def take(self, rows: DataFrame, batch_id: int) -> None:
        """Write these rows."""
        self.write(rows if self.prepare is None else self.prepare(rows), batch_id)


def fan_out(
    routes: Mapping[Any, Route | ForBatch],
    *,
    by: str = "topic",
    others: Route | ForBatch | None = None,
    parallel: int = 8,
) -> FanOut:
    """A function for ``foreachBatch`` that splits a batch by a column and writes the parts side by side.

    The keys of ``routes`` are values of the column ``by``, or tuples of several: names of topics, or numbers
    if ``by`` is ``"valueSchemaId"``. The batch is read once and kept until all parts are written, at most
    ``parallel`` at a time. Values without a route go to ``others``; without one they fail the batch.

    If a table fails, the others are written to their end, and the batch fails with its name. The batch comes
    again with the query's next start: functions that write a batch once do not double it.

    Raises ``OptionError`` (fatal) for two routes into one table: the second would be taken for a repetition.
    """
    made = {
        key if isinstance(key, tuple) else (key,): route if isinstance(route, Route) else Route(route)
        for key, route in routes.items()
    }
    rest = Route(others) if others is not None and not isinstance(others, Route) else others
    if not made:
        raise OptionError("fan_out: routes is empty: name a topic and its table")
    if parallel < 1:
        raise OptionError(f"fan_out: parallel is above zero, not {parallel}")
    values = [value for key in made for value in key]
    if repeated := [value for value in values if values.count(value) > 1]:
        raise OptionError(f"fan_out: {quote(repeated[0])} has two routes: give it one")
    tables = [route.table.lower() for route in (*made.values(), *([rest] if rest else ())) if route.table]
    if repeated := [table for table in tables if tables.count(table) > 1]:
        raise OptionError(
            f"fan_out: table {quote(repeated[0])} has two routes: name both topics in one, as a tuple"
        )
    return FanOut(made, by, rest, parallel)


@dataclass(frozen=True, slots=True)
class FanOut:
    """The function that ``fan_out`` makes."""

    routes: Mapping[tuple[Any, ...], Route]
    by: str
    others: Route | None
    parallel: int

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Write all parts of a batch. Raises ``DeliveryError`` for the first that fails."""
        [by] = columns_by_name("fan_out", batch, self.by)
        kept = batch.persist()
        try:
            # This reads the batch, so that the parts do not.
            values = [row[0] for row in kept.select(by).distinct().collect()]
            self._write(kept, by, self._parts(values), batch_id)
        finally:
            kept.unpersist()

    def _parts(self, values: list[Any]) -> list[tuple[list[Any], Route]]:
        """Values of the batch, and their route. Raises ``OptionError`` for values without one."""
        parts = [([item for item in values if item in key], route) for key, route in self.routes.items()]
        left = [item for item in values if not any(item in key for key in self.routes)]
        if left and self.others is None:
            raise OptionError(
                f"fan_out: {self.by} {printable(list_some(left, 8))} has no route: add one, or others="
            )
        if self.others is not None:
            parts.append((left, self.others))
        return [(result, route) for result, route in parts if result]

    def _write(self, batch: DataFrame, by: str, parts: list[tuple[list[Any], Route]], batch_id: int) -> None:
        def write(part: tuple[list[Any], Route]) -> Exception | None:
            values, route = part
            is_of_part = F.lit(False)
            for value in values:
                is_of_part |= F.col(by).eqNullSafe(F.lit(value))
            try:
                route.take(batch.where(is_of_part), batch_id)
            except Exception as error:
                return error
            return None

        # The threads have the properties of this one, such as the id of the query.
        task = inheritable_thread_target(batch.sparkSession)(write)
        with ThreadPoolExecutor(min(self.parallel, len(parts) or 1)) as pool:
            results = list(pool.map(task, parts))
        for (values, route), error in zip(parts, results, strict=True):
            if error is not None:
                table = f"table {printable(route.table)}" if route.table else "a table"
                failed = sum(item is not None for item in results)
                raise DeliveryError(
                    f"fan_out: {table} ({self.by} {printable(list_some(values, 8))}) was not written in "
                    f"batch {batch_id}: {_words(error)} ({failed} of {len(parts)} tables failed)"
                ) from error


def _words(error: Exception) -> str:
    """Words of an error, without the places in a JVM."""
    lines = (line.strip() for line in str(error).splitlines())
    return printable(" ".join(line for line in lines if line and not line.startswith("at ")))
