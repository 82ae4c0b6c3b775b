"""The option of streams about writers that add fields while a query runs."""

from __future__ import annotations

from typing import Final

from .option import READ, mapped, option

EVOLUTION: Final = option(
    "avroSchemaEvolutionMode",
    mapped({"none": False, "restart": True}),
    default="none",
    sides=READ,
    meaning="`restart`: the query ends when a message's schema has a field that the schema of the query "
    "lacks; the next `load()` takes it",
)
