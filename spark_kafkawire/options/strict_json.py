"""Strict reader of JSON objects in options. Pure.

Python's own reader silently takes the last value of a key that occurs twice, and accepts numbers that JSON
does not have."""

from __future__ import annotations

import json
from typing import Any, NoReturn

from ..errors import printable


class NotAnObject(ValueError):
    """A text is not one JSON object. The message says what it is instead."""


class RepeatedKey(NotAnObject):
    """An object has a key twice."""

    def __init__(self, key: str) -> None:
        super().__init__(f"the key {printable(key)} appears twice")
        self.key = key


def json_object(text: str) -> dict[str, Any]:
    """The object that a text is. Raises ``NotAnObject`` for any other text, ``RepeatedKey`` where an object
    in it, however deep, has a key twice."""
    if not text.strip():
        raise NotAnObject("it is empty")
    try:
        value = json.loads(text, object_pairs_hook=_once_each, parse_constant=_no_number)
    except NotAnObject:
        raise
    except (ValueError, RecursionError) as error:
        raise NotAnObject("it is not JSON, or it is cut") from error
    if not isinstance(value, dict):
        raise NotAnObject("it is no JSON object")
    return value


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise RepeatedKey(key)
        found[key] = value
    return found


def _no_number(text: str) -> NoReturn:
    raise NotAnObject(f"{text} is no number")
