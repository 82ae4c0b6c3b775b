"""The user's strings, looked up by the declarations of options and read as their types."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

from ..errors import OptionError, close_matches
from ..model import Generation
from .option import Option

T = TypeVar("T")

#: Likeness to a known name from which a property of Kafka counts as a typing error.
TYPING_ERROR: Final = 0.9


class RawOptions:
    """The user's strings by the documented names of their options, and the properties of Kafka that were
    ignored. ``table.raw_options`` makes one."""

    def __init__(
        self, values: Mapping[str, str], known: Iterable[Option[Any]], passed_over: Sequence[str]
    ) -> None:
        self._values = values
        self._generations = {option.name: option.generation for option in known}
        self._passed_over = passed_over

    def __getitem__(self, option: Option[T]) -> T:
        """The value of the option, by whichever of its names the user gave it, or its default.

        Raises ``OptionError`` (fatal).
        """
        return self.one_of(option, *option.aliases)

    def one_of(self, option: Option[T], *others: Option[Any]) -> T:
        """The value of the given option among several; the default of the first one if none is given."""
        chosen = self.chosen(option, *others)
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
        names = (each.name for option in options for each in (option, *option.aliases))
        return [name for name in names if name in self._values]

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
        hints = (hint(name, names, TYPING_ERROR) for name in self._passed_over)
        return next(filter(None, hints), "")


def hint(name: str, names: Sequence[str], likeness: float = 0.6) -> str:
    """The known name that the user may mean, as the end of an error; empty if none is similar enough (0 to
    1)."""
    close = close_matches(name.lower(), [known.lower() for known in names], 1, likeness)
    return next((f"; did you mean {known}?" for known in names if [known.lower()] == close), "")
