"""Damaged schemas: each is parsed, or refused with an error of options."""

from __future__ import annotations

import copy
import json
import os
from random import Random
from typing import Any, Final

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spark_kafkawire.errors import OptionError
from spark_kafkawire.values.avro.decoding import Decoder
from spark_kafkawire.values.avro.encoding import Encoder
from spark_kafkawire.values.avro.schema import Schema, parse
from spark_kafkawire.values.payloads import payloads_of
from tests.values.avro.drawn import readers, schemas

MUTATIONS: Final = int(os.environ.get("KAFKAWIRE_AVRO_SCHEMA_MUTATIONS", "150"))
_JUNK: Final[list[Any]] = [
    *(None, True, 0, -1, 2**70, 1.5, "", "int", "null", "shop.T0", "T1", "\ud800", [], {}, ["null"], [[]]),
    *(["int", "int"], {"type": "int"}, {"type": {"type": "long"}}, {"type": "record"}, "map", "decimal"),
    *("timestamp-millis", "duration", {"type": "fixed", "name": "x", "size": 2**31 - 1}, {"type": []}),
]
_KEYS: Final = ("type", "name", "fields", "items", "values", "default", "aliases", "namespace", "logicalType")
_MORE_KEYS: Final = ("precision", "scale", "size", "symbols")


@settings(max_examples=MUTATIONS, suppress_health_check=list(HealthCheck), database=None)
@given(st.data(), st.integers(0, 2**32))
def test_a_damaged_schema_is_parsed_or_refused(data: st.DataObject, seed: int) -> None:
    writer = data.draw(schemas())
    reader, random = data.draw(readers(writer)), Random(seed)
    for _ in range(20):
        pair = [parsed(damaged(each, random)) for each in (writer, reader)]
        if None not in pair:
            compiled(*pair)
        for each in pair:
            if each is not None:
                compiled(each, None)


def parsed(content: Any) -> Schema | None:
    try:
        schema = parse(json.dumps(content))
        _ = schema.arrow_type
    except OptionError:
        return None
    return schema


def compiled(writer: Any, reader: Any) -> None:
    try:
        decoder = Decoder(writer, reader)
        Encoder(reader or writer, decoder.arrow_type)
    except OptionError:
        return
    result = decoder.decode(payloads_of(pa.array([b"", b"\0\0", b"\2\2a\0", None], pa.binary())))
    result.column.validate(full=True)


def damaged(schema: Any, random: Random) -> Any:
    """The schema with one or two of its parts replaced, added or removed."""
    holder = {"type": copy.deepcopy(schema)}
    for _ in range(random.choice((0, 1, 1, 2))):
        part = random.choice(list(_parts(holder)))
        junk = copy.deepcopy(random.choice(_JUNK))
        if isinstance(part, list):
            place = random.randrange(len(part) + 1)
            part[place : place + random.randrange(2)] = [junk]
        elif random.random() < 0.3 and len(part) > 1:
            del part[random.choice(list(part))]
        else:
            part[random.choice([*part, *_KEYS, *_MORE_KEYS])] = junk
    return holder.get("type")


def _parts(content: Any) -> Any:
    if isinstance(content, dict | list):
        yield content
        for each in content.values() if isinstance(content, dict) else content:
            yield from _parts(each)
