"""A source of ready-made batches of decoded orders: a read without reading and without decoding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from spark_kafkawire.values.avro.decoding import Decoder
from spark_kafkawire.values.avro.schema import parse
from spark_kafkawire.values.payloads import payloads_of

from ..writing import PARTITIONS
from .orders import SCHEMA, messages

#: The size of the frame in front of each message.
_FRAME_SIZE = 5


class PrebuiltOrders(DataSource):
    """Yields one batch, made once, again and again, until there are ``rows``."""

    @classmethod
    def name(cls) -> str:
        """The name for ``format()``."""
        return "prebuilt-orders"

    def schema(self) -> str:
        """The column of the decoded values."""
        return (
            "value struct<id:bigint,customer:string,amount:double,currency:string,quantity:int,"
            "is_paid:boolean,created_at:timestamp,note:string>"
        )

    def reader(self, schema: object) -> DataSourceReader:  # noqa: ARG002
        """A reader of the batches."""
        return _Reader(int(self.options["rows"]), int(self.options["messages"]))


class _Reader(DataSourceReader):
    def __init__(self, rows: int, count: int) -> None:
        self._rows, self._count = rows, count

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(number) for number in range(PARTITIONS)]

    def read(self, _partition: InputPartition) -> Iterator[pa.RecordBatch]:
        batch = _batch(self._count)
        left = self._rows // PARTITIONS
        while left > 0:
            yield batch.slice(0, min(left, batch.num_rows))
            left -= batch.num_rows


@cache
def _batch(count: int) -> pa.RecordBatch:
    bodies = [message[_FRAME_SIZE:] for message in messages(count, 0)]
    column = Decoder(parse(SCHEMA)).decode(payloads_of(pa.array(bodies, pa.binary()))).column
    # Spark's own types are nullable in all fields.
    names = [field.name for field in column.type]
    return pa.RecordBatch.from_arrays([pa.StructArray.from_arrays(column.flatten(), names)], ["value"])
