"""The files that a job remembers things in: JSON that says what it is, with a checksum. Pure.

    PLAN = StateFormat("ingest 2", "a plan of ingest", advice="put the file back as it was")
    text = PLAN.seal({"batch": 7})
    PLAN.read(text, "/state/7.done.json", lambda content: content["batch"]) == 7

A state that was cut, or in which a bit has changed, must never be taken for another one: messages would
be lost or doubled, and nobody would know.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from ...errors import KafkaWireError, shown
from ...options.strict_json import NotAnObject, json_object
from .file_system import shown_path

T = TypeVar("T")

_PRODUCT: Final = "spark-kafkawire"
_FORMAT: Final = "format"
_CHECKSUM: Final = "sha256"


class StateError(KafkaWireError):
    """A file that a job remembers something in is damaged, missing, or another one's. Fatal."""


class BrokenSeal(ValueError):
    """What is wrong with a text. Never leaves the package: whoever reads the file says which one it is."""


@dataclass(frozen=True, slots=True)
class StateFormat:
    """What the files of a state hold.

    ``layout`` is written into each file, and has another number when the content changes its layout.
    ``name`` says what a file ought to be, ``advice`` what to do about one that is damaged or missing. An
    object that has keys of ``unsealed_keys`` alone is a content without a seal, as files once were.
    """

    layout: str
    name: str
    advice: str
    unsealed_keys: frozenset[str] = frozenset()

    def seal(self, content: Mapping[str, Any]) -> str:
        """The text of a file."""
        return seal(self.layout, content)

    def read(self, text: str, path: str, parse: Callable[[dict[str, Any]], T]) -> T:
        """What ``parse`` makes of the content of the file at ``path``.

        ``parse`` may raise ``BrokenSeal`` for a content that is another file's. Raises ``StateError`` for
        that, for a text that is damaged, and for a content that ``parse`` fails with.
        """
        try:
            return parse(unseal(text, self.layout, self.unsealed_keys))
        except BrokenSeal as error:
            raise self._not_so(path, str(error)) from error
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            what = shown(f"{type(error).__name__}: {error}")
            raise self._not_so(path, f"it is of another layout ({what})") from error

    def error(self, what: str) -> StateError:
        """The error for a file of which ``what`` is fields, with the advice."""
        return StateError(f"{what}; {self.advice}")

    def _not_so(self, path: str, why: str) -> StateError:
        return self.error(f"{shown_path(path)} is not {self.name}, or damaged: {why}")


def seal(layout: str, content: Mapping[str, Any]) -> str:
    """The text of a file of a layout."""
    fields = {_FORMAT: f"{_PRODUCT} {layout}", **content}
    return json.dumps({**fields, _CHECKSUM: _checksum(fields)}, indent=1) + "\n"


def unseal(text: str, layout: str, unsealed_keys: Collection[str] = ()) -> dict[str, Any]:
    """The content of ``seal``'s text. Raises ``BrokenSeal`` for any other text."""
    try:
        fields = json_object(text)
    except NotAnObject as error:
        raise BrokenSeal(str(error)) from error
    if fields and fields.keys() <= {*unsealed_keys}:
        return fields
    # A later layout may have another seal, so what it is comes first.
    if fields.get(_FORMAT) != (wanted := f"{_PRODUCT} {layout}"):
        raise BrokenSeal(f"its format is {shown(fields.get(_FORMAT))}, and not {wanted}")
    if fields.pop(_CHECKSUM, None) != _checksum(fields):
        raise BrokenSeal("its checksum is that of another text")
    del fields[_FORMAT]
    return fields


def _checksum(fields: Mapping[str, Any]) -> str:
    canonical = json.dumps(fields, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()
