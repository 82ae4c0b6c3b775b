"""Options as fields of their groups: name, type, bounds, default, sides, generation, meaning; and the user's
strings, looked up by the declarations and read as their types (``RawOptions``).

    @dataclass(frozen=True)
    class FetchOptions(Group):
        wait_ms: Option[int] = option("kafka.fetch.max.wait.ms", milliseconds, "500", READ, MODERN).means(
            "the time that a broker waits for a record"
        )

    FetchOptions.wait_ms                    # the option: its name, its default, what it is for
    options[FetchOptions.wait_ms]           # of RawOptions: milliseconds, as the user gave them, or 500
    FetchOptions.parse(options).wait_ms     # the same, with all other fields of the group

The table of all options, the refusal of unknown names with its hints, and the rows of ``docs/options.md``
follow from the groups (``table``). The type of an option is a function of its name and its text, which raises
``OptionError``.

Other properties ``kafka.*`` of Java's clients are not supported here. Supported ones are rows of
``OPTIONS``. Some others are refused, as Spark refuses them, because they would change the meaning of a
query; the rest is ignored with one warning.

JSON objects are read strictly (``json_object``). Python's own reader silently takes the last value of a
key that occurs twice, and accepts numbers that JSON does not have.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, NoReturn, TypeVar, overload

from ..errors import LOG, OptionError, close_matches, printable, quote
from ..model import Generation
from ..regular_files import Unreadable, read_regular

PREFIX: Final = "kafka."

_NO_DESERIALIZERS: Final = "keys and values are bytes here; cast or decode the columns"
_NO_SERIALIZERS: Final = "keys and values are written as bytes; cast or encode the columns"
_ALWAYS_REFUSED: Final = {
    "interceptor.classes": "no Java classes are run here, and interceptors would break what a query reads; "
    "leave it out"
}
#: What to do instead of setting a property that a read refuses, by its name without ``kafka.``.
_REFUSED_BY_READS: Final = {
    **_ALWAYS_REFUSED,
    "auto.offset.reset": "startingOffsets says where a query starts (by default a batch at the "
    "earliest offset, a stream at the end), and failOnDataLoss what happens where offsets are gone; leave it "
    "out",
    "key.deserializer": _NO_DESERIALIZERS,
    "value.deserializer": _NO_DESERIALIZERS,
    "transactional.id": "it is for writes; leave it out",
    "enable.auto.commit": "a read commits no offsets; its query knows what it has read; leave it out, or set "
    "commitOffsets=true in a stream",
}
#: The same of a write.
_REFUSED_BY_WRITES: Final = {
    **_ALWAYS_REFUSED,
    "key.serializer": _NO_SERIALIZERS,
    "value.serializer": _NO_SERIALIZERS,
}


def is_kafka_property(name: str) -> bool:
    """True if an option, in any case, is a property of Kafka's clients."""
    return name.lower().startswith(PREFIX)


def pass_over(name: str, hint: str = "", *, read: bool) -> None:
    """Accept a property that this package ignores, with one warning in this process. Raises ``OptionError``
    (fatal) for properties that Spark refuses on this side."""
    refused = _REFUSED_BY_READS if read else _REFUSED_BY_WRITES
    advice = refused.get(name.lower().removeprefix(PREFIX))
    if advice is not None:
        raise OptionError(f"option {printable(name)} is not supported: {advice}")
    warn_once("option %s has no effect in kafkawire and is ignored%s", printable(name), hint)


@functools.cache
def warn_once(message: str, *args: str) -> None:
    """Log a warning that this process has not logged yet. It shows no value of an option: that may be a
    secret."""
    LOG.warning(message, *args)


#: What to set in place of properties without ``kafka.``: those refused with it, and one of no client.
_IN_PLACE: Final = {
    **_REFUSED_BY_WRITES,
    **_REFUSED_BY_READS,
    "topics": "a read selects its topics by subscribe, and a write has one, topic",
}
_WITHOUT_PREFIX: Final = re.compile(r"[a-z0-9]+(?:\.[a-z0-9]+)+")


def without_prefix(name: str, names: Sequence[str]) -> str | None:
    """The advice about a property of Kafka's clients without ``kafka.``, which Spark's own connector ignores;
    None for other options, and for one of ``names`` that is probably misspelled."""
    lower = name.lower()
    if lower in _IN_PLACE:
        return _IN_PLACE[lower]
    if not _WITHOUT_PREFIX.fullmatch(lower):
        return None
    if meant := [known for known in names if known.lower() == PREFIX + lower]:
        return f"set {meant[0]}"
    if hint(lower, [known for known in names if not is_kafka_property(known)], TYPING_ERROR):
        return None
    return f"properties of Kafka's clients need {PREFIX} before their names"


def file_bytes(where: str, path: str, bytes_max: int, advice: str, advice_if_long: str) -> bytes:
    """The bytes of a regular file on the driver. Raises ``OptionError`` that begins with ``where``."""
    try:
        return read_regular(path, bytes_max, "on the driver", advice, advice_if_long)
    except Unreadable as error:
        raise OptionError(f"{where} {error}") from None


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
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result:
            raise RepeatedKey(key)
        result[key] = value
    return result


def _no_number(text: str) -> NoReturn:
    raise NotAnObject(f"{text} is no number")


T = TypeVar("T")
N = TypeVar("N", int, float)
#: The type of an option: it reads a text, given the option's name for errors.
Kind = Callable[[str, str], T]
#: The parts of an option's text that no message may show.
Secrets = Callable[[str], Iterable[str]]

V07: Final = Generation.V07
MODERN: Final = Generation.MODERN

#: A number and its unit. One pattern for all types, as each compilation delays the import.
_NUMBER: Final = re.compile(r"([0-9]{1,19})[ \t]*([a-z]*)")
_NO_UNITS: Final = {"": 1}
_SIZE_UNITS: Final = {
    "": 1, "b": 1, "k": 1 << 10, "kb": 1 << 10, "kib": 1 << 10,
    "m": 1 << 20, "mb": 1 << 20, "mib": 1 << 20, "g": 1 << 30, "gb": 1 << 30, "gib": 1 << 30,
}  # fmt: skip
_TIME_UNITS: Final = {
    "us": 1e-6, "ms": 0.001, "": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86_400.0,
}  # fmt: skip
#: Units of a time before now, which has one in words, too.
_AGE_UNITS: Final = {
    **{unit: in_s for unit, in_s in _TIME_UNITS.items() if unit},
    **{
        f"{word}{end}": in_s
        for word, in_s in (("second", 1.0), ("minute", 60.0), ("hour", 3600.0), ("day", 86_400.0))
        for end in ("", "s")
    },
    **dict.fromkeys(("week", "weeks"), 604_800.0),
}
#: Largest value of a size option, bytes: Arrow's offsets and the protocol's lengths are int32.
_SIZE_MAX: Final = 1 << 30
#: Largest value of a time option, seconds: sockets cannot wait for any number.
_TIME_MAX_S: Final = 86_400.0
INT32_MAX: Final = (1 << 31) - 1
INT64_MAX: Final = (1 << 63) - 1
#: Characters around a value that are ignored.
BLANKS: Final = " \t\r\n\f\v"


class Sides(NamedTuple):
    """The queries that take an option. ``stream`` is about streaming reads."""

    read: bool
    write: bool
    stream: bool


BOTH: Final = Sides(read=True, write=True, stream=True)
READ: Final = Sides(read=True, write=False, stream=True)
BATCH_READ: Final = Sides(read=True, write=False, stream=False)
WRITE: Final = Sides(read=False, write=True, stream=True)


# Equal only to itself: kafka.group.id is one option to batch reads and another one to streams.
@dataclass(frozen=True, slots=True, eq=False)
class Option(Generic[T]):
    """An option as ``option`` declares it. ``name`` and ``default`` are spelled as in the documentation.

    ``generation`` is the only generation of brokers that the option is for; None means all.
    ``aliases`` are other names of the option; the user sets only one of the names. ``secrets`` finds the
    secrets in its text; None if it has none.
    """

    name: str
    kind: Kind[Any]
    default: str | None
    sides: Sides
    generation: Generation | None
    aliases: tuple[Option[Any], ...]
    secrets: Secrets | None
    meaning: str = ""

    def __str__(self) -> str:
        return self.name

    def means(self, meaning: str) -> Option[T]:
        """The option with its meaning, as the documentation has it."""
        return replace(self, meaning=meaning)

    def also(self, name: str, kind: Kind[Any] | None = None) -> Option[T]:
        """The option with the name that Kafka's own clients have for it."""
        meaning = f"Kafka's name of `{self.name}`"
        alias = option(name, kind or self.kind, None, self.sides, MODERN).means(meaning)
        return replace(self, aliases=(*self.aliases, alias))

    def within(self, prefix: str, sides: Sides, generation: Generation | None) -> Option[T]:
        """The option in a group: with a ``prefix`` before its name, and with the group's sides and generation
        if it has none."""
        changed = replace(
            self,
            name=prefix + self.name,
            sides=sides if self.sides == BOTH else self.sides,
            generation=self.generation or generation,
            aliases=tuple(item.within(prefix, sides, generation) for item in self.aliases),
        )
        same = (changed.name, changed.sides, changed.generation) == (self.name, self.sides, self.generation)
        return self if same else changed

    @overload
    def __get__(self, instance: None, owner: type) -> Option[T]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object, owner: type) -> Option[T] | T:
        """The option, of a class. An instance of a group has the value in place of it."""
        return self

    if TYPE_CHECKING:

        def __set__(self, instance: object, value: T) -> None: ...

    @property
    def value(self) -> T:
        """The default, read from its text."""
        return self.parse(None)

    def parse(self, text: str | None) -> T:
        """Read the text of the option, or its default. Raises ``OptionError`` (fatal)."""
        text = self.default if text is None else text
        # Without a default, None is a T: see the overloads of ``option``.
        value: T = None if text is None else self.kind(self.name, text)  # type: ignore[assignment]
        return value


@overload
def option(name: str, kind: Kind[T], default: str, *_: Any, **__: Any) -> Option[T]: ...
@overload
def option(name: str, kind: Kind[T], default: None = ..., *_: Any, **__: Any) -> Option[T | None]: ...
def option(
    name: str,
    kind: Kind[Any],
    default: str | None = None,
    sides: Sides = BOTH,
    generation: Generation | None = None,
    *,
    aliases: tuple[Option[Any], ...] = (),
    secrets: Secrets | None = None,
) -> Option[Any]:
    """Declare an option, as a field of its ``Group``."""
    return Option(name, kind, default, sides, generation, aliases, secrets)


GroupT = TypeVar("GroupT", bound="Group")


class Group:
    """Options that belong together. The class has the options, an instance of it their values.

    A group may have sides and a generation, for its options without any, and a prefix of their names. A
    dataclass of a group has fields for options that are annotated, and for what is derived from others.
    """

    def __init_subclass__(
        cls, *, prefix: str = "", sides: Sides = BOTH, generation: Generation | None = None
    ) -> None:
        fields = {name: item for base in reversed(cls.__mro__) for name, item in vars(base).items()}
        for name, item in fields.items():
            if isinstance(item, Option):
                setattr(cls, name, item.within(prefix, sides, generation))

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, Option):
                object.__setattr__(self, name, value.value)

    def __reduce__(self) -> tuple[type[Group], tuple[Any, ...]]:
        # Spark sends values with each task: without the names of fields they are shorter.
        return type(self), tuple(vars(self).values())

    @classmethod
    def options(cls) -> tuple[Option[Any], ...]:
        """The options in their order, with those of groups within the group, each before its aliases."""
        result: list[Option[Any]] = []
        for item in vars(cls).values():
            if isinstance(item, Option):
                result += (item, *item.aliases)
            elif isinstance(item, type) and issubclass(item, Group):
                result += item.options()
        return tuple(result)

    @classmethod
    def parse(cls: type[GroupT], options: RawOptions, **derived: Any) -> GroupT:
        """The values of all fields that are options, as the user gave them, with those that are derived.
        Raises ``OptionError`` (fatal)."""
        own = cls.__dataclass_fields__  # type: ignore[attr-defined]
        plain = {name: getattr(cls, name, None) for name in own if name not in derived}
        given = {name: options[item] for name, item in plain.items() if isinstance(item, Option)}
        return cls(**given, **derived)


def whole(text: str) -> tuple[str, ...]:
    """The secret of an option that is nothing else."""
    return (text,)


def after_colons(count: int) -> Secrets:
    """The secrets of ``user:password``, with more words before it where ``count`` is above 1."""
    return lambda text: (text, *(text.split(":", number)[-1] for number in range(1, count + 1)))


def parse_string(_: str, given: str) -> str:
    """A text as it was given."""
    return given


def map_words(values: Mapping[str, T]) -> Kind[T]:
    """Map each allowed word to its value."""

    def parse(name: str, given: str) -> T:
        key = word(given)
        if key not in values:
            raise bad_value(name, key, " or ".join(values))
        return values[key]

    return parse


def choice(*words: str) -> Kind[str]:
    """Accept one of the given words."""
    return map_words({item: item for item in words})


flag: Final = map_words({"true": True, "false": False})


def count(low: int, high: int) -> Kind[int]:
    """A whole number."""

    def parse(name: str, given: str) -> int:
        number = _number(given, _NO_UNITS, -1)
        if not low <= number <= high:
            raise bad_value(name, given, f"a whole number from {low} to {high}")
        return number

    return parse


def size(low: int, high: int = _SIZE_MAX) -> Kind[int]:
    """A number of bytes, with or without a unit."""

    def parse(name: str, given: str) -> int:
        value = _number(given, _SIZE_UNITS, -1)
        if is_kafka_property(name):  # Kafka takes all that its int or long holds, as "no limit"
            value = min(value, high)
        if not low <= value <= high:
            raise bad_value(name, given, f"a size from {low} to {high} bytes, like 65536 or 4MiB")
        return value

    return parse


def seconds(*, zero: bool = False, high_s: float = _TIME_MAX_S, is_capped: bool = False) -> Kind[float]:
    """A time with or without a unit, in seconds; a bare number is milliseconds. A longer one is an error, or
    ``high_s`` with a warning if it ``is_capped``."""

    def parse(name: str, given: str) -> float:
        time_s = _number(given, _TIME_UNITS, -1.0)
        if is_kafka_property(name):
            time_s = min(time_s, _TIME_MAX_S)
        if is_capped and time_s > high_s:
            high = f"{high_s / 3600:.0f}"
            warn_once("option %s is longer than %s h, which are used in its place", name, high)
            time_s = high_s
        is_too_short = time_s < 0 or (time_s == 0 and not zero)
        if is_too_short or time_s > high_s:
            low = "from" if zero else "above"
            bound = f"up to {high_s / 3600:.0f}h"
            raise bad_value(name, given, f"a time {low} zero and {bound}, like 500ms or 30s")
        return time_s

    return parse


def milliseconds(name: str, given: str) -> int:
    """A time with or without a unit, in whole milliseconds."""
    return int(1000 * seconds()(name, given))


def age_ms(given: str) -> int | None:
    """Milliseconds of a time before now, as ``-10 minutes``; None for other texts."""
    age_s = _number(given[1:], _AGE_UNITS, -1.0) if given.startswith("-") else -1.0
    return None if age_s < 0 else int(1000 * age_s)


def _number(given: str, units: Mapping[str, N], no_number: N) -> N:
    """A number times its unit; ``no_number`` for other texts and unknown units."""
    match = _NUMBER.fullmatch(word(given))
    if match is None or match[2] not in units:
        return no_number
    return int(match[1]) * units[match[2]]


def word(given: str) -> str:
    """A value without its case and surrounding blanks. Only ASCII has cases here: other letters
    become those of known words, as the long s, which is an S in capitals."""
    given = given.strip(BLANKS)
    return given.lower() if given.isascii() else given


def capitals(given: str) -> str:
    """A word in capitals, whatever its case was."""
    result = word(given)
    return result.upper() if result.isascii() else result


def bad_value(name: str, value: str, allowed: str) -> OptionError:
    """An error that names the option, its value, and the values that it takes."""
    return OptionError(f"option {name}: {quote(value)} is not {allowed}")


#: Likeness to a known name from which a property of Kafka counts as a typing error.
TYPING_ERROR: Final = 0.9


class RawOptions:
    """The user's strings by the documented names of their options, the properties of Kafka that were
    ignored, and the names of other options that were. ``table.raw_options`` makes one."""

    def __init__(
        self,
        values: Mapping[str, str],
        known: Iterable[Option[Any]],
        passed_over: Sequence[str],
        ignored: Sequence[str] = (),
    ) -> None:
        self._values, self._ignored = values, ignored
        self._generations = {option.name: option.generation for option in known}
        self._passed_over = passed_over
        self._read: set[str] = set()

    def __getitem__(self, option: Option[T]) -> T:
        """The value of the option, by whichever of its names the user gave it, or its default. Raises
        ``OptionError`` (fatal)."""
        return self.one_of(option, *option.aliases)

    def one_of(self, option: Option[T], *others: Option[Any]) -> T:
        """The value of the given option among several; the default of the first one if none is given."""
        chosen = self.chosen(option, *others)
        self._read.add(chosen.name)
        # The text of another one is given, so that its value is of the same type.
        value: T = chosen.parse(self._values.get(chosen.name))
        return value

    def chosen(self, *synonyms: Option[Any]) -> Option[Any]:
        """The given option among several; the first one if none is given."""
        given = [option for option in synonyms if option.name in self._values]
        if len(given) > 1:
            names = " and ".join(option.name for option in given)
            raise OptionError(f"options {names} name the same setting; set one of them")
        return given[0] if given else synonyms[0]

    def given(self, *options: Option[Any]) -> list[str]:
        """The names of those of the options that the user set, aliases included."""
        names = (item.name for option in options for item in (option, *option.aliases))
        return [name for name in names if name in self._values]

    def unread(self, *options: Option[Any]) -> list[str]:
        """The names of those of the options that the user set, and whose values nothing has read."""
        return [name for name in self.given(*options) if name not in self._read]

    def name_of(self, option: Option[Any]) -> str:
        """The name by which the user gave the option; its own where it was not given."""
        return self.chosen(option, *option.aliases).name

    def check_generation(self, generation: Generation, discovery: str) -> None:
        """Refuse options that are not for the generation that the option ``discovery`` chose."""
        owners = {name: self._generations[name] for name in self._values}
        owners |= dict.fromkeys(self._passed_over, Generation.MODERN)
        if strangers := [name for name, owner in owners.items() if owner not in (None, generation)]:
            newer = f", or set kafka.bootstrap.servers in place of {discovery} if the brokers are newer"
            raise OptionError(
                f"option {strangers[0]} does not apply to Kafka {generation.value}, which {discovery} "
                f"chooses; leave it out{newer if generation is Generation.V07 else ''}"
            )

    def hint_of(self, names: Sequence[str]) -> str:
        """The name that may be meant by an option that was ignored, as the end of an error."""
        hints = [hint(name, names, TYPING_ERROR) for name in self._passed_over]
        hints += [hint(PREFIX + name, names, TYPING_ERROR) for name in self._ignored]
        return next(filter(None, hints), "")

    def ignores(self, name: str) -> bool:
        """True if the user set this option of the other side, which was ignored."""
        return name in self._ignored


def hint(name: str, names: Sequence[str], likeness: float = 0.6) -> str:
    """The known name that the user may mean, as the end of an error; empty if none is similar enough (0 to
    1)."""
    close = close_matches(name.lower(), [known.lower() for known in names], 1, likeness)
    return next((f"; did you mean {known}?" for known in names if [known.lower()] == close), "")
