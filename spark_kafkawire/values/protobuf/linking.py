"""Several Protobuf texts as one set of types: imports, names that refer to types, and defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from spark_kafkawire.errors import OptionError, listed_some, quoted

from .descriptors import text_of
from .parsing import File, Reference, parse_file
from .tokens import Tokens
from .types import Enum, Message
from .well_known import WELL_KNOWN

#: Characters of all texts together, and texts: more come from no build that people maintain.
_CHARACTERS_MAX: Final = 2 << 20
_FILES_MAX: Final = 1_000


def linked(text: str, references: Mapping[str, str]) -> File:
    """Parse a text and those that it imports, and connect fields with their types.

    An import is looked up in ``references``, then among Protobuf's own. One that is found in neither is an
    error only if a type is missing: many schemas import options, which have no influence on messages.
    """
    _expect_few(len(text), 1)
    text = text_of(text)
    _expect_few(len(text), 1)
    root = parse_file(text, "the Protobuf schema")
    files, missing = _imported(root, references, len(text))
    names: dict[str, Message | Enum] = {}
    for file in files:
        for name, named in file.names.items():
            if name in names:
                raise OptionError(
                    f"{file.tokens.place}: the type {quoted(name)} is declared in another file, too: remove "
                    "one"
                )
            names[name] = named
    for file in files:
        for each in file.references:
            _connect(each, file, names, missing)
    return root


def _imported(root: File, references: Mapping[str, str], size: int) -> tuple[list[File], list[str]]:
    files, missing, seen = [root], [], set()
    for file in files:  # grows in the loop
        for name in file.imports:
            if name in seen:
                continue
            seen.add(name)
            text = references.get(name, WELL_KNOWN.get(name))
            if text is None:
                missing.append(name)
                continue
            _expect_few(size + len(text), len(files) + 1)
            text = text_of(text)
            size += len(text)
            _expect_few(size, len(files) + 1)
            files.append(parse_file(text, f"the Protobuf schema {quoted(name)}"))
    return files, missing


def _expect_few(size: int, count: int) -> None:
    remedy = "leave out imports that the message does not use"
    if count > _FILES_MAX:
        raise OptionError(f"the Protobuf schema imports more than {_FILES_MAX - 1} files: {remedy}")
    if size > _CHARACTERS_MAX:
        raise OptionError(
            f"the Protobuf schema has with its imports more than {_CHARACTERS_MAX} characters: {remedy}"
        )


def _connect(
    reference: Reference, file: File, names: Mapping[str, Message | Enum], missing: list[str]
) -> None:
    each = reference.field
    if reference.type_name:
        found = _found(reference, names)
        if found is None:
            hint = (
                f"; imports that are not among its references: {listed_some(missing, 3, quoted)}"
                if missing
                else ""
            )
            file.tokens.refuse(f"the type {quoted(reference.type_name)} is unknown{hint}", reference.pos)
        each.type = found
        each.kind = "enum" if isinstance(found, Enum) else "message"
        each.has_presence |= each.kind == "message" and not each.is_repeated
        each.is_packed &= each.kind == "enum"
    if reference.default is not None:
        each.default = _default(reference, file.tokens.part(reference.default))


def _found(reference: Reference, names: Mapping[str, Message | Enum]) -> Message | Enum | None:
    """The type that a name means: the innermost one around the field."""
    if reference.type_name.startswith("."):
        return names.get(reference.type_name[1:])
    scope = reference.scope
    while True:
        found = names.get(f"{scope}.{reference.type_name}" if scope else reference.type_name)
        if found is not None or not scope:
            return found
        scope = scope.rpartition(".")[0]


def _default(reference: Reference, tokens: Tokens) -> Any:
    each = reference.field
    if each.kind == "enum":
        numbers = dict(each.enum.values)
        name = tokens.name()
        value: Any = numbers.get(name)
        if value is None:
            tokens.refuse(f"{quoted(name)} is no value of the enum {quoted(each.enum.name)}", reference.pos)
    elif each.kind == "bool":
        value = int(tokens.expect("true", "false") == "true")
    elif each.kind in ("string", "bytes"):
        value = tokens.string()
    elif each.kind in ("float", "double"):
        value = tokens.number()
    elif each.is_message:
        tokens.refuse("a field of a message type cannot have a default: remove it", reference.pos)
    else:
        value = _signed(each.kind, tokens.integer(), tokens, reference.pos)
    if tokens.peek().kind != "end":
        tokens.refuse("the default has more than one value", reference.pos)
    return value


def _signed(kind: str, number: int, tokens: Tokens, pos: int) -> int:
    """The integer as a column has it: unsigned ones become negative where their first bit is set."""
    bits = 32 if kind.endswith("32") else 64
    is_unsigned = kind in ("uint32", "uint64", "fixed32", "fixed64")
    low, high = (0, 2**bits) if is_unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1))
    if not low <= number < high:
        tokens.refuse(f"{quoted(number)} is no {kind}", pos)
    return number - 2**bits if number >= 2 ** (bits - 1) else number
