"""Drawn writers' and readers' schemas: rows are those of fastavro.

KAFKAWIRE_AVRO_RECORDS=1000000 python -m pytest -s -o faulthandler_timeout=0 \\
  tests/values/avro/test_resolution.py
"""

from __future__ import annotations

import os
from random import Random
from typing import Any, Final

import pytest
from fastavro.read import SchemaResolutionError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spark_kafkawire.records import compiler
from tests.values.avro.drawn import Values, readers, schemas
from tests.values.avro.judge import Judge, ordered

RECORDS: Final = int(os.environ.get("KAFKAWIRE_AVRO_RECORDS", "1000"))
ROWS: Final = 5 if RECORDS < 100_000 else 50
seen = {"records": 0, "values": 0, "schemas": 0}


@pytest.mark.timeout(24 * 3600)
def test_rows_are_those_of_fastavro() -> None:
    if RECORDS >= 100_000:
        compiler.load()
    _rows_are_those_of_fastavro()
    assert seen["records"] >= RECORDS * 9 // 10
    assert seen["values"] > seen["records"] // 2
    print(f"{seen}")


@settings(
    max_examples=RECORDS // ROWS,
    suppress_health_check=list(HealthCheck),
    database=None,
)
@given(st.data(), st.integers(0, 2**32))
def _rows_are_those_of_fastavro(data: st.DataObject, seed: int) -> None:
    writer = data.draw(schemas(), "writer")
    reader = data.draw(readers(writer), "reader")
    judge, values = Judge(writer, reader), Values(writer, Random(seed))
    messages = [judge.written(values.next()) for _ in range(ROWS)]
    result = judge.decoded(messages)
    for message, fault, row in zip(messages, result.faults, result.column.to_pylist(), strict=True):
        expected = _read(judge, message)
        if expected is _UNREADABLE:  # deep down in a record that contains itself is no column, and no fault
            assert fault != 0 or "again" in str(writer), message
        else:
            assert fault == 0, message
            assert ordered(row) == ordered(expected)
            seen["values"] += 1
    seen["records"] += len(messages)
    seen["schemas"] += 1


_UNREADABLE: Final = object()


def _read(judge: Judge, message: bytes) -> Any:
    try:
        return judge.read(message)
    except (SchemaResolutionError, UnicodeDecodeError):
        return _UNREADABLE
