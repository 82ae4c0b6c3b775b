"""Messages that are decoded here, and drawn ones of the official runtime."""

from __future__ import annotations

import random
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import pyarrow as pa

from spark_kafkawire.values.faults import Decoded, Fault
from spark_kafkawire.values.payloads import payloads_of
from spark_kafkawire.values.protobuf.decoding import Decoder
from spark_kafkawire.values.protobuf.schema import Schema

from .drawn_messages import fill, plain_of


def decoded(schema: Schema, messages: Iterable[bytes | None], *more: Any) -> Decoded:
    """The messages' values; the column is valid, and null where there are faults."""
    result = Decoder(schema, *more).decode(payloads_of(pa.array(list(messages), pa.binary())))
    result.column.validate(full=True)
    assert not any(valid for valid, bad in zip(result.column.is_valid(), result.is_bad, strict=True) if bad)
    return result


def rows(schema: Schema, messages: Iterable[bytes | None], *more: Any) -> list[Any]:
    """The messages' values, in which there is no fault."""
    result = decoded(schema, messages, *more)
    assert not result.is_bad.any(), [Fault(each).name for each in result.faults]
    return [plain_of(each) for each in result.column]


def drawn_messages(judge: Any, chance: random.Random, count: int) -> list[bytes]:
    """Messages, and pairs of them, which are merged: the later one wins."""
    alone = [fill(judge(), chance).SerializeToString() for _ in range(count)]
    return alone + [first + second for first, second in pairwise(alone)]
