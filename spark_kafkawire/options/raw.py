"""The user's strings, looked up by documented name and read as one type each."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from ..errors import OptionError, lookalikes, quoted, shown
from ..model import Generation
from .kafka_properties import is_kafka_property, pass_over
from .option import Option
from .stream_table import STREAM_OPTIONS
from .table import OPTIONS

_SIZE_UNITS: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_TIME_UNITS: Final = {"ms": 0.001, "": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
#: Largest value of a size option, bytes: Arrow's offsets and the protocol's lengths are int32.
_SIZE_MAX: Final = 1 << 30
#: Largest value of a time option, seconds: sockets cannot wait for any number.
_TIME_MAX_S: Final = 86_400.0
#: What may stand around a value, and means nothing.
BLANKS: Final = " \t\r\n\f\v"
#: How much like a known name a property of Kafka is that is taken for a typing error.
_TYPING_ERROR: Final = 0.9
#: Spark's own option of each streaming query.
_CHECKPOINT: Final = "checkpointLocation"
#: Options, in lower case, that mean nothing to batch reads.
OF_STREAMS_ALONE: Final = frozenset(option.name.lower() for option in STREAM_OPTIONS).difference(
    option.name.lower() for option in OPTIONS
)


class RawOptions:
    """The user's strings, each looked up under its documented name."""

    def __init__(self, raw: Mapping[str, str], *, read: bool, stream: bool = False) -> None:
        known = {option.name.lower(): option for option in _known(read, stream)}
        self._values: dict[str, str] = {}
        self._known = known
        self._passed_over: list[str] = []
        _check_names(raw)
        for name, value in raw.items():
            _check_text(name, value)
            option = known.get(name.lower())
            if option is not None:
                self._values[option.name] = value
            elif is_kafka_property(name) or (read and name.lower() in OF_STREAMS_ALONE):
                pass_over(name, _hint(name, [each.name for each in known.values()], _TYPING_ERROR), read=read)
                self._passed_over.append(name)
            else:
                raise _unknown(name, read, stream)

    def get(self, name: str) -> str | None:
        """The value the user gave, or the documented default, or None."""
        return self._values.get(name, self._known[name.lower()].default)

    def check_generation(self, generation: Generation, discovery: str) -> None:
        """Refuse options that mean nothing to the generation that the option ``discovery`` chose."""
        owners = {name: self._known[name.lower()].generation for name in self._values}
        owners |= dict.fromkeys(self._passed_over, Generation.MODERN)
        if strangers := [name for name, owner in owners.items() if owner not in (None, generation)]:
            raise OptionError(
                f"option {strangers[0]} means nothing to Kafka {generation.value}, which {discovery} "
                "chooses; leave it out"
            )

    def given(self, *names: str) -> list[str]:
        """Those of the options that the user set."""
        return [name for name in names if name in self._values]

    def hint_of(self, names: Sequence[str]) -> str:
        """Which of the names may be meant by an option that was passed over, as the end of an error."""
        hints = (_hint(name, names, _TYPING_ERROR) for name in self._passed_over)
        return next(filter(None, hints), "")

    def one_of(self, *synonyms: str) -> str:
        """The name under which an option with several names was given; the first one where it was not."""
        given = self.given(*synonyms)
        if len(given) > 1:
            raise OptionError(f"options {' and '.join(given)} are names of the same; set one of them")
        return given[0] if given else synonyms[0]

    def choice(self, name: str, *allowed: str, default: str = "") -> str:
        text = self.get(name)
        value = default if text is None else word(text)
        if value not in allowed:
            raise bad_value(name, value, " or ".join(allowed))
        return value

    def flag(self, name: str) -> bool:
        return self.choice(name, "true", "false") == "true"

    def count(self, name: str, low: int, high: int) -> int | None:
        text = self.get(name)
        if text is None:
            return None
        digits = text.strip(BLANKS)
        if not re.fullmatch(r"[0-9]{1,19}", digits) or not low <= int(digits) <= high:
            raise bad_value(name, text, f"a whole number from {low} to {high}")
        return int(digits)

    def size(self, name: str, low: int, high: int = _SIZE_MAX) -> int | None:
        text = self.get(name)
        if text is None:
            return None
        match = re.fullmatch(r"([0-9]{1,19})[ \t]*(?:([kmg])(?:i?b)?|b)?", word(text))
        size = int(match[1]) * _SIZE_UNITS[match[2] or ""] if match else -1
        if is_kafka_property(name):  # Kafka takes all that its int or long holds, as "no limit"
            size = min(size, high)
        if not low <= size <= high:
            raise bad_value(name, text, f"a size from {low} to {high} bytes, like 65536 or 4MiB")
        return size

    def size_or_default(self, name: str, low: int) -> int:
        size = self.size(name, low)
        assert size is not None
        return size

    def seconds(self, name: str, *, zero: bool = False) -> float:
        text = self.get(name) or ""
        match = re.fullmatch(r"([0-9]{1,19})[ \t]*(ms|s|m|min|h)?", word(text))
        time_s = int(match[1]) * _TIME_UNITS[match[2] or ""] if match else -1.0
        if is_kafka_property(name):
            time_s = min(time_s, _TIME_MAX_S)
        is_too_short = time_s < 0 or (time_s == 0 and not zero)
        if is_too_short or time_s > _TIME_MAX_S:
            low = "from" if zero else "above"
            raise bad_value(name, text, f"a time {low} zero and up to 24h, like 500ms or 30s")
        return time_s


def word(text: str) -> str:
    """A value whose case and surrounding blanks mean nothing. Only ASCII has cases here: other letters
    become those of known words, as the long s, which is an S in capitals."""
    text = text.strip(BLANKS)
    return text.lower() if text.isascii() else text


def _check_names(raw: Mapping[str, str]) -> None:
    """Names know no case, as Spark's; of two that are the same, neither can be meant to count."""
    spellings: dict[str, str] = {}
    for name in raw:
        other = spellings.setdefault(name.lower(), name)
        if other != name:
            raise OptionError(f"options {shown(other)} and {shown(name)} are the same one; set it once")


def _check_text(name: str, value: str) -> None:
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise OptionError(
            f"option {shown(name)}: half of a surrogate pair is in it, which is no character (its value is "
            "not shown)"
        ) from None


def reading_options(writing: Mapping[str, str]) -> dict[str, str]:
    """Those options of a write that also mean something to a read of the same cluster."""
    only_writing = {option.name.lower() for option in OPTIONS if not option.read}
    return {name: value for name, value in writing.items() if name.lower() not in only_writing}


def _known(read: bool, stream: bool) -> list[Option]:
    """The options of one side."""
    if not read:
        return [option for option in OPTIONS if option.write]
    if not stream:
        return [option for option in OPTIONS if option.read]
    of_streams = {
        option.name: option for option in (*OPTIONS, *STREAM_OPTIONS) if option.read and option.stream
    }
    return list(of_streams.values())


def _unknown(name: str, read: bool, stream: bool) -> OptionError:
    names = [option.name for option in _known(read, stream)]
    side = "stream" if stream else "read" if read else "write"
    there = [option for option in (*OPTIONS, *STREAM_OPTIONS) if option.name.lower() == name.lower()]
    if stream and there and not there[0].stream:
        return OptionError(
            f"option {there[0].name} is for batch reads: a stream has no end; the trigger availableNow ends "
            "where the logs end when it starts"
        )
    if there:
        return OptionError(
            f"option {shown(name)} is for {'writing' if read else 'reading'}, not for a {side}"
        )
    if name.lower() == "path":
        return OptionError(
            f"{'load() takes' if read else 'save() and start() take'} no path: topics are options"
        )
    if name.lower() == _CHECKPOINT.lower():
        return OptionError(f"option {_CHECKPOINT} is for writeStream, not for a {side}")
    # Spark asks for columns before it tells a batch from a stream.
    hint = _hint(name, [*names, *(option.name for option in STREAM_OPTIONS)] if read else names)
    return OptionError(
        f"unknown option {shown(name)} for a {side}{hint or '; known are: ' + ', '.join(names)}"
    )


def _hint(name: str, names: Sequence[str], likeness: float = 0.6) -> str:
    """What may be meant; nothing where no name is so much like it (0 to 1)."""
    close = lookalikes(name.lower(), [known.lower() for known in names], 1, likeness)
    return next((f"; did you mean {known}?" for known in names if [known.lower()] == close), "")


def bad_value(name: str, value: str, allowed: str) -> OptionError:
    return OptionError(f"option {name}: {quoted(value)} is not {allowed}")
