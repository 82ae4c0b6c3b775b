"""Options of a read of log directories, without brokers: paths, ids of brokers of 0.7, and file systems."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ..errors import OptionError, printable, quoted
from ..model import Generation
from .option import BATCH_READ, V07, bad_value, option, string
from .raw import RawOptions

if TYPE_CHECKING:
    from ..directories.files import FileSystemOptions

PATH: Final = option(
    "path",
    string,
    sides=BATCH_READ,
    meaning="the argument of `load`: a broker's `log.dirs`, read without brokers",
)
PATHS: Final = option(
    "paths",
    string,
    sides=BATCH_READ,
    meaning='the same of several brokers, `["/b1","/b2"]`; the argument of `load` may be such a list',
)
BROKERS: Final = option(
    "brokers",
    string,
    sides=BATCH_READ,
    generation=V07,
    meaning="`0,1`: the ids of the brokers whose directories are read, in their order; else 0, 1, ...",
)
FILE_ENDPOINT: Final = option(
    "fs.endpoint",
    string,
    sides=BATCH_READ,
    meaning="`http://host:port`: the address of the object store that has the directories",
)
FILE_REGION: Final = option("fs.region", string, sides=BATCH_READ, meaning="the region of that store")
#: Most directories of one read.
_PATHS_COUNT_MAX: Final = 1000


@dataclass(frozen=True, slots=True)
class Directories:
    """Log directories to read. ``broker_ids`` has an id for each path."""

    paths: tuple[str, ...]
    broker_ids: tuple[int, ...]
    generation: Generation
    settings: FileSystemOptions


def parse_directories(options: RawOptions) -> Directories | None:
    """The log directories of the options; None without a path. It looks into them, for their segments choose
    the generation.

    Raises ``OptionError`` (fatal).
    """
    given = options.given(PATH, PATHS)
    if not given:
        if strangers := options.given(BROKERS, FILE_ENDPOINT, FILE_REGION):
            raise OptionError(
                f"option {strangers[0]} is for log directories, and no path is set: give a path to load()"
            )
        return None
    if len(given) > 1:
        raise OptionError("options path and paths are both set: set one of them")
    paths = _paths(options)
    from ..directories.files import FileSystemOptions

    settings = FileSystemOptions(options[FILE_ENDPOINT], options[FILE_REGION])
    return Directories(paths, _broker_ids(options, len(paths)), _generation(paths, settings), settings)


def _paths(options: RawOptions) -> tuple[str, ...]:
    path = options[PATH]
    given = _listed(options[PATHS] or "") if path is None else [path]
    found = tuple(each.strip().rstrip("/") or "/" for each in given)
    if "/" in found or "" in found:
        raise OptionError(
            f"option {options.given(PATH, PATHS)[0]}: {quoted('/')} is not the path of logs; give one like "
            "/backup/kafka-logs"
        )
    if len(set(found)) != len(found):
        twice = next(each for each in found if found.count(each) > 1)
        raise OptionError(f"option paths: {quoted(twice)} is there twice; remove one of them")
    if len(found) > _PATHS_COUNT_MAX:
        raise OptionError(
            f"option paths: {len(found)} paths, at most {_PATHS_COUNT_MAX} are read at once; read them in "
            "parts"
        )
    return found


def _listed(text: str) -> list[str]:
    try:
        paths = json.loads(text)
    except ValueError:
        paths = None
    if not isinstance(paths, list) or not paths or not all(isinstance(each, str) for each in paths):
        raise bad_value(PATHS.name, text, 'a list of paths in JSON, ["/b1","/b2"]')
    return paths


def _broker_ids(options: RawOptions, count: int) -> tuple[int, ...]:
    text = options[BROKERS]
    if text is None:
        return tuple(range(count))
    entries = [entry.strip() for entry in text.split(",")]
    ids = [int(entry) for entry in entries if re.fullmatch(r"0|[1-9][0-9]{0,8}", entry)]
    if len(ids) != len(entries) or len(set(ids)) != len(ids) or len(ids) != count:
        raise bad_value(BROKERS.name, text, f"{count} different ids, one for each path, such as 0,1")
    return tuple(ids)


def _generation(paths: tuple[str, ...], settings: FileSystemOptions) -> Generation:
    """The generation of the first log with segments in each directory."""
    from ..directories.scanning import generation_in, scan

    found: dict[Generation, str] = {}
    for path in paths:
        found.setdefault(generation_in(scan(path, settings)), path)
    if len(found) > 1:
        shown = " and ".join(f"those in {printable(path)} of {each.title}" for each, path in found.items())
        raise OptionError(f"option paths: logs are of two kinds, {shown}: read them one after the other")
    [generation] = found
    return generation
