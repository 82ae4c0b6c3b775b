"""``make bench-values``: reads of Avro with a schema registry, beside Spark's ``from_avro`` and fastavro.

    python -m tests.benchmarks.typed --rows 2000000 --rounds 5

All kinds read the same topic of one Apache Kafka, take turns in one Spark, and write their rows to a sink
that does nothing. The messages have 8 fields and about 100 bytes. The table is Markdown; the program exits
with 1 if a target is missed.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import fastavro
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro

from spark_kafkawire.values.registry_frame import id_prefix
from tests.interop.jars import avro_jars, connector_jars
from tests.support import librdkafka
from tests.support.fake_registry import FakeRegistry

from .. import on_kafka
from ..backlog import read_into_nothing
from ..measure import Figure, interleaved, one_after_the_other, say
from ..processes import CpuMeter
from ..tables import print_table
from ..writing import PARTITIONS
from .orders import SCHEMA, messages
from .prebuilt import PrebuiltOrders

#: The file with the lines of the figures.
FIGURES: Final = Path("build/values.jsonl")
TOPIC: Final = "orders"
#: Fields of the decoded values, in Spark's DDL.
_FIELDS: Final = (
    "id bigint, customer string, amount double, currency string, quantity int, is_paid boolean, "
    "created_at timestamp, note string"
)
#: Different messages; the topic repeats them.
_MESSAGES: Final = 50_000

OURS, OUR_BYTES = "kafkawire, `valueFormat=avro`", "kafkawire, bytes"
RECIPE: Final = "kafkawire, bytes + fastavro in `mapInArrow`"
THEIRS, THEIR_BYTES = "Spark's connector + `from_avro`", "Spark's connector, bytes"
READY: Final = "ready-made batches of the decoded columns"


def _fastavro_decoded(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The recipe: each message becomes a dictionary, and the dictionaries become columns."""
    parsed = fastavro.parse_schema(json.loads(SCHEMA))
    for batch in batches:
        rows = [
            fastavro.schemaless_reader(io.BytesIO(value[5:]), parsed, None)
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


def _write_topic(spark: SparkSession, servers: str, rows: int, schema_id: int) -> float:
    """Fill the topic. Returns the mean size of a message without its frame, bytes."""
    librdkafka.create_topic(servers, PARTITIONS, TOPIC)
    values = messages(_MESSAGES, schema_id)
    frame = spark.createDataFrame(pa.table({"value": values})).cache()
    times = spark.range(rows // _MESSAGES).select()
    to = {"kafka.bootstrap.servers": servers, "topic": TOPIC, "partitioner": "roundrobin"}
    times.crossJoin(frame).write.format("kafkawire").mode("append").options(**to).save()
    frame.unpersist()
    return sum(map(len, values)) / len(values) - len(id_prefix(schema_id))


def _frames(spark: SparkSession, servers: str, registry: str, rows: int) -> dict[str, DataFrame]:
    source = {"kafka.bootstrap.servers": servers, "subscribe": TOPIC, "startingOffsets": "earliest"}
    ours = spark.read.format("kafkawire").options(**source)
    theirs = spark.read.format("kafka").options(**source)
    avro = {"valueFormat": "avro", "schema.registry.url": registry, "valueSchema": SCHEMA}
    our_bytes = ours.schema("value binary").load()
    spark.dataSource.register(PrebuiltOrders)
    body = F.expr("substring(value, 6)")
    return {
        OUR_BYTES: our_bytes,
        RECIPE: our_bytes.mapInArrow(_fastavro_decoded, _FIELDS),
        THEIR_BYTES: theirs.load().select("value"),
        THEIRS: theirs.load().select(from_avro(body, SCHEMA).alias("value")),
        READY: spark.read.format(PrebuiltOrders.name())
        .options(rows=str(rows), messages=str(_MESSAGES))
        .load(),
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


def measure(spark: SparkSession, servers: str, rounds: int, rows: int) -> Iterator[Figure]:
    """Read all kinds in turn, each twice: the second run counts."""
    with FakeRegistry() as registry:
        schema_id = registry.add(f"{TOPIC}-value", SCHEMA)
        size = _write_topic(spark, servers, rows, schema_id)
        say(f"{rows:,} messages of {size:.0f} bytes")
        frames = _frames(spark, servers, registry.url, rows)
        _check_equal(frames, rows)
        meter = CpuMeter()
        runs = {name: lambda frame=frame: read_into_nothing(frame) for name, frame in frames.items()}
        interleaved(
            {name: one_after_the_other(run, meter.metered(name, run)) for name, run in runs.items()}, rounds
        )
    seconds = {name: meter.seconds(name) for name in frames}
    spent = {name: meter.ns_per_row(name, rows) for name in frames}
    cpu_ns = {name: sum(of for role, of in each.items() if role != "broker") for name, each in spent.items()}
    cells = [
        [name, f"{rows / seconds[name] / 1e6:.2f}", f"{seconds[name]:.2f}", f"{cpu_ns[name]}"]
        for name in frames
    ]
    print_table(["read", "million rows/s", "s", "CPU ns/row, Spark and Python"], cells)
    ours_ns, theirs_ns = cpu_ns[OURS] - cpu_ns[OUR_BYTES], cpu_ns[THEIRS] - cpu_ns[THEIR_BYTES]
    say(f"decoding: kafkawire {ours_ns} ns of CPU a row, from_avro {theirs_ns} ns")
    # Nothing that decodes in Python is faster: the batches are there already.
    yield Figure(
        "ready-made batches, to format(kafka) + from_avro", "times_as_fast", seconds[THEIRS] / seconds[READY]
    )
    yield Figure("CPU of decoding, to that of from_avro", "times", ours_ns / theirs_ns, 1.0, at_most=True)
    yield Figure(
        "read and decode, to format(kafka) + from_avro", "times_as_fast", seconds[THEIRS] / seconds[OURS], 2.0
    )
    yield Figure(
        "read and decode, to the recipe with fastavro", "times_as_fast", seconds[RECIPE] / seconds[OURS], 10.0
    )


def main() -> None:
    """Measure what the arguments name."""
    parser = on_kafka.arguments("make bench-values", "Measure reads of typed values.", ("avro",))
    parser.add_argument("--rows", type=int, default=2_000_000, help="messages of the topic")
    asked = parser.parse_args()
    settings = {"spark.jars": ",".join(map(str, [*connector_jars(), *avro_jars()]))}
    on_kafka.run(asked, {"avro": (measure, asked.rows)}, FIGURES, settings)


if __name__ == "__main__":
    main()
