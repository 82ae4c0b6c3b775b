"""Reads of Avro with a schema registry, beside Spark's ``from_avro`` and fastavro, and of changes, on Apache
Kafka.

All kinds read the same topic, take turns in one Spark, and write their rows to a sink that does nothing. The
messages are orders with 8 fields and about 100 bytes.
"""

from __future__ import annotations

import io
import json
import random
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, Final

import fastavro
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro

from spark_kafkawire.changes import changes, latest_per_key
from spark_kafkawire.values.registry_frame import id_prefix
from tests.support.fake_registry import FakeRegistry

from .measure import Figure, Kind, print_took, say, side_by_side
from .session import Bench, check, new_topic, read_into_nothing

SCHEMA: Final = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "customer", "type": "string"},
            {"name": "amount", "type": "double"},
            {"name": "currency", "type": "string"},
            {"name": "quantity", "type": "int"},
            {"name": "is_paid", "type": "boolean"},
            {"name": "created_at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {"name": "note", "type": ["null", "string"], "default": None},
        ],
    }
)
#: Fields of the decoded values, in Spark's DDL.
_FIELDS: Final = (
    "id bigint, customer string, amount double, currency string, quantity int, is_paid boolean, "
    "created_at timestamp, note string"
)
#: Constant fields of ``source``, and the envelope that Debezium makes of such a table.
_SOURCE: Final[dict[str, Any]] = {
    "version": "3.6.1.Final",
    "connector": "postgresql",
    "name": "shop",
    "db": "shop",
    "schema": "public",
    "table": "orders",
    "txId": 771,
}
_ENVELOPE: Final[dict[str, Any]] = {
    "type": "record",
    "name": "Envelope",
    "fields": [
        {"name": "before", "type": ["null", json.loads(SCHEMA)], "default": None},
        {"name": "after", "type": ["null", "Order"], "default": None},
        {
            "name": "source",
            "type": {
                "type": "record",
                "name": "Source",
                "fields": [
                    *({"name": name, "type": "string"} for name in [*_SOURCE][:-1]),
                    *({"name": name, "type": ["null", "long"]} for name in ("txId", "ts_ms", "lsn")),
                ],
            },
        },
        {"name": "op", "type": "string"},
        {"name": "ts_ms", "type": ["null", "long"], "default": None},
    ],
}
_DECODED, _FOLDED = "decoded", "decoded, unwrapped and folded"
#: Different messages; the topic repeats them.
_MESSAGES: Final = 50_000

OURS, OUR_BYTES = "kafkawire, `valueFormat=avro`", "kafkawire, bytes"
RECIPE: Final = "kafkawire, bytes + fastavro in `mapInArrow`"
THEIRS, THEIR_BYTES = "Spark's connector + `from_avro`", "Spark's connector, bytes"
#: The size of the frame in front of each message.
_FRAME_SIZE: Final = 5


def avro(bench: Bench) -> Iterator[Figure]:
    """All kinds, in turns."""
    rows = bench.size
    with FakeRegistry() as registry:
        schema_id = registry.add("orders-value", SCHEMA)
        topic, size = _write_topic(bench, messages(_MESSAGES, schema_id))
        say(f"{rows:,} messages of {size:.0f} bytes")
        frames = _frames(bench, topic, registry.url)
        _check_equal(frames, rows)
        kinds = {name: Kind(partial(read_into_nothing, frame), rows) for name, frame in frames.items()}
        took = side_by_side(kinds, bench.rounds, twice=True)
    print_took("read", took)
    cpu_ns = {
        name: sum(of for role, of in item.cpu_ns.items() if role != "broker") for name, item in took.items()
    }
    ours_ns, theirs_ns = cpu_ns[OURS] - cpu_ns[OUR_BYTES], cpu_ns[THEIRS] - cpu_ns[THEIR_BYTES]
    say(f"decoding: kafkawire {ours_ns} ns of CPU a row, from_avro {theirs_ns} ns")
    yield Figure("CPU of decoding, to that of from_avro", "times", ours_ns / theirs_ns, 1.0, at_most=True)
    yield Figure(
        "read and decode, to format(kafka) + from_avro",
        "times_as_fast",
        took[THEIRS].seconds / took[OURS].seconds,
        2.0,
    )
    yield Figure(
        "read and decode, to the recipe with fastavro",
        "times_as_fast",
        took[RECIPE].seconds / took[OURS].seconds,
        10.0,
    )


def changes_of_debezium(bench: Bench) -> Iterator[Figure]:
    """Changes of Debezium that are decoded, and that are unwrapped and folded, too."""
    with FakeRegistry() as registry:
        values = _changes(registry.add("changes-value", json.dumps(_ENVELOPE)))
        topic, size = _write_topic(bench, values)
        say(f"{bench.size:,} changes of {size:.0f} bytes, {_MESSAGES:,} keys")
        options = {"kafka.bootstrap.servers": bench.servers, "subscribe": topic, "valueFormat": "avro"}
        reader = bench.spark.read.format("kafkawire").options(**options, startingOffsets="earliest")
        reader = reader.option("schema.registry.url", registry.url).option("valueSubject", "changes-value")
        decoded = reader.load().select("value", "topic", "partition", "offset", "timestamp")
        folded = latest_per_key(changes(decoded), "id", order_by="_sequence")
        check("the fold", folded.count(), _MESSAGES)
        frames = {_DECODED: decoded, _FOLDED: folded}
        kinds = {name: Kind(partial(read_into_nothing, frame), bench.size) for name, frame in frames.items()}
        took = side_by_side(kinds, bench.rounds, twice=True)
    print_took("read", took)
    yield Figure(
        "changes unwrapped and folded, to decoding alone",
        "times_as_fast",
        took[_DECODED].seconds / took[_FOLDED].seconds,
        0.5,
    )


def _changes(schema_id: int) -> list[bytes]:
    """Framed changes in Debezium's envelope: updates with the row before and after."""
    draw, parsed = random.Random(48), fastavro.parse_schema(json.loads(json.dumps(_ENVELOPE)))
    return [
        id_prefix(schema_id)
        + _encoded(
            parsed,
            {
                "before": _order(draw, number),
                "after": _order(draw, number),
                "source": {**_SOURCE, "ts_ms": 1_700_000_000_000 + number, "lsn": 24_000_000 + number},
                "op": "u",
                "ts_ms": 1_700_000_000_100 + number,
            },
        )
        for number in range(_MESSAGES)
    ]


def _write_topic(bench: Bench, values: list[bytes]) -> tuple[str, float]:
    """A new topic, and the mean size of a message without its frame, bytes."""
    topic = new_topic(bench.servers)
    frame = bench.spark.createDataFrame(pa.table({"value": values})).cache()
    times = bench.spark.range(bench.size // _MESSAGES).select()
    to = {"kafka.bootstrap.servers": bench.servers, "topic": topic, "partitioner": "roundrobin"}
    times.crossJoin(frame).write.format("kafkawire").mode("append").options(**to).save()
    frame.unpersist()
    return topic, sum(map(len, values)) / len(values) - _FRAME_SIZE


def _frames(bench: Bench, topic: str, registry: str) -> dict[str, DataFrame]:
    spark = bench.spark
    source = {"kafka.bootstrap.servers": bench.servers, "subscribe": topic, "startingOffsets": "earliest"}
    ours = spark.read.format("kafkawire").options(**source)
    theirs = spark.read.format("kafka").options(**source)
    avro = {"valueFormat": "avro", "schema.registry.url": registry, "valueSchema": SCHEMA}
    our_bytes = ours.schema("value binary").load()
    body = F.expr("substring(value, 6)")
    return {
        OUR_BYTES: our_bytes,
        RECIPE: our_bytes.mapInArrow(_fastavro_decoded, _FIELDS),
        THEIR_BYTES: theirs.load().select("value"),
        THEIRS: theirs.load().select(from_avro(body, SCHEMA).alias("value")),
        # The same projection as that of the bytes: no other column is made.
        OURS: spark.read.format("kafkawire")
        .options(**source, **avro)
        .schema(f"value struct<{_FIELDS}>")
        .load(),
    }


def _check_equal(frames: dict[str, DataFrame], rows: int) -> None:
    """Raise unless all kinds that decode give the same rows."""
    sums = {}
    for name in (OURS, THEIRS, RECIPE):
        frame = frames[name] if name == RECIPE else frames[name].select("value.*")
        hashes = F.sum(F.xxhash64(*frame.columns).cast("decimal(38,0)"))
        [sums[name]] = frame.agg(F.count("*").alias("count"), hashes.alias("hashes")).collect()
    if not sums[OURS] == sums[THEIRS] == sums[RECIPE] or sums[OURS]["count"] != rows:
        raise AssertionError(f"the rows are not equal: {sums}")


def _fastavro_decoded(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The recipe: each message becomes a dictionary, and the dictionaries become columns."""
    parsed = fastavro.parse_schema(json.loads(SCHEMA))
    for batch in batches:
        rows = [
            fastavro.schemaless_reader(io.BytesIO(value[_FRAME_SIZE:]), parsed, None)
            for value in batch.column("value").to_pylist()
        ]
        columns = pa.schema(
            [
                ("id", pa.int64()),
                ("customer", pa.string()),
                ("amount", pa.float64()),
                ("currency", pa.string()),
                ("quantity", pa.int32()),
                ("is_paid", pa.bool_()),
                ("created_at", pa.timestamp("us", "UTC")),
                ("note", pa.string()),
            ]
        )
        yield from pa.Table.from_pylist(rows, columns).to_batches()


def messages(count: int, schema_id: int) -> list[bytes]:
    """Framed messages, the same at each call."""
    draw, parsed = random.Random(34), fastavro.parse_schema(json.loads(SCHEMA))
    return [id_prefix(schema_id) + _encoded(parsed, _order(draw, number)) for number in range(count)]


def _order(draw: random.Random, number: int) -> dict[str, Any]:
    return {
        "id": number,
        "customer": f"{draw.getrandbits(128):032x}",
        "amount": round(draw.uniform(0, 1000), 2),
        "currency": draw.choice(("EUR", "USD", "GBP")),
        "quantity": draw.randrange(100),
        "is_paid": draw.random() < 0.5,
        "created_at": 1_700_000_000_000 + draw.randrange(10**10),
        "note": f"left at the door of house {draw.getrandbits(96):024x}" if draw.random() < 0.8 else None,
    }


def _encoded(parsed: Any, order: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, parsed, order)
    return out.getvalue()
