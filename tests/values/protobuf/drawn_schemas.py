"""Schemas at random, with all that messages can be made of."""

from __future__ import annotations

import random

_INTEGERS = ("int32", "int64", "uint32", "uint64", "sint32", "sint64")
_FIXED = ("fixed32", "fixed64", "sfixed32", "sfixed64")
_SCALARS = (*_INTEGERS, *_FIXED, "bool", "float", "double", "string", "bytes")
_KEYS = [name for name in _SCALARS if name not in ("float", "double", "bytes")]
_FILES = {
    "Timestamp": "timestamp",
    "Duration": "duration",
    "Any": "any",
    **dict.fromkeys(("StringValue", "BytesValue", "BoolValue", "DoubleValue", "FloatValue"), "wrappers"),
    **dict.fromkeys(("Int64Value", "UInt64Value", "Int32Value", "UInt32Value"), "wrappers"),
    "Struct": "struct",
    "ListValue": "struct",
    "FieldMask": "field_mask",
    "Empty": "empty",
}
#: A message without fields, which has no column: where it is required, no column can be written.
_EMPTY = "google.protobuf.Empty"
#: Messages that contain themselves, and one without a column, whose bytes are not looked at.
_NOT_PLAIN = tuple(f"google.protobuf.{name}" for name in ("Struct", "ListValue", "Empty"))
_OWN = tuple(f"google.protobuf.{name}" for name in _FILES)
_DEFAULTS = {
    "bool": "true",
    "string": '"d\\x41\\n"',
    "bytes": '"\\377\\0x"',
    "float": "-1.5",
    "double": "inf",
}


class DrawnSchema:
    """A schema; ``text`` is that of the whole, ``name`` the full name of its first message.

    A ``plain`` one has no maps, of which runtimes keep different entries where one has unknown fields, and no
    message that contains itself, of which columns end at some depth, or that has none. ``own`` are those of
    Protobuf itself.
    """

    def __init__(self, seed: int, *, plain: bool = False, own: tuple[str, ...] = _OWN) -> None:
        self._chance = random.Random(seed)
        self._plain = plain
        self._own = [name for name in own if not plain or name not in _NOT_PLAIN]
        self.is_proto3 = self._chance.random() < 0.6
        self.name = "drawn.M0"
        self._count = 0
        bodies = [self._message(f"M{index}", 0) for index in range(self._chance.randint(1, 3))]
        body = "".join(bodies)
        imports = {file for name, file in _FILES.items() if f"google.protobuf.{name}" in body}
        lines = [f'import "google/protobuf/{each}.proto";\n' for each in sorted(imports)]
        syntax = "proto3" if self.is_proto3 else "proto2"
        self.text = f'syntax = "{syntax}";\npackage drawn;\n{"".join(lines)}{body}'

    def _message(self, name: str, depth: int) -> str:
        chance, lines = self._chance, []
        messages = [f"In{depth}{index}" for index in range(chance.randint(0, 2) if depth < 2 else 0)]
        lines += [self._message(each, depth + 1) for each in messages]
        zero = "Z" if chance.random() < 0.5 else "zero"
        self._count += 1
        low = chance.choice((7, -3))
        lines.append(
            f"enum E {{ {zero}{self._count} = 0; two{self._count} = 2; odd{self._count} = {low}; }}\n"
        )
        numbers = (
            chance.sample(range(1, 40), 12) if chance.random() < 0.9 else [*range(1, 9), 20000, 2**29 - 1]
        )
        names = iter(f"f{index}" for index in range(100))
        types = [*messages, *messages, "E", *([name] if not self._plain and chance.random() < 0.5 else [])]
        oneof: list[str] = []
        for number in numbers[: chance.randint(1, len(numbers))]:
            self._field(next(names), number, types, lines, oneof)
        if oneof:
            lines.append("oneof choice { " + " ".join(oneof) + " }\n")
        return f"message {name} {{\n" + "".join(lines) + "}\n"

    def _field(self, name: str, number: int, types: list[str], lines: list[str], oneof: list[str]) -> None:
        chance = self._chance
        of = chance.choice(_SCALARS)
        if chance.random() < 0.4:
            of = chance.choice([*types, *self._own])
        kind = chance.random()
        if kind < 0.12 and not self._plain:
            lines.append(f"map<{chance.choice(_KEYS)}, {of}> {name} = {number};\n")
        elif kind < 0.3:
            packed = chance.choice(("", "", " [packed = true]", " [packed = false]"))
            packs = of in _SCALARS[:-2] or of == "E"
            lines.append(f"repeated {of} {name} = {number}{packed if packs else ''};\n")
        elif kind < 0.42:
            oneof.append(f"{of} {name} = {number};")
        elif self.is_proto3:
            lines.append(f"{'optional ' * (chance.random() < 0.3)}{of} {name} = {number};\n")
        elif kind < 0.5:
            lines.append(
                f"optional group G{name} = {number} {{ optional {of} x = 1; repeated int32 y = 2; }}\n"
            )
        elif kind < 0.56 and of not in (types[-1], _EMPTY):
            lines.append(f"required {of} {name} = {number};\n")
        else:
            default = _DEFAULTS.get(of, "5") if of in _SCALARS else f"two{self._count}"
            has_default = chance.random() < 0.4 and (of in _SCALARS or of == "E")
            lines.append(f"optional {of} {name} = {number}{f' [default = {default}]' * has_default};\n")
