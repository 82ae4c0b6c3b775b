"""Tokens of Protobuf schemas."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple, NoReturn

from spark_kafkawire.errors import OptionError, quoted

_TOKEN: Final = re.compile(
    r"""(?P<blank>\s+|//[^\n]*|/\*.*?\*/|\ufeff)
    |(?P<name>\.?[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*)
    |(?P<number>0[xX][0-9a-fA-F]+|(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)
    |(?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
    |(?P<symbol>[{}()\[\]<>;:=,+/.-])""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE: Final = re.compile(
    r"\\(?:[xX]([0-9a-fA-F]{1,2})|([0-7]{1,3})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL
)
_SINGLE: Final = {"a": 7, "b": 8, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11}
_UNICODE_MAX: Final = 0x10FFFF
#: Digits of a number, in any notation: Python refuses to read long ones.
_DIGITS_MAX: Final = 400

#: A name is looked up in each scope around it, so their number is limited, and the size of a name.
_PARTS_MAX: Final = 32
_NAME_SIZE_MAX: Final = 500


class Token(NamedTuple):
    """A token: its kind (name, number, string, symbol, end), its text, and its place in the schema's text."""

    kind: str
    text: str
    pos: int


class Tokens:
    """The tokens of one text. ``place`` names it in errors."""

    def __init__(self, text: str, place: str, part: list[Token] | None = None) -> None:
        self._text = text
        self.place = place
        # Tokens are read when they are asked for: all of a large text take a hundred times its memory.
        self._others = (
            self._read() if part is None else iter([*part, Token("end", "the end of the value", 0)])
        )
        self._next = Token("end", "", 0)
        self._next = next(self._others)

    def part(self, tokens: list[Token]) -> Tokens:
        """Some of these tokens alone, with the same places."""
        return Tokens(self._text, self.place, tokens)

    def _read(self) -> Iterator[Token]:
        pos = 0
        while pos < len(self._text):
            match = _TOKEN.match(self._text, pos)
            if match is None:
                self.refuse(f"{quoted(self._text[pos])} is no part of a schema", pos)
            if match.lastgroup != "blank":
                yield Token(str(match.lastgroup), match.group(), pos)
            pos = match.end()
        yield Token("end", "the end of the text", len(self._text))

    def refuse(self, mistake: str, pos: int | None = None) -> NoReturn:
        """Raise ``OptionError`` (fatal) with the line of a place, or of the next token."""
        line = self._text.count("\n", 0, self._next.pos if pos is None else pos) + 1
        raise OptionError(f"{self.place}, line {line}: {mistake}; correct the schema there")

    def peek(self) -> Token:
        """The next token, which stays the next one."""
        return self._next

    def next(self) -> Token:
        """The next token; the last one is of the kind ``end``, and never passed."""
        token = self._next
        self._next = next(self._others, token)
        return token

    def accept(self, *texts: str) -> str:
        """Pass one of these symbols or keywords; empty if another token comes."""
        token = self.peek()
        return self.next().text if token.kind in ("name", "symbol") and token.text in texts else ""

    def expect(self, *texts: str) -> str:
        """Pass one of these symbols or keywords."""
        return self.accept(*texts) or self.refuse(
            f"{' or '.join(map(quoted, texts))} is expected, not {quoted(self.peek().text)}"
        )

    def name(self, *, dotted: bool = False) -> str:
        """Pass a name."""
        token = self.peek()
        if token.kind != "name" or ("." in token.text and not dotted):
            self.refuse(f"a name is expected, not {quoted(token.text)}")
        if token.text.count(".") > _PARTS_MAX or len(token.text) > _NAME_SIZE_MAX:
            self.refuse(f"the name {quoted(token.text)} is too long")
        return self.next().text

    def integer(self) -> int:
        """Pass an integer, decimal, hexadecimal or octal, with or without a sign."""
        is_negative = bool(self.accept("-"))
        text = self.peek().text
        try:
            number = int(text[:_DIGITS_MAX], 8 if text.startswith("0") and text.isdigit() else 0)
        except ValueError:
            self.refuse(f"an integer is expected, not {quoted(text)}")
        self.next()
        return -number if is_negative else number

    def number(self) -> float:
        """Pass a number of any kind, ``inf`` or ``nan``."""
        factor = -1.0 if self.accept("-") else 1.0
        text = self.peek().text
        try:
            number = float(int(text[:_DIGITS_MAX], 0)) if text[:2].lower() == "0x" else float(text)
        except (ValueError, OverflowError):
            self.refuse(f"a number is expected, not {quoted(text)}")
        self.next()
        return factor * number

    def string(self) -> bytes:
        """Pass a string, or several one after the other, which are one."""
        if self.peek().kind != "string":
            self.refuse(f"a string is expected, not {quoted(self.peek().text)}")
        content = bytearray()
        while self.peek().kind == "string":
            content += self._unescaped(self.next())
        return bytes(content)

    def _unescaped(self, token: Token) -> bytes:
        text, content, pos = token.text[1:-1], bytearray(), 0
        for match in _ESCAPE.finditer(text):
            content += text[pos : match.start()].encode("utf-8", "surrogatepass")
            hexadecimal, octal, short, long, single = match.groups()
            if single is None and not (short or long):
                content.append((int(hexadecimal, 16) if hexadecimal else int(octal, 8)) & 0xFF)
            elif single is None:
                code = min(int(short or long, 16), _UNICODE_MAX)
                content += chr(code).encode("utf-8", "surrogatepass")
            else:
                content += (
                    bytes([_SINGLE[single]]) if single in _SINGLE else single.encode("utf-8", "replace")
                )
            pos = match.end()
        return bytes(content + text[pos:].encode("utf-8", "surrogatepass"))

    def skip_statement(self) -> None:
        """Pass all up to the next semicolon, or up to the end of the next block in braces."""
        depth = 0
        while True:
            token = self.next()
            if token.kind == "end":
                self.refuse("the schema ends in the middle of a statement: add the rest of it")
            if token.kind == "symbol":
                depth += (token.text in "{[(") - (token.text in "}])")
                if depth < 0:
                    self.refuse(f"{quoted(token.text)} closes nothing", token.pos)
                if depth == 0 and token.text in ";}":
                    return
