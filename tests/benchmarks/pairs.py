"""A comparison of the same measures of two trees, pair by pair."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any, Final

#: What a process tells: a run, a figure, or its end.
Event = Mapping[str, Any]
#: The tree that is looked at may be this many times as fast as the one before: 3 % less.
RATIO_MIN: Final = 0.97
#: Runs that nothing of this package is part of: how far they are from 1 is what the machine does.
YARDSTICKS: Final = frozenset(("ceiling", "limit", "plain", "confluent-kafka", "kafka-python"))


@dataclass(frozen=True, slots=True)
class Pair:
    """A measure of both trees. ``ratios`` are of the tree that is looked at to the one before, one for each
    round or session: above 1 it is faster, or needs less."""

    name: str
    before: float
    now: float
    ratios: tuple[float, ...]
    is_yardstick: bool = False

    @property
    def ratio(self) -> float:
        """The median."""
        return median(self.ratios)

    @property
    def is_below(self) -> bool:
        """True if this tree has lost more than 3 %."""
        return not self.is_yardstick and self.ratio < RATIO_MIN

    def cells(self) -> list[str]:
        """A row of the table."""
        spread = f"{min(self.ratios):.2f} to {max(self.ratios):.2f}"
        verdict = "yardstick" if self.is_yardstick else "**below**" if self.is_below else ""
        return [self.name, f"{self.before:.4g}", f"{self.now:.4g}", f"{self.ratio:.3f}", spread, verdict]


@dataclass(frozen=True, slots=True)
class Measured:
    """Results of one tree in one session: the seconds of each run by its rounds, without the warm-up, and the
    figures that come from no runs, each with True if less of it is better."""

    seconds: Mapping[tuple[str, str], Mapping[int, float]]
    figures: Mapping[str, tuple[float, bool]]

    @classmethod
    def of(cls, events: Iterable[Event]) -> Measured:
        """Runs are named after the first figure that is made of them."""
        seconds: dict[tuple[str, str], dict[int, float]] = {}
        figures: dict[str, tuple[float, bool]] = {}
        runs: list[Event] = []
        made_of_runs: set[str] = set()
        for event in events:
            if event["what"] == "run":
                runs.append(event)
            elif event["what"] == "figure":
                if runs:
                    made_of_runs.add(event["name"])
                elif event["name"] not in made_of_runs:
                    figures[event["name"]] = (event["value"], event["at_most"])
                named = _name(event, {run["name"] for run in runs})
                for run in (each for each in runs if each["round"] > 0):
                    seconds.setdefault((named, run["name"]), {})[run["round"]] = run["seconds"]
                runs = []
        return cls(seconds, figures)


def _name(figure: Event, runs: Container[str]) -> str:
    """Of what runs are compared for: without a compression where they are runs of several ones."""
    size, compression = figure["value_size"], figure["compression"]
    reported = (f"{size} B" if size else None, None if compression in runs else compression)
    return ", ".join((figure["name"], *filter(None, reported)))


def pairs_of_runs(sessions: Iterable[tuple[Measured, Measured]]) -> Iterator[Pair]:
    """The speed of each run that both trees made, pair by pair of its rounds."""
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for before, now in sessions:
        for key in (each for each in now.seconds if each in before.seconds):
            ours, theirs = now.seconds[key], before.seconds[key]
            found.setdefault(key, []).extend((theirs[each], ours[each]) for each in ours if each in theirs)
    for (named, run), both in found.items():
        ratios = tuple(theirs / ours for theirs, ours in both)
        before_s, now_s = (median(each[side] for each in both) for side in (0, 1))
        yield Pair(f"{named}: {run}", before_s, now_s, ratios, run in YARDSTICKS)


def pairs_of_figures(sessions: Iterable[tuple[Measured, Measured]]) -> Iterator[Pair]:
    """The figures that both trees told, one pair for each session."""
    found: dict[str, list[tuple[float, float, bool]]] = {}
    for before, now in sessions:
        for name in (each for each in now.figures if each in before.figures):
            value, at_most = now.figures[name]
            found.setdefault(name, []).append((before.figures[name][0], value, at_most))
    for name, reported in found.items():
        ratios = tuple(before / now if at_most else now / before for before, now, at_most in reported)
        before_value, now_value = (median(each[side] for each in reported) for side in (0, 1))
        # Such as "into Arrow by confluent-kafka".
        is_yardstick = name.rpartition(" ")[2] in YARDSTICKS
        yield Pair(name, before_value, now_value, ratios, is_yardstick)
