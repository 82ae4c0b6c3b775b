"""The text of files that a job remembers things in: JSON that says what it is, with a checksum. Pure.

    text = seal("ingest 2", {"batch": 7})
    unseal(text, "ingest 2") == {"batch": 7}

A state that was cut, or in which a bit has changed, must never be taken for another one: messages would
be lost or doubled, and nobody would know.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from typing import Any, Final, NoReturn

from ...errors import shown

_PRODUCT: Final = "spark-kafkawire"
_FORMAT: Final = "format"
_CHECKSUM: Final = "sha256"


class BrokenSeal(ValueError):
    """What is wrong with a text. Never leaves the package: whoever reads the file says which one it is."""


def seal(kind: str, content: Mapping[str, Any]) -> str:
    """The text of a file of a kind, which has the number of its layout in it."""
    told = {_FORMAT: f"{_PRODUCT} {kind}", **content}
    return json.dumps({**told, _CHECKSUM: _checksum(told)}, indent=1) + "\n"


def unseal(text: str, kind: str, unsealed_keys: Collection[str] = ()) -> dict[str, Any]:
    """The content of ``seal``'s text. Raises ``BrokenSeal`` for any other text.

    An object that has keys of ``unsealed_keys`` alone is a content without a seal, as files once were.
    """
    told = _object_of(text)
    if told and told.keys() <= {*unsealed_keys}:
        return told
    # A later layout may have another seal, so what it is comes first.
    if told.get(_FORMAT) != (wanted := f"{_PRODUCT} {kind}"):
        raise BrokenSeal(f"its format is {shown(told.get(_FORMAT))}, and not {wanted}")
    if told.pop(_CHECKSUM, None) != _checksum(told):
        raise BrokenSeal("its checksum is that of another text")
    del told[_FORMAT]
    return told


def _checksum(told: Mapping[str, Any]) -> str:
    canonical = json.dumps(told, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()


def _object_of(text: str) -> dict[str, Any]:
    if not text.strip():
        raise BrokenSeal("it is empty")
    try:
        content = json.loads(text, object_pairs_hook=_once, parse_constant=_no_number)
    except BrokenSeal:
        raise
    except (ValueError, RecursionError) as error:
        raise BrokenSeal("it is not JSON, or cut") from error
    if not isinstance(content, dict):
        raise BrokenSeal("it is no JSON object")
    return content


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        raise BrokenSeal("it has a key twice")
    return content


def _no_number(text: str) -> NoReturn:
    raise BrokenSeal(f"{text} is no number")
