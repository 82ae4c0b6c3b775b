"""The format of state files of a job: JSON with its format's name and a checksum. Pure.

    PLAN = StateFormat("ingest 2", "a plan of ingest", advice="put the file back as it was")
    text = PLAN.seal({"batch": 7})
    PLAN.read(text, "/state/7.done.json", lambda content: content["batch"]) == 7

A state that was cut or damaged must never be read as another one: messages would be lost or duplicated
without an error.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from spark_kafkawire.errors import KafkaWireError, printable
from spark_kafkawire.options.strict_json import NotAnObject, json_object

from .file_system import printable_path

T = TypeVar("T")

_PRODUCT: Final = "spark-kafkawire"
_FORMAT: Final = "format"
_CHECKSUM: Final = "sha256"


class StateError(KafkaWireError):
    """A file that a job remembers something in is damaged, missing, or another one's. Fatal."""


class BrokenSeal(ValueError):
    """A defect of a text. It never leaves the package: the reader of the file adds its name."""


@dataclass(frozen=True, slots=True)
class StateFormat:
    """A format of state files.

    ``layout`` is written into each file; its number changes with the layout of the content.
    ``name`` is the kind of file in errors, ``advice`` the next step for one that is damaged or missing.
    """

    layout: str
    name: str
    advice: str

    def seal(self, content: Mapping[str, Any]) -> str:
        """The text of a file."""
        return seal(self.layout, content)

    def read(self, text: str, path: str, parse: Callable[[dict[str, Any]], T]) -> T:
        """The result of ``parse`` for the content of the file at ``path``.

        ``parse`` may raise ``BrokenSeal`` for a content that is another file's. Raises ``StateError`` for
        that, for a text that is damaged, and for a content that ``parse`` fails with.
        """
        try:
            return parse(unseal(text, self.layout))
        except BrokenSeal as error:
            raise self._not_so(path, str(error)) from error
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            what = printable(f"{type(error).__name__}: {error}")
            raise self._not_so(path, f"it is of another layout ({what})") from error

    def error(self, what: str) -> StateError:
        """The error with the text ``what``, followed by the advice."""
        return StateError(f"{what}; {self.advice}")

    def _not_so(self, path: str, why: str) -> StateError:
        return self.error(f"{printable_path(path)} is not {self.name}, or damaged: {why}")


def seal(layout: str, content: Mapping[str, Any]) -> str:
    """The text of a file of a layout."""
    fields = {_FORMAT: f"{_PRODUCT} {layout}", **content}
    return json.dumps({**fields, _CHECKSUM: _checksum(fields)}, indent=1) + "\n"


def unseal(text: str, layout: str) -> dict[str, Any]:
    """The content of ``seal``'s text. Raises ``BrokenSeal`` for any other text."""
    try:
        fields = json_object(text)
    except NotAnObject as error:
        raise BrokenSeal(str(error)) from error
    # A later layout may have another checksum, so the layout is checked first.
    if fields.get(_FORMAT) != (wanted := f"{_PRODUCT} {layout}"):
        raise BrokenSeal(f"its format is {printable(fields.get(_FORMAT))}, and not {wanted}")
    if fields.pop(_CHECKSUM, None) != _checksum(fields):
        raise BrokenSeal("its checksum does not match its text")
    del fields[_FORMAT]
    return fields


def _checksum(fields: Mapping[str, Any]) -> str:
    canonical = json.dumps(fields, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()
