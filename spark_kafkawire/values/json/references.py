"""References between JSON schemas and inside of one: ``$ref``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import unquote, urljoin

from spark_kafkawire.errors import OptionError, printable, quoted

_DEFINITIONS: Final = ("definitions", "$defs")


class Documents:
    """A schema, whose name is empty, and those that it refers to by their names."""

    def __init__(self, root: Any, references: Mapping[str, str]) -> None:
        self._named = {
            name: parsed(text, f"the reference {printable(name)}") for name, text in references.items()
        }
        self._named[""] = root
        self._by_id: dict[str, tuple[str, Any]] = {}
        for name, document in self._named.items():
            own = _id_of(document)
            for content in (document, *_definitions(document)):
                if _id_of(content):
                    self._by_id.setdefault(urljoin(own, _id_of(content)), (name, content))

    def resolved(self, ref: Any, document: str, place: str) -> tuple[str, Any]:
        """The name of the document in which a reference ends, and the content there."""
        if not isinstance(ref, str):
            raise OptionError(f"{place}: a $ref is not a text; correct the schema")
        base, _, fragment = ref.partition("#")
        name, content = self._document(base, document, place) if base else (document, self._named[document])
        for token in fragment.split("/")[1:]:
            token = unquote(token).replace("~1", "/").replace("~0", "~")
            if isinstance(content, dict) and token in content:
                content = content[token]
            elif isinstance(content, list) and token.isdecimal() and int(token) < len(content):
                content = content[int(token)]
            else:
                raise OptionError(f"{place}: the schema has no {quoted(ref)}; add it, or correct the $ref")
        if fragment and not fragment.startswith("/"):
            content = _anchored(content, fragment)
            if content is None:
                raise OptionError(f"{place}: the schema has no {quoted(ref)}; add it, or correct the $ref")
        return name, content

    def _document(self, base: str, document: str, place: str) -> tuple[str, Any]:
        full = urljoin(_id_of(self._named[document]), base)
        for name in (base, full):
            if name and name in self._named:
                return name, self._named[name]
        for known in (base, full):
            if known in self._by_id:
                return self._by_id[known]
        raise OptionError(
            f"{place}: the schema refers to {quoted(base)}, which is not in its references; add it there"
        )


def parsed(text: str, place: str) -> Any:
    """The JSON of a schema. Raises ``OptionError`` (fatal)."""
    try:
        content = json.loads(text)
    except ValueError as error:
        raise OptionError(f"{place} is not JSON: {printable(error)}; correct it") from None
    if not isinstance(content, (dict, bool)):
        raise OptionError(f"{place} is not a JSON schema: it is neither an object nor true; correct it")
    return content


def _id_of(content: Any) -> str:
    found = content.get("$id", "") if isinstance(content, dict) else ""
    return found.removesuffix("#") if isinstance(found, str) else ""


def _definitions(document: Any) -> list[Any]:
    places = [document.get(key) for key in _DEFINITIONS] if isinstance(document, dict) else []
    return [content for place in places if isinstance(place, dict) for content in place.values()]


def _anchored(document: Any, name: str) -> Any:
    for content in (document, *_definitions(document)):
        if isinstance(content, dict) and (content.get("$anchor") == name or content.get("$id") == f"#{name}"):
            return content
    return None
