"""Differences between the generations of Kafka: every table has an entry for both."""

from __future__ import annotations

import ast
import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest

import spark_kafkawire
from spark_kafkawire.model import Generation, OffsetUnit, WireFormat
from spark_kafkawire.protocol.dialect import dialect_of
from tests.support.cases import for_each

ROOT: Final = Path(spark_kafkawire.__file__).parents[1]
SOURCES: Final = sorted(
    path
    for folder in ("spark_kafkawire", "jobs", "tests/chaos")
    for path in ROOT.joinpath(folder).rglob("*.py")
)
#: What may compare, and why.
COMPARING: Final = {
    "spark_kafkawire/jobs/doctor.py": "brokers of 0.7 have no versions, logins and listeners to check",
    "spark_kafkawire/jobs/ingest/run.py": "how many messages come is known where offsets count them",
    "spark_kafkawire/options/connection.py": "what contradicts a wire format is refused",
    "spark_kafkawire/options/fetch.py": "a size of fetches has another name and default",
    "spark_kafkawire/options/key_order.py": "a wire format whose fetches have no size cannot be packed",
    "spark_kafkawire/options/option.py": "an option is of the generation that was chosen, or is refused",
    "spark_kafkawire/options/selection.py": "the size of a Spark partition counts bytes, or offsets",
    "spark_kafkawire/options/write.py": "a write has other fields",
}


def tables() -> Iterator[tuple[str, set[object]]]:
    """The mappings of all modules that have a generation among their keys, and those keys."""
    for module in pkgutil.walk_packages(spark_kafkawire.__path__, "spark_kafkawire."):
        if not module.name.endswith("__main__"):
            for name, value in vars(importlib.import_module(module.name)).items():
                if isinstance(value, Mapping) and any(isinstance(key, Generation) for key in value):
                    yield f"{module.name}.{name}", set(value)


@pytest.mark.jvm
def test_every_table_of_generations_has_all_of_them() -> None:
    result = dict(tables())
    assert len(result) >= 10
    assert {name: keys for name, keys in result.items() if not keys.issuperset(Generation)} == {}


def test_a_dialect_is_the_one_of_its_generation() -> None:
    assert {item: dialect_of(item.wire_format).generation for item in Generation} == {
        generation: generation for generation in Generation
    }
    assert len({dialect_of(item) for item in WireFormat}) == len(WireFormat)
    # Messages, logs and offsets are those of 0.7: it is another form of what its brokers do.
    assert dialect_of(WireFormat.PROPOSAL).generation is Generation.V07


def test_offsets_count_bytes_until_07_and_records_since() -> None:
    assert Generation.V07.offset_unit is OffsetUnit.BYTES
    assert Generation.MODERN.offset_unit is OffsetUnit.RECORDS


#: What holds a generation, or stands for one.
NAMES: Final = frozenset(
    ("generation", "_generation", "dialect", "_dialect", "DIALECT", "offset_unit", "wire_format")
)


def names_generation(node: ast.AST) -> bool:
    """True if an operand is a generation or implies one: a dialect, or a unit of offsets."""
    match node:
        case ast.Attribute(value=ast.Name(id="Generation" | "OffsetUnit" | "WireFormat")):
            return True
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name in NAMES
        case ast.Tuple(elts=elements) | ast.Set(elts=elements) | ast.List(elts=elements):
            return any(map(names_generation, elements))
    return False


def decisions(source: str) -> Iterator[int]:
    """The lines that ask which generation it is, instead of looking up what differs."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Compare(left=left, comparators=others) if any(map(names_generation, (left, *others))):
                yield node.lineno
            case ast.MatchValue(value=value) if names_generation(value):
                yield value.lineno


@for_each(
    "line",
    [
        "generation is Generation.V07",
        "self._generation != other",
        "Generation.MODERN == found",
        "options.discovery.generation in (Generation.V07,)",
        "self.dialect is v07.DIALECT",
        "unit is OffsetUnit.BYTES",
        "settings.spoken is WireFormat.PROPOSAL",
        "match unit:\n    case OffsetUnit.BYTES:\n        pass",
    ],
)
def test_a_decision_is_seen_in_whichever_idiom(line: str) -> None:
    assert list(decisions(line))


@pytest.mark.slow
def test_no_code_asks_which_generation_it_is() -> None:
    result = {path.relative_to(ROOT).as_posix(): list(decisions(path.read_text())) for path in SOURCES}
    assert len(result) > 250
    assert {path for path, lines in result.items() if lines} == COMPARING.keys(), result
