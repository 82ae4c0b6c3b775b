"""Fields of a writer's schema that a reader's schema does not have."""

from __future__ import annotations

from .resolution import matching_branch, resolves
from .schema import Schema
from .types import AvroType


def new_field(writer: Schema, reader: Schema) -> str | None:
    """The dotted path of the first field of ``writer`` that ``reader`` lacks by its name and its aliases."""
    return _new_field(writer.root, reader.root, "", set())


def _new_field(writer: AvroType, reader: AvroType, path: str, seen: set[tuple[int, int]]) -> str | None:
    if (id(writer), id(reader)) in seen:  # a record may contain itself
        return None
    seen.add((id(writer), id(reader)))
    pairs: list[tuple[AvroType, AvroType, str]] = []
    if writer.kind == "union":
        pairs = [(branch, reader, path) for branch in writer.branches]
    elif reader.kind == "union":
        branch = matching_branch(writer, reader)
        pairs = [] if branch is None else [(writer, branch, path)]
    elif not resolves(writer, reader):
        return None
    elif writer.kind == "record":
        known = {name: each for each in reader.fields for name in (each.name, *each.aliases)}
        for each in writer.fields:
            inside = f"{path}.{each.name}" if path else each.name
            if each.name not in known:
                return inside
            pairs.append((each.type, known[each.name].type, inside))
    elif writer.kind in ("array", "map"):
        pairs = [(writer.item_type, reader.item_type, path)]
    found = (_new_field(*pair, seen) for pair in pairs)
    return next((each for each in found if each is not None), None)
