"""Recorded messages of Debezium as topics of a broker, and the rows of the tables that they come from."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from tests.support import librdkafka
from tests.support.foreign import Record
from tests.support.noida import NoidaBroker

_GOLDEN: Final = Path(__file__).parents[1] / "golden" / "debezium-3.6.1"
ORDER: Final = (
    "id int, customer string, amount string, paid boolean, at timestamp, day int, weight double, big bigint, "
    "doc string, uid string"
)
ITEM: Final = "order_id int, line smallint, title string, price string"
SOURCE: Final = "struct<lsn:bigint,ts_ms:bigint,ts_us:bigint>"


def struct(columns: str) -> str:
    """A struct with these columns."""
    return f"struct<{', '.join(column.replace(' ', ':') for column in columns.split(', '))}>"


def envelope(columns: str) -> str:
    """The type of Debezium's values about such a row."""
    row = struct(columns)
    return f"struct<before:{row},after:{row},source:{SOURCE},op:string,ts_ms:bigint>"


def unwrapped(columns: str) -> str:
    """The type of a row that ``ExtractNewRecordState`` unwrapped."""
    return struct(f"{columns}, __deleted string, __op string, __lsn bigint, __source_ts_ms bigint")


def recorded(recording: str, topic: str) -> list[Record]:
    """Messages of a topic."""
    lines = (_GOLDEN / f"{recording}.tsv").read_text("utf-8").splitlines()
    fields = [[None if text == "null" else text.encode() for text in line.split("\t")] for line in lines]
    return [Record(value, key=key) for name, key, value in fields if name == topic.encode()]


def produced(noida: NoidaBroker, recording: str, topic: str, name: str | None = None) -> str:
    """A topic of the broker with these messages; its name."""
    made = noida.create_topic(name=name)
    librdkafka.produce(noida.bootstrap_servers, made, recorded(recording, topic))
    return made


def read(spark: SparkSession, noida: NoidaBroker, topic: str, value: str, *more: str) -> DataFrame:
    """Messages of topics, with values of this type."""
    reader = spark.read.format("kafkawire").option("kafka.bootstrap.servers", noida.bootstrap_servers)
    columns = f"key binary, value {value}, topic string, partition int, offset bigint, timestamp timestamp"
    return reader.schema(columns).options(subscribe=",".join((topic, *more)), valueFormat="json").load()


def selected(table: str) -> list[dict[str, Any]]:
    """Rows of a table in the database at the end, with the values of the types above."""
    rows = json.loads((_GOLDEN / f"{table}.json").read_text("utf-8"), parse_float=str)
    return [{name: _CONVERSIONS.get(name, lambda same: same)(row[name]) for name in row} for row in rows]


def _moment(text: str | None) -> datetime | None:
    # pyspark gives times of the zone of this process, without it.
    return None if text is None else datetime.fromisoformat(text).astimezone().replace(tzinfo=None)


def _days(text: str | None) -> int | None:
    return None if text is None else (date.fromisoformat(text) - date(1970, 1, 1)).days


_CONVERSIONS: Final[dict[str, Any]] = {
    "at": _moment,
    "day": _days,
    "doc": lambda doc: None if doc is None else json.dumps(doc),
    "weight": lambda weight: None if weight is None else float(weight),
}


def in_order(rows: Sequence[dict[str, Any]], *keys: str) -> list[dict[str, Any]]:
    """Rows by their keys."""
    return sorted(rows, key=lambda row: [row[key] for key in keys])
