"""Files of ``key=value`` lines, as Java's properties and ``spark-defaults.conf`` are written. Pure.

    # a comment; ! begins one, too
    kafka.bootstrap.servers=h:9092
    kafka.security.protocol  SASL_SSL
    kafka.sasl.jaas.config: org.apache.kafka.common.security.scram.ScramLoginModule required \\
        username="etl" password="...";

A line ends its key at the first ``=``, ``:`` or blank; a backslash at its end joins the next line.

Source: java.util.Properties.load.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

#: The key up to a blank, ``=`` or ``:`` without a backslash before it, and the rest.
_KEY_AND_VALUE: Final = re.compile(r"((?:\\.|[^ \t\f=:\\])*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)
#: The blanks and the ends of a line in Java's format; other characters of Unicode do not count.
_BLANKS: Final = " \t\f"
_LINE_END: Final = re.compile(r"\r\n|\r|\n")
_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_CONTROLS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(text: str) -> dict[str, str]:
    """The properties of a file's text.

    Raises ``RepeatedProperty`` if a key occurs twice, in any case: Java silently takes the last one.
    """
    properties: dict[str, str] = {}
    names: set[str] = set()
    for key, value in property_pairs(text):
        if key.lower() in names:
            raise RepeatedProperty(key)
        names.add(key.lower())
        properties[key] = value
    return properties


def property_pairs(text: str) -> Iterator[tuple[str, str]]:
    """The keys and values of a file's text, in its order."""
    for line in _logical_lines(text):
        match = _KEY_AND_VALUE.fullmatch(line)
        assert match is not None, "every line matches"
        yield _unescaped(match[1]), _unescaped(match[2].rstrip(_BLANKS))


class RepeatedProperty(ValueError):
    """A file has a key twice; the key is its text."""


def _logical_lines(text: str) -> Iterator[str]:
    """Lines without comments, joined where a backslash ends them."""
    lines = iter(_LINE_END.split(text))
    for line in lines:
        line = line.lstrip(_BLANKS)
        if not line or line[0] in "#!":
            continue
        while _continues(line):
            line = line[:-1] + next(lines, "").lstrip(_BLANKS)
        yield line


def _continues(line: str) -> bool:
    backslashes = len(line) - len(line.rstrip("\\"))
    return backslashes % 2 == 1


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda match: chr(int(match[1], 16)) if match[1] else _control(match[2]), text)


def _control(letter: str) -> str:
    return _CONTROLS.get(letter, letter)
