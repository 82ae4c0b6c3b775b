"""The judge of decoded Avro: fastavro."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pyarrow as pa

from spark_kafkawire.values.avro.decoding import Decoder
from spark_kafkawire.values.avro.schema import parse
from spark_kafkawire.values.payloads import Decoded, payloads_of

from .drawn import ArrowForm


class Judge:
    """A writer's and a reader's schema in both libraries."""

    def __init__(self, writer: Any, reader: Any = None) -> None:
        self.writer = fastavro.parse_schema(json.loads(json.dumps(writer)))
        self.reader = None if reader is None else fastavro.parse_schema(json.loads(json.dumps(reader)))
        of_reader = None if reader is None else parse(json.dumps(reader))
        self.decoder = Decoder(parse(json.dumps(writer)), of_reader)
        self.form = ArrowForm(writer if reader is None else reader, self.decoder.arrow_type)

    def written(self, value: Any) -> bytes:
        """The message of a value."""
        out = io.BytesIO()
        fastavro.schemaless_writer(out, self.writer, value)
        return out.getvalue()

    def read(self, message: bytes) -> Any:
        """The value of a message, as Arrow has it. Raises errors of many types for one that has none."""
        return self.form.of(fastavro.schemaless_reader(io.BytesIO(message), self.writer, self.reader))

    def written_again(self, message: bytes) -> bytes:
        """The message of the value that a message has, without sizes of blocks."""
        return self.written(fastavro.schemaless_reader(io.BytesIO(message), self.writer, None))

    def decode(self, messages: list[bytes]) -> Decoded:
        """The messages as we decode them."""
        result = self.decoder.decode(payloads_of(pa.array(messages, pa.binary())))
        result.column.validate(full=True)
        assert len(result.column) == len(result.faults) == len(messages)
        return result


def ordered(value: Any) -> Any:
    """A value of Arrow with the entries of its maps in order, and numbers that are no numbers equal."""
    if isinstance(value, dict):
        return {key: ordered(item) for key, item in value.items()}
    if isinstance(value, list):
        items = [ordered(item) for item in value]
        return sorted(items) if items and isinstance(items[0], tuple) else items
    if isinstance(value, tuple):
        return value[0], ordered(value[1])
    return "NaN" if value != value else value
