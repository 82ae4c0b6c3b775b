"""What differs between the generations of Kafka: every table has an entry for both."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator, Mapping

import pytest

import spark_kafkawire
from spark_kafkawire.model import Generation, OffsetUnit
from spark_kafkawire.protocol.dialects import DIALECTS


def tables() -> Iterator[tuple[str, set[object]]]:
    """The mappings of all modules that have a generation among their keys, and those keys."""
    for module in pkgutil.walk_packages(spark_kafkawire.__path__, "spark_kafkawire."):
        if not module.name.endswith("__main__"):
            for name, value in vars(importlib.import_module(module.name)).items():
                if isinstance(value, Mapping) and any(isinstance(key, Generation) for key in value):
                    yield f"{module.name}.{name}", set(value)


@pytest.mark.jvm
def test_every_table_of_generations_has_all_of_them() -> None:
    found = dict(tables())
    assert len(found) >= 10
    assert {name: keys for name, keys in found.items() if not keys.issuperset(Generation)} == {}


def test_a_dialect_is_the_one_of_its_generation() -> None:
    assert {generation: dialect.generation for generation, dialect in DIALECTS.items()} == {
        generation: generation for generation in Generation
    }


def test_offsets_count_bytes_until_07_and_records_since() -> None:
    assert Generation.V07.offset_unit is OffsetUnit.BYTES
    assert Generation.MODERN.offset_unit is OffsetUnit.RECORDS
