"""Key tabs: where they are, and the principals whose keys they hold. The keys are for the library alone.

::

    05 02 | size | component count | realm | components | name type | timestamp | version | key | … | size | …

Integers are big-endian. An entry with a negative size is a hole.

Source: https://web.mit.edu/kerberos/krb5-latest/doc/formats/keytab_file_format.html
"""

from __future__ import annotations

import os
import re
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from spark_kafkawire.errors import AuthenticationError, listed_some, printable, quoted
from spark_kafkawire.regular_files import open_regular

#: Longest key tab, bytes: some 10,000 keys.
FILE_BYTES_MAX: Final = 1 << 20
_VERSION: Final = b"\x05\x02"
_WHERE: Final = (
    "keyTab of kafka.sasl.jaas.config is a path on the driver and on each executor, or the name of a file "
    "that spark-submit --files sends"
)
#: The beginning of the name of the driver's folder of files.
_SPARKS_FOLDER: Final = "userFiles-"
#: Principals that an error lists.
_LISTED_COUNT: Final = 5


def found_key_tab(name: str) -> str:
    """The path of a key tab: of a name that is not absolute, in the working directory or in the folder of
    ``--files``."""
    path = name.removeprefix("FILE:")
    if os.path.isabs(path):
        return path
    places = (Path(folder, path) for folder in (Path(), *_folders_of_spark()))
    return str(next((place for place in places if place.is_file()), Path(path)))


def _folders_of_spark() -> Iterator[Path]:
    """Folders in which ``--files`` may be. Spark puts them into the path of Python's modules; for streams and
    for sessions of Spark Connect it is a folder below, which need not exist."""
    for folder in map(Path, sys.path):
        yield folder
        if folder.parent.name.startswith(_SPARKS_FOLDER):
            yield folder.parent


def check_key_tab(path: str, principal: str) -> None:
    """Raise ``AuthenticationError`` (fatal) if the key tab has no key of the principal: the library does not
    say so."""
    data = _read(path)
    if not data.startswith(_VERSION):
        raise _failed(path, "is not a key tab of version 2; make it with kadmin ktadd or ktutil")
    try:
        known = list(dict.fromkeys(_principals(data)))
    except (struct.error, ValueError):
        raise _failed(
            path, "is damaged: an entry does not end where it should; copy it again from where it was made"
        ) from None
    realm_is_open = _realm_of(principal) is None
    names = [name.rpartition("@")[0] if realm_is_open else name for name in known]
    if principal not in names:
        listed = listed_some(known, _LISTED_COUNT, printable) or "none"
        raise _failed(
            path,
            f"has no key of the principal {quoted(principal)} of kafka.sasl.jaas.config; it has keys of "
            f"{listed}; name one of these",
        )


def _realm_of(principal: str) -> str | None:
    """The realm that a principal names, after an @ that no backslash escapes."""
    match = re.fullmatch(r"(?:[^@\\]|\\.)*@(.*)", principal, re.DOTALL)
    return match[1] if match else None


def _principals(data: bytes) -> Iterator[str]:
    pos = len(_VERSION)
    while pos < len(data):
        (size,) = struct.unpack_from(">i", data, pos)
        pos += 4
        if size == 0:  # the library ends here, too
            return
        if size > 0:
            if pos + size > len(data):
                raise ValueError
            yield _principal(data[pos : pos + size])
        pos += abs(size)


def _principal(entry: bytes) -> str:
    (count,) = struct.unpack_from(">H", entry, 0)
    pos, parts = 2, []
    for _ in range(count + 1):
        (size,) = struct.unpack_from(">H", entry, pos)
        if pos + 2 + size > len(entry):
            raise ValueError
        parts.append(_escaped(entry[pos + 2 : pos + 2 + size].decode("utf-8", "replace")))
        pos += 2 + size
    realm, *components = parts
    return f"{'/'.join(components)}@{realm}"


def _escaped(part: str) -> str:
    return re.sub(r"[/@\\]", r"\\\g<0>", part)


def _read(path: str) -> bytes:
    try:
        with open_regular(path) as file:
            data = file.read(FILE_BYTES_MAX + 1)
    except (OSError, ValueError) as error:
        reason = (isinstance(error, OSError) and error.strerror) or "it cannot be a file's name"
        raise _failed(
            path, f"cannot be read where the client connects: {printable(reason)}; {_WHERE}"
        ) from error
    if len(data) > FILE_BYTES_MAX:
        raise _failed(path, f"is longer than {FILE_BYTES_MAX} bytes; is it a key tab?")
    return data


def _failed(path: str, problem: str) -> AuthenticationError:
    return AuthenticationError(f"SASL GSSAPI: the key tab {quoted(path)} {problem}")
