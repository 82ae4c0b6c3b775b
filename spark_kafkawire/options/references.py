"""References in the values of options, as Kafka's configuration providers have them::

    ${env:NAME}               a variable of the environment of the driver
    ${file:/path:key}         a key of a file of properties on the driver
    ${directory:/path:name}   the content of a file on the driver, in the folder that is named

Spark shows options in plans and logs, so they hold the reference. The value is read where the source plans,
after Spark has its plan. A value is never searched for references.

Files of properties are ``key=value`` lines, as Java's properties and ``spark-defaults.conf`` are written::

    # a comment; ! begins one, too
    kafka.bootstrap.servers=h:9092
    kafka.security.protocol  SASL_SSL
    kafka.sasl.jaas.config: org.apache.kafka.common.security.scram.ScramLoginModule required \
        username="etl" password="...";

A line ends its key at the first ``=``, ``:`` or blank; a backslash at its end joins the next line.

Source: Kafka's ConfigTransformer, EnvVarConfigProvider, FileConfigProvider, DirectoryConfigProvider;
java.util.Properties.load.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from ..errors import OptionError, printable, quote
from .option import file_bytes

#: The key up to a blank, ``=`` or ``:`` without a backslash before it, and the rest.
_KEY_AND_VALUE: Final = re.compile(r"((?:\\.|[^ \t\f=:\\])*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)
#: The blanks and the ends of a line in Java's format; other characters of Unicode do not count.
_BLANKS: Final = " \t\f"
_LINE_END: Final = re.compile(r"\r\n|\r|\n")
_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_CONTROLS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(text: str) -> dict[str, str]:
    """The properties of a file's text. Raises ``RepeatedProperty`` if a key occurs twice, in any case: Java
    silently takes the last one."""
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
        yield _unescape(match[1]), _unescape(match[2].rstrip(_BLANKS))


class RepeatedProperty(ValueError):
    """A file has a key twice; the key is its text."""


def _logical_lines(text: str) -> Iterator[str]:
    """Lines without comments, joined where a backslash ends them."""
    lines = iter(_LINE_END.split(text))
    for line in lines:
        line = line.lstrip(_BLANKS)
        if not line or line[0] in "#!":
            continue
        while (len(line) - len(line.rstrip("\\"))) % 2:
            line = line[:-1] + next(lines, "").lstrip(_BLANKS)
        yield line


def _unescape(text: str) -> str:
    return _ESCAPE.sub(
        lambda match: chr(int(match[1], 16)) if match[1] else _CONTROLS.get(match[2], match[2]), text
    )


#: The provider, and what it is asked for.
_REFERENCE: Final = re.compile(r"\$\{([A-Za-z0-9_.-]+):([^}]*)\}")
_FORMS: Final = "${env:NAME}, ${file:/path:key} and ${directory:/path:name}"
#: Longest file, bytes.
FILE_BYTES_MAX: Final = 1 << 20
#: Characters from which on a value is replaced wherever it is in an error; a shorter one only in quotation
#: marks, as numbers and words of the error may contain it.
_REPLACED_SIZE_MIN: Final = 8


@contextmanager
def resolve_references(texts: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """The texts of options, by their names, with the values of their references. An ``OptionError`` within
    the block that shows a value gets the reference in its place. Raises ``OptionError`` (fatal), which shows
    no value, for a reference without one."""
    shown: dict[str, str] = {}  # what errors have in place of the values
    result = {name: _resolve_text(name, text, shown) for name, text in texts.items()}
    try:
        yield result
    except OptionError as error:
        message = _without_values(str(error), shown)
        if message == str(error):
            raise
        raise OptionError(f"{message} (references are shown in place of their values)") from None


def _resolve_text(name: str, text: str, shown: dict[str, str]) -> str:
    """The text of one option with values. Adds them, and the whole text, to ``shown``."""

    def value_of(match: re.Match[str]) -> str:
        provider = _PROVIDERS.get(match[1])
        if provider is None:
            raise OptionError(
                f"option {name}: a reference of the form ${{provider:…}} has an unknown provider (its value "
                f"is not shown); known are {_FORMS}; put a secret that contains such a text into one of them"
            )
        value = provider(f"option {name}: {printable(match[0])}", match[2])
        shown[value] = match[0]
        return value

    whole = _REFERENCE.sub(value_of, text)
    if whole != text:
        shown[whole] = text
    return whole


def _without_values(message: str, shown: Mapping[str, str]) -> str:
    """A message with the references in place of their values, in the forms in which errors show them."""
    forms = {
        form: reference
        for value, reference in shown.items()
        for item in (value, value.strip())
        for form in map(printable, (item, item.lower(), item.upper()))
    }
    for form in sorted(filter(None, forms), key=len, reverse=True):
        if len(form) >= _REPLACED_SIZE_MIN:
            message = message.replace(form, forms[form])
        else:
            message = message.replace(f"'{form}'", f"'{forms[form]}'")
    return message


def _read_environment(place: str, name: str) -> str:
    value = os.environ.get(name)
    if value is None:
        raise OptionError(
            f"{place}: the variable is not set in the environment of Spark's driver; set it before Spark "
            "starts, or use ${file:/path:key}"
        )
    return value


def _read_properties(place: str, asked: str) -> str:
    path, colon, key = asked.partition(":")
    if not colon or not path or not key:
        raise OptionError(f"{place}: not of the form ${{file:/path:key}}; correct it")
    value = dict(property_pairs(_text(place, path))).get(key)
    if value is None:
        raise OptionError(
            f"{place}: the file has no key {quote(key)}; add a line {printable(key)}=… to it, or correct "
            "the key"
        )
    return value


def _read_directory(place: str, asked: str) -> str:
    path, colon, name = asked.partition(":")
    if not colon or not path or not name or name in (".", "..") or "/" in name:
        raise OptionError(
            f"{place}: not of the form ${{directory:/path:name}}, with the name of a file there; correct it"
        )
    # Editors and ``echo`` end a file with a line end, which belongs to no secret.
    return re.sub(r"\r?\n\Z", "", _text(place, os.path.join(path, name)))


def _text(place: str, path: str) -> str:
    advice = "give the path of a file that is there"
    data = file_bytes(f"{place}: the file", path, FILE_BYTES_MAX, advice, "give the path of a smaller one")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        # Its own text would show a part of the file.
        raise OptionError(f"{place}: the file is not a text in UTF-8; save it in UTF-8") from None


_PROVIDERS: Final[Mapping[str, Callable[[str, str], str]]] = {
    "env": _read_environment,
    "file": _read_properties,
    "directory": _read_directory,
}
