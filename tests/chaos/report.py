"""Results of the chaos, as lines and as a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from .faults import FaultKind
from .operation import EXACT, Outcome


@dataclass(slots=True)
class Tally:
    """The outcomes of one kind of cluster."""

    kind: str
    ended: Counter[tuple[str, str]] = field(default_factory=Counter)
    made: int = 0
    broken: Counter[FaultKind] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    slowest_s: float = 0.0
    seconds: float = 0.0
    disturbances: int = 0
    skipped: str | None = None

    def add(self, outcome: Outcome, again: str) -> None:
        """Count an outcome; ``again`` is the command that does the operation again."""
        if outcome.failure is None:
            self.ended[outcome.what, outcome.ended] += 1
        else:
            self.ended[outcome.what, "FAILED"] += 1
            self.failures.append(
                f"{self.kind} operation {outcome.number}, a {outcome.what}: {outcome.failure}; again: {again}"
            )
        self.made += outcome.made
        self.broken += outcome.broken
        self.slowest_s = max(self.slowest_s, outcome.seconds)

    def count(self, what: str) -> int:
        """Operations of that name so far."""
        return sum(count for (name, _), count in self.ended.items() if name == what)

    def line(self) -> str:
        """Line of progress."""
        return (
            f"{self.kind}: {self.count('read')} reads, {self.count('write')} writes, "
            f"{self.broken.total()} of {self.made} connections broken, {len(self.failures)} failures, "
            f"{self.seconds:.0f} s"
        )


def table(tallies: Sequence[Tally]) -> str:
    """All figures, a block for each kind."""
    return "\n".join(line for tally in tallies for line in _block(tally))


def _block(tally: Tally) -> list[str]:
    if tally.skipped is not None:
        return [f"{tally.kind:10} skipped: {tally.skipped}"]
    lines = [f"{tally.line()}; the longest took {tally.slowest_s:.1f} s"]
    for what in ("read", "write"):
        endings = Counter({end: count for (name, end), count in tally.ended.items() if name == what})
        errors = [f"{count} {end}" for end, count in endings.most_common() if end != EXACT]
        lines.append(f"  {what + 's':8}{endings[EXACT]} {EXACT}, {', '.join(errors) or 'no errors'}")
    broken = ", ".join(f"{count} {kind.name.lower()}" for kind, count in tally.broken.most_common())
    lines.append(f"  broken  {broken or 'none'}")
    if tally.disturbances:
        lines.append(f"  {tally.disturbances} restarts of ZooKeeper or a broker")
    return lines
