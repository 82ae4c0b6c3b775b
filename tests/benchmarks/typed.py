"""Reads of typed values, beside what users write today, and of changes, on Apache Kafka: Avro with a schema
registry beside ``from_avro`` and fastavro, JSON beside ``from_json``, Protobuf beside a Python UDF.

All kinds of a format read the same topic, take turns in one Spark, and write their rows to a sink that does
nothing. The messages are orders with 8 fields, of about 100 bytes in Avro and Protobuf.
"""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timedelta, timezone
from functools import cache, partial
from typing import Any, Final

import fastavro
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro
from pyspark.sql.readwriter import DataFrameReader

from spark_kafkawire.changes import changes, latest_per_key
from spark_kafkawire.values.registry_frame import id_prefix
from tests.support.fake_registry import FakeRegistry
from tests.values.protobuf import protoc

from .measure import Figure, Kind, Took, print_took, say, side_by_side
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
#: The same for Protobuf; Spark's connector has no type for its time without a message of Google.
PROTO: Final = """
syntax = "proto3";
message Order {
  int64 id = 1;
  string customer = 2;
  double amount = 3;
  string currency = 4;
  int32 quantity = 5;
  bool is_paid = 6;
  int64 created_at = 7;
  optional string note = 8;
}
"""
_PROTO_FIELDS: Final = _FIELDS.replace("timestamp", "bigint")
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
JSON, PROTOBUF = "kafkawire, `valueFormat=json`", "kafkawire, `valueFormat=protobuf`"
FROM_JSON, UDF = " + `from_json`", " + a Python UDF"
THEIR = "Spark's connector"
#: The size of the frame in front of each message.
_FRAME_SIZE: Final = 5


def values(bench: Bench) -> Iterator[Figure]:
    """Avro, JSON and Protobuf, one after the other."""
    for measure in (_avro, _json, _protobuf):
        yield from measure(bench)


def _avro(bench: Bench) -> Iterator[Figure]:
    with FakeRegistry() as registry:
        topic = _write_topic(bench, messages(_MESSAGES, registry.add("orders-value", SCHEMA)), _FRAME_SIZE)
        took = _take_turns(bench, _frames(bench, topic, registry.url), (OURS, THEIRS, RECIPE))
    cpu_ns = {name: item.parts_ns["JVM"] + item.parts_ns["Python"] for name, item in took.items()}
    ours_ns, theirs_ns = cpu_ns[OURS] - cpu_ns[OUR_BYTES], cpu_ns[THEIRS] - cpu_ns[THEIR_BYTES]
    say(f"decoding: kafkawire {ours_ns} ns of CPU a row, from_avro {theirs_ns} ns")
    yield Figure("CPU of decoding, to that of from_avro", "times", ours_ns / theirs_ns, 1.0, at_most=True)
    yield _speed(took, OURS, THEIRS, 2.0)
    yield _speed(took, OURS, RECIPE, 10.0)


def _json(bench: Bench) -> Iterator[Figure]:
    topic = _write_topic(bench, [_json_encoded(order) for order in _orders()])

    def decode(value: Column) -> Column:
        return F.from_json(value.cast("string"), _FIELDS)

    frames = _beside(bench, topic, JSON, "json", _FIELDS, FROM_JSON, decode)
    took = _take_turns(bench, frames, [*frames])
    yield _speed(took, JSON, THEIR + FROM_JSON)
    yield _speed(took, JSON, OUR_BYTES + FROM_JSON)


def _protobuf(bench: Bench) -> Iterator[Figure]:
    topic = _write_topic(bench, [_order_class()(**order).SerializeToString() for order in _orders()])
    decode = F.udf(_decode_proto, _PROTO_FIELDS)
    frames = _beside(bench, topic, PROTOBUF, "protobuf", _PROTO_FIELDS, UDF, decode)
    took = _take_turns(bench, frames, [*frames])
    yield _speed(took, PROTOBUF, THEIR + UDF)
    yield _speed(took, PROTOBUF, OUR_BYTES + UDF)


def _take_turns(bench: Bench, frames: Mapping[str, DataFrame], decoding: Iterable[str]) -> dict[str, Took]:
    """Costs of each kind. Raises unless those that decode give the same rows."""
    _check_equal({name: frames[name] for name in decoding}, bench.size)
    kinds = {name: Kind(partial(read_into_nothing, frame), bench.size) for name, frame in frames.items()}
    took = side_by_side(kinds, bench.rounds, twice=True)
    print_took("read", took)
    return took


def _speed(took: Mapping[str, Took], name: str, other: str, target: float | None = None) -> Figure:
    speed = took[other].seconds / took[name].seconds
    return Figure(f"{name}, to {other}", "times_as_fast", speed, target)


def changes_of_debezium(bench: Bench) -> Iterator[Figure]:
    """Changes of Debezium that are decoded, and that are unwrapped and folded, too."""
    with FakeRegistry() as registry:
        changed = _changes(registry.add("changes-value", json.dumps(_ENVELOPE)))
        topic = _write_topic(bench, changed, _FRAME_SIZE)
        say(f"{_MESSAGES:,} keys")
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


def _write_topic(bench: Bench, sent: list[bytes], frame_size: int = 0) -> str:
    """A new topic with these messages, again and again."""
    topic = new_topic(bench.servers)
    frame = bench.spark.createDataFrame(pa.table({"value": sent})).cache()
    times = bench.spark.range(bench.size // _MESSAGES).select()
    to = {"kafka.bootstrap.servers": bench.servers, "topic": topic, "partitioner": "roundrobin"}
    times.crossJoin(frame).write.format("kafkawire").mode("append").options(**to).save()
    frame.unpersist()
    say(f"{bench.size:,} messages of {sum(map(len, sent)) / len(sent) - frame_size:.0f} bytes")
    return topic


def _frames(bench: Bench, topic: str, registry: str) -> dict[str, DataFrame]:
    ours, theirs = _readers(bench, topic)
    our_bytes = ours().schema("value binary").load()
    avro = {"valueFormat": "avro", "schema.registry.url": registry, "valueSchema": SCHEMA}
    body = F.expr("substring(value, 6)")
    return {
        OUR_BYTES: our_bytes,
        RECIPE: our_bytes.mapInArrow(_fastavro_decoded, _FIELDS),
        THEIR_BYTES: theirs().load().select("value"),
        THEIRS: theirs().load().select(from_avro(body, SCHEMA).alias("value")),
        # The same projection as that of the bytes: no other column is made.
        OURS: ours().options(**avro).schema(f"value struct<{_FIELDS}>").load(),
    }


def _beside(
    bench: Bench,
    topic: str,
    name: str,
    value_format: str,
    fields: str,
    other: str,
    decode: Callable[[Column], Column],
) -> dict[str, DataFrame]:
    """Values that kafkawire decodes, and bytes that Spark or Python decodes."""
    ours, theirs = _readers(bench, topic)
    typed = {"valueFormat": value_format}
    if value_format == "protobuf":
        typed |= {"valueSchema": PROTO, "schemaIdFrom": "none"}
    value = decode(F.col("value")).alias("value")
    return {
        name: ours().options(**typed).schema(f"value struct<{fields}>").load(),
        OUR_BYTES + other: ours().schema("value binary").load().select(value),
        THEIR + other: theirs().load().select(value),
    }


def _readers(bench: Bench, topic: str) -> tuple[Callable[[], DataFrameReader], Callable[[], DataFrameReader]]:
    """Readers of a topic, ours and Spark's."""
    source = {"kafka.bootstrap.servers": bench.servers, "subscribe": topic, "startingOffsets": "earliest"}

    def reader(name: str) -> DataFrameReader:
        return bench.spark.read.format(name).options(**source)

    return partial(reader, "kafkawire"), partial(reader, "kafka")


def _check_equal(frames: Mapping[str, DataFrame], rows: int) -> None:
    """Raise unless all kinds give the same rows."""
    sums = {}
    for name, frame in frames.items():
        fields = frame.select("value.*") if frame.columns == ["value"] else frame
        hashes = F.sum(F.xxhash64(*fields.columns).cast("decimal(38,0)"))
        [sums[name]] = fields.agg(F.count("*").alias("count"), hashes.alias("hashes")).collect()
    if len(set(sums.values())) != 1 or any(item["count"] != rows for item in sums.values()):
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


@cache
def _order_class() -> Any:
    return protoc.message_class(protoc.compiled(PROTO), "Order")


def _decode_proto(value: bytes) -> tuple[object, ...]:
    """One message becomes one tuple, in a UDF; defaults are null, as of Spark's ``from_protobuf``."""
    order = _order_class().FromString(bytes(value))
    plain = (order.id, order.customer, order.amount, order.currency, order.quantity, order.is_paid)
    return (*(field or None for field in plain), order.created_at, order.note or None)


def _json_encoded(order: dict[str, Any]) -> bytes:
    created_at = datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(milliseconds=order["created_at"])
    text = created_at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return json.dumps({**order, "created_at": text}, separators=(",", ":")).encode()


def messages(count: int, schema_id: int) -> list[bytes]:
    """Framed messages, the same at each call."""
    parsed = fastavro.parse_schema(json.loads(SCHEMA))
    return [id_prefix(schema_id) + _encoded(parsed, order) for order in _orders(count)]


def _orders(count: int = _MESSAGES) -> Iterator[dict[str, Any]]:
    draw = random.Random(34)
    return (_order(draw, number) for number in range(count))


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
