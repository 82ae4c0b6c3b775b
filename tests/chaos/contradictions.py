"""Two numbers of one response changed at once, so that it contradicts itself, or agrees in what is wrong.

    run(seed=1, seconds=60)              # as many as there is time for, in an order of the seed
    tell("read 0.7 OFFSETS 0 offsets.2 and offsets.1: the second twice, always")      # one of them again

The numbers are those of the responses that tell where logs start and end and where records lie: all of Fetch,
ListOffsets and OFFSETS, and of the headers of the batches in a Fetch response, which no checksum covers. Each
pair of them is changed in each of the ways of ``KINDS``. The outcome is judged as that of lies: all rows, or
one of our errors. An outcome that no client can know is accepted only where the answers do not contradict
each other (``answers``).
"""

from __future__ import annotations

import collections
import itertools
import random
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from spark_kafkawire.protocol import modern, v07
from spark_kafkawire.protocol.api import Api
from spark_kafkawire.protocol.primitives import Bytes, Int
from tests.support.log_server import Sent
from tests.support.memory_log import split

from .exchanges import Exchange
from .lies import Lie, honestly, judged, steps
from .lying_broker import Honest
from .shapes import Path, contradicted, spots

#: The APIs whose numbers are changed. What is fetched in 0.7 and in the format of the proposal holds none.
APIS: Final = (modern.FETCH, modern.LIST_OFFSETS, v07.OFFSETS)
#: Fields of a batch that no checksum covers, and where they lie: ``base_offset`` and ``leader_epoch``.
_IN_BATCH: Final[Mapping[str, slice]] = {"base_offset": slice(0, 8), "leader_epoch": slice(12, 16)}
#: Smallest number, in bytes, that is an offset, an id or a time; smaller ones are codes and counts.
_NUMBER_BYTES_MIN: Final = 4
#: How long a client waits is another matter.
_NO_OFFSETS: Final = ("throttle_time_ms",)

#: What becomes of two numbers.
Kind = Callable[[int, int], tuple[int, int]]


def _bit(bit: int) -> Kind:
    return lambda first, second: (first ^ 1 << bit, second)


def _more(first_more: int, second_more: int) -> Kind:
    return lambda first, second: (first + first_more, second + second_more)


KINDS: Final[Mapping[str, Kind]] = {
    "the second twice": lambda _, second: (second, second),
    "one above the second": lambda _, second: (second + 1, second),
    "one below the second": lambda _, second: (second - 1, second),
    "exchanged": lambda first, second: (second, first),
    **{f"bit {bit}": _bit(bit) for bit in (0, 1, 2, 3, 10, 40, 62)},
    "2^40 more": _more(1 << 40, 0),
    "both one more": _more(1, 1),
    "both one less": _more(-1, -1),
    "both 2^40 more": _more(1 << 40, 1 << 40),
    "2^40 more, and 2^41": _more(1 << 40, 1 << 41),
    "one more, and one less": _more(1, -1),
    "seven more, and -1": lambda first, _: (first + 7, -1),
    "both 0": lambda _, __: (0, 0),
}


def numbers(codec: Any, message: Any) -> dict[Path, tuple[int, int]]:
    """Paths of the numbers of a response, with their values and sizes in bytes."""
    found: dict[Path, tuple[int, int]] = {}
    for spot in spots(codec, message):
        if isinstance(spot.type, Int) and spot.type.size >= _NUMBER_BYTES_MIN:
            if spot.name not in _NO_OFFSETS:
                found[spot.path] = spot.value, spot.type.size
        elif isinstance(spot.type, Bytes) and spot.name == "records" and spot.value:
            for index, batch in enumerate(split(bytes(spot.value))):
                for name, place in _IN_BATCH.items():
                    value = int.from_bytes(batch[place], "big", signed=True)
                    here = (*spot.path, index, name)
                    found[here] = value, place.stop - place.start
    return found


def changed(message: Any, path: Path, value: int, size: int) -> Any:
    """The message with another number, or one as near to it as there is room for."""
    limit = 1 << 8 * size - 1
    value = max(-limit, min(value, limit - 1))
    if "records" not in path:
        return contradicted(message, path, value)
    *records, index, name = path
    data = message
    for step in records:
        data = getattr(data, step) if isinstance(step, str) else data[step]
    batches = [bytearray(each) for each in split(bytes(data))]
    batches[int(index)][_IN_BATCH[str(name)]] = value.to_bytes(size, "big", signed=True)
    return contradicted(message, tuple(records), b"".join(batches))


@dataclass(frozen=True, slots=True)
class Contradiction(Lie):
    """Two numbers told otherwise: those at ``path`` and at ``other``."""

    other: Path = ()

    def __str__(self) -> str:
        paths = " and ".join(".".join(map(str, path)) for path in (self.path, self.other))
        mode = "once" if self.is_reported_once else "always"
        return f"{self.exchange.name} {self.api.name} {self.version} {paths}: {self.kind}, {mode}"

    @property
    def names(self) -> frozenset[str]:
        return frozenset(_name(path) for path in (self.path, self.other))

    @property
    def is_about_something_else(self) -> bool:
        # Of two numbers one may be a key: the response may be right besides.
        return False

    def reported(self, honest: Honest) -> Any:
        """The message that replaces an honest response; the same message if it has no such numbers."""
        there = numbers(self.api.response_codec(self.version), honest.message)
        if self.path not in there or self.other not in there:
            return honest.message
        (first, first_size), (second, second_size) = there[self.path], there[self.other]
        values = KINDS[self.kind](first, second)
        message = changed(honest.message, self.path, values[0], first_size)
        return changed(message, self.other, values[1], second_size)

    def sent(self, honest: Honest) -> Sent | None:
        message = self.reported(honest)
        return None if message == honest.message else self.framed(honest, message)


def _name(path: Path) -> str:
    return next((step for step in reversed(path) if isinstance(step, str)), "")


@cache
def _paths(exchange: Exchange, api: Api, version: int) -> tuple[Path, ...]:
    codec = api.response_codec(version)
    responses = honestly(exchange, api, version)[1]
    there = {path for honest in responses for path in numbers(codec, honest.message)}
    return tuple(sorted(there, key=str))


def contradictions(exchange: Exchange, api: Api, version: int) -> Iterator[Contradiction]:
    """All that can be said of two numbers of an API's responses in one version, as an exchange has them."""
    for path, other in itertools.permutations(_paths(exchange, api, version), 2):
        for kind in KINDS:
            for is_reported_once in (False, True):
                yield Contradiction(exchange, api, version, path, kind, is_reported_once, other)


def places() -> Iterator[tuple[Exchange, Api, int]]:
    """Every exchange, API and version whose numbers can be changed."""
    for exchange, api, version in steps():
        if api in APIS and not exchange.name.startswith("write") and exchange.name != "report":
            yield exchange, api, version


def named(name: str) -> Contradiction:
    """The contradiction of that name, in which ``newest`` may stand for the newest version of an API."""
    for exchange, api, version in places():
        begins = f"{exchange.name} {api.name} "
        if version == api.versions.max:
            name = name.replace(f"{begins}newest ", f"{begins}{version} ")
        if name.startswith(f"{begins}{version} "):
            for each in contradictions(exchange, api, version):
                if str(each) == name:
                    return each
    raise LookupError(name)


def report(name: str) -> str:
    """Tell one again; what comes of it."""
    return judged(named(name))[0]


def run(seed: int, seconds: float) -> collections.Counter[str]:
    """Tell contradictions for so long, as many of each API, in an order that the seed gives; how often what
    came of them.

    Raises ``AssertionError`` with the seed and the contradiction's name where something else came than what
    comes of honest answers, or an error of ours.
    """
    draw = random.Random(seed)
    stop_s = time.monotonic() + seconds
    came: collections.Counter[str] = collections.Counter()
    order = list(places())
    for api in itertools.cycle(APIS):
        each = drawn(draw, *draw.choice([place for place in order if place[1] is api]))
        if time.monotonic() >= stop_s:
            return came
        try:
            came[judged(each)[0]] += 1
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
    return came


def drawn(draw: random.Random, exchange: Exchange, api: Api, version: int) -> Contradiction:
    """One of them: each pair of numbers as likely as any other."""
    path, other = draw.sample(_paths(exchange, api, version), 2)
    kind = draw.choice(list(KINDS))
    return Contradiction(exchange, api, version, path, kind, draw.random() < 0.5, other)
