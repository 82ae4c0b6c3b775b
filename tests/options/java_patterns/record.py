"""Records what Java finds: ``python -m tests.options.java_patterns.record`` writes ``found.json`` anew.

The patterns are those of ``HAND_MADE``, each of which is about one thing in which Java differs from
Python or is special, and random ones of a seed.
"""

from __future__ import annotations

import base64
import json
import random
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent
FOUND: Final = HERE / "found.json"
SEED: Final = 1
RANDOM_COUNT: Final = 1500

NAMES: Final = (
    "", "a", "b", "A", "Y", "x", "aa", "ab", "ba", "abc", "aab", "aaab", "aabb", "abab", "cab", "xyz",
    "topic", "topic-1", "topic-12", "my.topic", "my_topic", "Topic-A", "TOPIC", "orders-dev", "orders-prod",
    "orders.v2.retry", "__consumer_offsets", "_schemas", "a-b", "a&b", "a&&b", "^a", "a]", "[a]", "{a}",
    "a|b", "a+b", "a\\b", "-", "&", "]", "0", "9", "12", "a1", "1a", "a b", "a\tb", "a\n", "a\r\n", "a\r",
    "a\nb", "a\x85", "\u2028", "\x0b", "\xa0", "\u0663", "\xe4", "gr\xf6\xdfe", "\u65e5\u672c", "\xc4b",
    "\u017f", "\u212a", "\u0130", "\U0001f600", "a\U0001f600b", "\x01", "\x1b[31m", "Q", "E", "QE", "a.b",
    "dd", "wsd",
)  # fmt: skip
#: Escapes that are places.
PLACES: Final = (r"\A", r"\z", r"\Z", r"\b", r"\B")
#: What a user may write who has Java's documentation at hand, or Python's.
HAND_MADE: Final = tuple(Path(HERE, "hand_made.txt").read_text("ascii").splitlines())


class Maker:
    """Random patterns of what is read, most of which Java reads."""

    def __init__(self, draw: random.Random) -> None:
        self._draw = draw

    def alternatives(self, depth: int) -> str:
        count = self._draw.choice((1, 1, 1, 2, 3))
        return "|".join(self._sequence(depth) for _ in range(count))

    def _sequence(self, depth: int) -> str:
        return "".join(self._resolve_repeated(depth) for _ in range(self._draw.randint(1, 3)))

    def _resolve_repeated(self, depth: int) -> str:
        part = self._atom(depth)
        is_place = part[:1] in "^$" or part[:2] in PLACES or part[:3] in ("(?=", "(?!", "(?<")
        if is_place or self._draw.random() < 0.6:
            return part
        counted = self._draw.choice(("*", "+", "?", "{2}", "{1,2}", "{0,3}", "{1,}"))
        return part + counted + self._draw.choice(("", "", "", "?"))

    def _atom(self, depth: int) -> str:
        kinds: list[Callable[[int], str]] = [
            self._letter,
            self._letter,
            self._class,
            self._escape,
            self._place,
        ]
        kinds += [self._group, self._group] if depth > 0 else []
        kind = self._draw.choice(kinds)
        return kind(depth)

    def _letter(self, _: int) -> str:
        return self._draw.choice("aabbcxyABY01.-_ ")

    def _escape(self, _: int) -> str:
        return self._draw.choice(
            (r"\d", r"\w", r"\s", r"\D", r"\W", r"\S", r"\.", r"\-", r"\_", r"\Qa.\E", r"\Q1\E")
        )

    def _place(self, _: int) -> str:
        return self._draw.choice(("^", "$", *PLACES, ".", ".", ".", "."))

    def _group(self, depth: int) -> str:
        kind = self._draw.choice(("(", "(?:", "(", "(?:", "(?=", "(?!", "(?<=", "(?<!", "(?i:", "(?i)("))
        return f"{kind}{self._fixed() if '<' in kind else self.alternatives(depth - 1)})"

    def _fixed(self) -> str:
        """Alternatives without repetitions, as look-behinds have them."""
        kinds = (self._letter, self._letter, self._class, self._escape, self._place)
        parts = [
            "".join(self._draw.choice(kinds)(0) for _ in range(self._draw.randint(1, 3))) for _ in range(2)
        ]
        return self._draw.choice(("{}", "{}|{}", "({}|{})", "(?:{})", "(?i){}", "{}(?={})")).format(*parts)

    def _class(self, _: int) -> str:
        items = [self._item() for _ in range(self._draw.randint(1, 3))]
        edges = ("", "", "", "-")
        first, last = self._draw.choice(("", "", "^")) + self._draw.choice(edges), self._draw.choice(edges)
        return f"[{first}{''.join(items)}{last}]"

    def _item(self) -> str:
        return self._draw.choice(
            ("a", "b", "x", "Y", "1", "a-c", "x-z", "A-Z", "0-9", ".", "_", r"\]", r"\-", r"\d", r"\W", r"\s")
        )


def random_patterns(seed: int = SEED, count: int = RANDOM_COUNT) -> list[str]:
    """The same ones each time."""
    maker = Maker(random.Random(seed))
    return [maker.alternatives(2) for _ in range(count)]


def judged(patterns: Sequence[str]) -> list[str]:
    """Matches of each pattern as Java finds them: a digit for each name, or E."""
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for name, texts in (("names", NAMES), ("patterns", patterns)):
            file = Path(folder, name)
            lines = (base64.b64encode(text.encode()).decode() for text in texts)
            file.write_text("".join(f"{line}\n" for line in lines), "ascii")
            files.append(str(file))
        ran = subprocess.run(
            ["java", str(HERE / "Judge.java"), *files], check=True, capture_output=True, text=True
        )
    return ran.stdout.split()


def main() -> None:
    """Write the file anew."""
    version = subprocess.run(["java", "-version"], check=True, capture_output=True, text=True).stderr
    patterns = [*dict.fromkeys([*HAND_MADE, *random_patterns()])]
    result = {
        "made by": f"tests/options/java_patterns/record.py, judged by {version.splitlines()[0]}",
        "names": NAMES,
        "found": dict(zip(patterns, judged(patterns), strict=True)),
    }
    FOUND.write_text(json.dumps(result, indent=0) + "\n", "ascii")


if __name__ == "__main__":
    main()
