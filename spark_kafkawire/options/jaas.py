"""``kafka.sasl.jaas.config``, as Java's login configuration has it::

    org.apache.kafka.common.security.plain.PlainLoginModule required
        username="alice" password="a \\"quoted\\" secret";

No error shows any part of the value: most of it are secrets.

Source: Kafka's JaasConfig.java, and java.io.StreamTokenizer, which it reads with.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from ..errors import OptionError

#: The option whose text is read here; its declaration imports this module for a login alone.
_NAME: Final = "kafka.sasl.jaas.config"
_FORM: Final = 'PlainLoginModule required username="…" password="…";'
_FLAGS: Final = ("required", "requisite", "sufficient", "optional")
_TOKEN: Final = re.compile(
    r"""
    \s+ | //[^\n]* | /\*.*?\*/                           # nothing
    | "(?P<double>(?:[^"\\\n]|\\.)*)"                    # a quoted text
    | '(?P<single>(?:[^'\\\n]|\\.)*)'
    | (?P<sign>[=;])
    | (?P<word>(?:(?!//|/\*)[^\s=;"'])+)
    """,
    re.VERBOSE | re.DOTALL,
)
#: An option of a login module that is a secret, in a text that may be damaged.
_SECRET: Final = re.compile(
    r"""
    (?i:password|secret|secretAccessKey|token) ["']? \s* = \s*
    (?: "((?:[^"\\\n]|\\.)*)" | '((?:[^'\\\n]|\\.)*)' | ["']?([^\s;"']+) )
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\([0-3]?[0-7]{1,2}|.)", re.DOTALL)
_ESCAPES: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


@dataclass(frozen=True, slots=True)
class JaasLogin:
    """The login module's simple name (``PlainLoginModule``) and its options."""

    module: str
    options: dict[str, str] = field(repr=False)


def parse_jaas(text: str) -> JaasLogin:
    """Read one login module. The semicolon at its end may be missing. Raises ``OptionError`` (fatal), which
    shows no value."""
    tokens = list(_tokens(text))
    ends = [pos for pos, token in enumerate(tokens) if token == (False, ";")] or [len(tokens)]
    if tokens[ends[0] + 1 :]:
        raise _bad("it has more than one login module, give one")
    entry = tokens[: ends[0]]
    if len(entry) < 2 or entry[1][1].lower() not in _FLAGS:
        raise _bad("it does not begin with a login module and 'required'")
    return JaasLogin(entry[0][1].rpartition(".")[2], dict(_pairs(entry[2:])))


def secrets_of(text: str) -> Iterator[str]:
    """The text, and the secrets in it, as they are written and as they are meant."""
    yield text
    for match in _SECRET.finditer(text):
        written = next(filter(None, match.groups()), "")
        yield from (written, _ESCAPE.sub(_unescape, written))


def _tokens(text: str) -> Iterator[tuple[bool, str]]:
    """Words, quoted texts and signs; whether each was quoted."""
    pos = 0
    while pos < len(text):
        match = _TOKEN.match(text, pos)
        if match is None:
            raise _bad("a quotation mark has no partner")
        quoted = match["double"] if match["double"] is not None else match["single"]
        if quoted is not None:
            yield True, _ESCAPE.sub(_unescape, quoted)
        elif match["sign"] or match["word"]:
            yield False, match["sign"] or match["word"]
        pos = match.end()


def _unescape(match: re.Match[str]) -> str:
    code = match[1]
    return chr(int(code, 8)) if code[0] in "01234567" else _ESCAPES.get(code, code)


def _pairs(tokens: list[tuple[bool, str]]) -> Iterator[tuple[str, str]]:
    for pos in range(0, len(tokens), 3):
        match tokens[pos : pos + 3]:
            case [(_, key), (False, "="), (quoted, value)] if quoted or value != "=":
                yield key, value
            case _:
                raise _bad('its options are not of the form key="value"')


def _bad(problem: str) -> OptionError:
    return OptionError(f"option {_NAME}: {problem}; it is of the form {_FORM} (its value is not shown)")
