"""What ``ingest`` writes: the columns of messages, values decoded, in one folder for each batch.

OUTPUT/batch=7/...                        a batch that is whole; readers see a column ``batch``
OUTPUT/batch=7/_plan                      the plan that it was written by; Spark's readers pass over it
OUTPUT/_kafkawire/unfinished/7-ATTEMPT    one that is being written; Spark's readers pass over it

The plan is the first file of an attempt. So where it is missing somebody has removed the attempt, of
which some tasks may have been done by then; and a batch that has another one is another run's.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from pyspark.sql import DataFrame, Observation
from pyspark.sql.functions import col, count, expr, lit
from pyspark.sql.types import BinaryType

from ...errors import OptionError, quoted
from ..state.file_system import FileError, FileSystem, shown_path
from .json_values import from_text
from .plan import Plan

HIDDEN: Final = "_kafkawire"
BATCH: Final = "batch"
_PLAN: Final = "_plan"
DECODERS: Final = ("none", "string", "json")
_ADVICE: Final = "or of one with another --checkpoint: give each an --output of its own"


@dataclass(frozen=True, slots=True)
class OutputOptions:
    """How messages are written. ``partition_by`` maps a column's name to the SQL that makes it, or to
    None for a column that is there."""

    path: str
    format: str = "parquet"
    format_options: Mapping[str, str] = field(default_factory=dict)
    decode: str = "none"
    schema: str | None = None
    partition_by: Mapping[str, str | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raises ``OptionError`` (fatal)."""
        if self.schema is not None and self.decode != "json":
            raise OptionError("argument --schema goes with --decode json")
        if not self.format.strip():
            raise OptionError(f"argument --format: {quoted(self.format)} is not a format of Spark")


def parse_partition_by(arguments: Sequence[str]) -> dict[str, str | None]:
    """``NAME`` and ``NAME=SQL``. Raises ``OptionError`` (fatal)."""
    columns: dict[str, str | None] = {}
    for argument in arguments:
        name, separator, sql = (part.strip() for part in argument.partition("="))
        if not name or (separator and not sql):
            raise OptionError(f"argument --partition-by: {quoted(argument)} is not NAME or NAME=SQL")
        if name.lower() == BATCH:
            raise OptionError(
                f"argument --partition-by: {quoted(BATCH)} is the column of the runs themselves"
            )
        columns[name] = sql or None
    return columns


class Output:
    """Writes batches, each of which is there wholly or not at all. Raises ``FileError`` (fatal)."""

    def __init__(self, files: FileSystem, options: OutputOptions) -> None:
        self._files = files
        self._options = options
        self._unfinished = f"{options.path}/{HIDDEN}/unfinished"

    def holds(self, plan: Plan) -> bool:
        """Whether the plan's batch is there. Raises ``FileError`` also where that is of another plan."""
        folder = self._folder(plan.batch)
        if not self._files.exists(folder):
            return False
        if self._plan_id(folder) != plan.id:
            raise FileError(f"{shown_path(folder)} is another run's, {_ADVICE}")
        return True

    def newest(self) -> int:
        """The number of the newest batch that is there; -1 for none."""
        numbers = re.compile(rf"{BATCH}=([0-9]+)")
        matches = map(numbers.fullmatch, self._files.names(self._options.path))
        return max((int(match[1]) for match in matches if match), default=-1)

    def check_recorded(self, newest: int, plan: Plan | None) -> None:
        """Raise ``FileError`` where the newest batch is not by the plan that is recorded for it.

        The batches of an output and the plans of a state go together: one of them may have been put
        back from an older copy, or be another run's.
        """
        if newest >= 0 and (plan is None or self._plan_id(self._folder(newest)) != plan.id):
            raise FileError(f"{shown_path(self._folder(newest))} is of a run that is not recorded, {_ADVICE}")

    def write(self, plan: Plan, messages: DataFrame, schema: str | None) -> int:
        """Write a batch, and show it in one step; how many messages it has.

        Each attempt has a folder of its own, so that what an earlier one left, or is still writing on
        executors that outlived their driver, is no part of it.
        """
        attempt = self._begun(plan)
        observed = Observation()
        frame = decoded(messages, self._options.decode, schema)
        for name, sql in self._options.partition_by.items():
            frame = frame if sql is None else frame.withColumn(name, expr(sql))
        self._check_partition_columns(frame)
        # Counted where nothing is left out yet.
        frame = frame.observe(observed, count(lit(1)).alias("messages"))
        writer = frame.write.format(self._options.format).options(**self._options.format_options)
        writer.mode("append").partitionBy(*self._options.partition_by).save(attempt)
        self._show(plan, attempt)
        return int(observed.get["messages"])

    def write_nothing(self, plan: Plan) -> None:
        """Show a batch without messages: it takes its number, by which a state of before is noticed."""
        self._show(plan, self._begun(plan))

    def _begun(self, plan: Plan) -> str:
        """The folder of a new attempt. What earlier ones left is removed."""
        self._files.remove(self._unfinished)
        attempt = f"{self._unfinished}/{plan.batch}-{uuid.uuid4().hex}"
        self._files.make_folder(attempt)
        self._files.create(f"{attempt}/{_PLAN}", plan.to_json())
        return attempt

    def _show(self, plan: Plan, attempt: str) -> None:
        if not self._files.exists(f"{attempt}/{_PLAN}"):
            raise FileError(f"{shown_path(attempt)} was removed by another run, {_ADVICE}")
        # Spark's tasks close their files, and a disk may tell only later that it could not keep them.
        self._files.sync(attempt)
        self._files.rename(attempt, self._folder(plan.batch))

    def _check_partition_columns(self, frame: DataFrame) -> None:
        """Raise ``OptionError`` for bytes: a folder's name is text, and no file holds the column."""
        names = {name.lower() for name in self._options.partition_by}
        for column in frame.schema.fields:
            if column.name.lower() in names and isinstance(column.dataType, BinaryType):
                raise OptionError(
                    f"argument --partition-by: {column.name} is bytes, which no folder's name can hold; use "
                    f"--decode string, or a column of text as {column.name}_hex='hex({column.name})'"
                )

    def _plan_id(self, folder: str) -> str | None:
        path = f"{folder}/{_PLAN}"
        return Plan.from_json(self._files.read(path), path).id if self._files.exists(path) else None

    def _folder(self, batch: int) -> str:
        return f"{self._options.path}/{BATCH}={batch}"


def decoded(messages: DataFrame, decode: str, schema: str | None) -> DataFrame:
    """Messages with key and value as text, or with the value as what its JSON says."""
    if decode == "none":
        return messages
    text = {name: col(name).cast("string") for name in ("key", "value")}
    if decode == "json":
        assert schema is not None
        text["value"] = from_text(text["value"], schema)
    return messages.withColumns(text)
