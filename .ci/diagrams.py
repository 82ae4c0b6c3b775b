"""``make diagrams``: draws each text of ``docs/diagrams`` as an SVG of the same name in ``docs/images``.

    title: Reading a topic              the text for a screen reader
    columns: 260 90                     a grid: the widths of its columns, pixels; gap: that between them
    band 1-1: On the driver             a frame around columns 1 to 1 of the rows below it, up to ``end``
    row: plan brokers                   names of boxes from left to right; ``-`` is an empty place, and a name
    row: read brokers                   that occurs in several places is one larger box
    box plan: planner / Cuts topics.    its title and its text; ``box plan strong: …`` has another colour
    plan -> read: one range each        an arrow, with or without a text; ``<->`` has two heads

    schemes: light dark                 two drawings, NAME-light and NAME-dark, for a page that chooses

    actors: Driver, Tasks, Brokers      a sequence instead: the participants, then in the order of time
    Driver -> Brokers: EndTxn           a message
    at Tasks: encode                    a step of one participant
    note: The decision                  a line across

A drawing is at most 460 pixels wide, so that its text is legible on a telephone. Text is measured with the
widths of DejaVu Sans, the widest of the fonts that may draw it, and wrapped; a word that is wider than its
place is an error. Colours follow the reader's light or dark mode, except in a drawing for one of them.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Final, TypeVar

#: Widths of characters, thousandths of the font's size; all others are ``_WIDE``.
_WIDTHS: Final = {
    character: width
    for width, characters in {
        300: "'ijlIJ",
        360: " ,./:;\\|f-",
        410: "()[]t!r",
        560: '*_`"sz?cL',
        630: "FkvxyPTYaoeESbdghnpqu",
        700: "$0123456789{}KAVBRXZC",
        790: "UHNDG&OQ",
        840: "w#+<=>^~",
    }.items()
    for character in characters
}
_WIDE: Final = 1000
_BOLD: Final = 1.13
_TITLE_PX: Final = 13
_TEXT_PX: Final = 12
_LABEL_PX: Final = 11.5
_LINE: Final = 16
_PAD: Final = 9
_MARGIN: Final = 10
_WIDTH_MAX: Final = 460
#: Between two rows: nothing, an arrow, above the name of a band.
_ROW_GAP: Final = 12
_ARROW_GAP: Final = 26
_BAND_HEAD: Final = 26
_BAND_PAD: Final = 8

_STYLE: Final = """
text{font-family:Helvetica,Arial,"DejaVu Sans",sans-serif;font-size:12px;fill:#1f2733}
.title{font-size:13px;font-weight:bold}.label{font-size:11.5px;fill:#445062}
.band-name{font-size:12px;font-weight:bold;fill:#5b6778}
.paper{fill:#fff}.band{fill:#f5f6f8;stroke:#d5dae2}.line{stroke:#5b6778;fill:none;stroke-width:1.4}
.life{stroke:#b4bcc9;stroke-dasharray:3 4}.head{fill:#5b6778}
.box{fill:#e8f0fa;stroke:#8aa7cc}.strong{fill:#fdeed6;stroke:#d9983d}.good{fill:#e2f2e5;stroke:#68a874}
.bad{fill:#fbe6e3;stroke:#cf776a}.plain{fill:#fff;stroke:#b4bcc9}
"""
_DARK: Final = """text{fill:#e6e9ef}.label{fill:#b9c2cf}.band-name{fill:#9aa6b6}
.paper{fill:#1e2129}.band{fill:#262a34;stroke:#3b4250}.line{stroke:#9aa6b6}.life{stroke:#566070}.head{fill:#9aa6b6}
.box{fill:#25384f;stroke:#5679a3}.strong{fill:#4d3a1c;stroke:#b98238}.good{fill:#22412a;stroke:#55905f}
.bad{fill:#50292a;stroke:#b0645a}.plain{fill:#1e2129;stroke:#566070}"""
_WHERE_DARK: Final = f"@media (prefers-color-scheme:dark){{\n{_DARK}}}\n"


class DiagramError(ValueError):
    """A text that cannot be drawn."""


def width_of(text: str, size: float, *, bold: bool = False) -> float:
    """The widest that a text may be drawn, pixels."""
    return sum(_WIDTHS.get(item, _WIDE) for item in text) / 1000 * size * (_BOLD if bold else 1)


def wrapped(text: str, width: float, size: float, *, bold: bool = False) -> list[str]:
    """The text in lines, none of them wider than ``width``."""
    lines: list[str] = []
    for word in text.split():
        if width_of(word, size, bold=bold) > width:
            raise DiagramError(f"{word!r} takes {width_of(word, size, bold=bold):.0f} of {width:.0f} pixels")
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and width_of(longer, size, bold=bold) <= width:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


@dataclass
class Canvas:
    """The drawn elements, back to front."""

    behind: list[str] = field(default_factory=list)
    front: list[str] = field(default_factory=list)

    def rect(
        self, x: float, y: float, width: float, height: float, style: str, *, behind: bool = False
    ) -> None:
        """A rectangle with round corners."""
        where = self.behind if behind else self.front
        size = f'width="{width:g}" height="{height:g}"'
        where.append(f'<rect x="{x:g}" y="{y:g}" {size} rx="5" class="{style}"/>')

    def text(self, x: float, y: float, lines: list[str], style: str = "", anchor: str = "middle") -> None:
        """Lines of text; ``y`` is the top of the first one."""
        for number, line in enumerate(lines):
            location = f'x="{x:g}" y="{y + _LINE * number + 12:g}" text-anchor="{anchor}"'
            self.front.append(f'<text {location} class="{style}">{escape(line, quote=False)}</text>')

    def arrow(self, points: list[tuple[float, float]], *, both: bool = False) -> None:
        """A line through points with a head at its end, or at both ends."""
        path = " ".join(f"{x:g},{y:g}" for x, y in points)
        self.front.append(f'<polyline points="{path}" class="line"/>')
        self._head(points[-2], points[-1])
        if both:
            self._head(points[1], points[0])

    def _head(self, origin: tuple[float, float], tip: tuple[float, float]) -> None:
        (x0, y0), (x, y) = origin, tip
        dx, dy = (x > x0) - (x < x0), (y > y0) - (y < y0)
        sides = " ".join(f"{x - 8 * dx + 4 * s * dy:g},{y - 8 * dy + 4 * s * dx:g}" for s in (1, -1))
        self.front.append(f'<polygon points="{x:g},{y:g} {sides}" class="head"/>')

    def svg(self, title: str, width: float, height: float) -> str:
        """The whole drawing."""
        size = f'viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}"'
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">',
            f"<title>{escape(title, quote=False)}</title>",
            f"<style>{_STYLE}{_WHERE_DARK}</style>",
            f'<rect width="{width:g}" height="{height:g}" rx="6" class="paper"/>',
            *self.behind,
            *self.front,
            "</svg>",
        ]
        return "\n".join(parts) + "\n"


@dataclass
class Box:
    """A box of a grid: its place, and where that is drawn."""

    title: str = ""
    text: str = ""
    style: str = "box"
    rows: tuple[int, int] = (-1, -1)
    columns: tuple[int, int] = (-1, -1)
    x: float = 0
    y: float = 0
    width: float = 0
    height: float = 0

    def lines(self) -> tuple[list[str], list[str]]:
        """Its title and its text, wrapped."""
        room = self.width - 2 * _PAD
        return wrapped(self.title, room, _TITLE_PX, bold=True), wrapped(self.text, room, _TEXT_PX)

    def draw(self, canvas: Canvas) -> None:
        """The box with its words in the middle."""
        title, text = self.lines()
        canvas.rect(self.x, self.y, self.width, self.height, self.style)
        top = self.y + (self.height - _LINE * (len(title) + len(text))) / 2
        canvas.text(self.x + self.width / 2, top, title, "title")
        canvas.text(self.x + self.width / 2, top + _LINE * len(title), text)


@dataclass(frozen=True)
class Arrow:
    """An arrow from one box to another."""

    origin: str
    target: str
    both: bool
    label: str


@dataclass(frozen=True)
class Band:
    """A frame with a name around some columns of some rows."""

    name: str
    columns: tuple[int, int]
    rows: tuple[int, int]


_LINE_OF_TEXT: Final = re.compile(r"(?P<word>[\w-]+)(?: (?P<more>(?!->|<->)[\w -]+))?(?:: ?(?P<value>.*))?")
_ARROW: Final = re.compile(r"(?P<a>[\w-]+) (?P<head><->|->) (?P<b>[\w-]+)(?:: (?P<label>.*))?")
_SCHEMES: Final = re.compile(r"^schemes: (.+)$", re.MULTILINE)

Taken = TypeVar("Taken")


def drawn(source: str) -> str:
    """The SVG of a text."""
    lines = [line.strip() for line in source.splitlines() if line.strip() and not line.startswith("#")]
    is_sequence = any(line.startswith("actors:") for line in lines)
    return Sequence(lines).svg() if is_sequence else Grid(lines).svg()


class Grid:
    """Boxes in rows and columns, and arrows between neighbours."""

    def __init__(self, lines: list[str]) -> None:
        self.title = ""
        self.columns: list[float] = []
        self.gap = 14.0
        self.boxes: dict[str, Box] = {}
        self.arrows: list[Arrow] = []
        self.bands: list[Band] = []
        self.rows: list[list[str]] = []
        open_bands: list[tuple[str, tuple[int, int], int]] = []
        for line in lines:
            if arrow := _ARROW.fullmatch(line):
                self.arrows.append(
                    Arrow(arrow["a"], arrow["b"], arrow["head"] == "<->", arrow["label"] or "")
                )
                continue
            word, more, value = _parts_of(line)
            if word == "title":
                self.title = value
            elif word == "columns":
                self.columns = [float(item) for item in value.split()]
            elif word == "gap":
                self.gap = float(value)
            elif word == "row":
                self.rows.append(value.split())
            elif word == "band":
                first, _, last = more.partition("-")
                open_bands.append((value, (int(first) - 1, int(last) - 1), len(self.rows)))
            elif word == "end":
                name, columns, first_row = open_bands.pop()
                self.bands.append(Band(name, columns, (first_row, len(self.rows) - 1)))
            elif word == "box":
                name, _, style = more.partition(" ")
                title, _, text = value.partition(" / ")
                self.boxes[name] = Box(title, text, style or "box")
            else:
                raise DiagramError(f"a line that is not known: {line!r}")
        self._place()

    def _place(self) -> None:
        for row, names in enumerate(self.rows):
            if len(names) != len(self.columns):
                raise DiagramError(f"row {row + 1} has {len(names)} places, not {len(self.columns)}")
            for column, name in enumerate(names):
                if name != "-":
                    box = _taken(self.boxes, name)
                    box.rows = (row if box.rows[0] < 0 else box.rows[0], row)
                    box.columns = (column if box.columns[0] < 0 else box.columns[0], column)
        lefts = [_MARGIN + _BAND_PAD + sum(self.columns[:i]) + self.gap * i for i in range(len(self.columns))]
        for box in self.boxes.values():
            first, last = box.columns
            box.x, box.width = lefts[first], lefts[last] + self.columns[last] - lefts[first]
        self.width = lefts[-1] + self.columns[-1] + _BAND_PAD + _MARGIN
        if self.width > _WIDTH_MAX:
            raise DiagramError(f"the drawing is {self.width:g} pixels wide, more than {_WIDTH_MAX}")

    def _gap_above(self, row: int) -> float:
        gap = float(_ROW_GAP) if row else 0.0
        for arrow in self.arrows:
            ends = sorted(
                (_taken(self.boxes, item) for item in (arrow.origin, arrow.target)), key=lambda b: b.rows
            )
            if ends[0].rows[1] < row == ends[1].rows[0]:
                gap = max(gap, _ARROW_GAP, len(self._label(arrow)) * _LINE + 14)
        gap += _BAND_PAD * sum(band.rows[1] == row - 1 for band in self.bands)
        return gap + _BAND_HEAD * any(band.rows[0] == row for band in self.bands)

    def _label(self, arrow: Arrow) -> list[str]:
        a, b = self.boxes[arrow.origin], self.boxes[arrow.target]
        left, right = max(a.x, b.x), min(a.x + a.width, b.x + b.width)
        if left < right:
            return wrapped(arrow.label, right - (left + right) / 2 - 8, _LABEL_PX)
        return wrapped(arrow.label, left - right - 10, _LABEL_PX)

    def svg(self) -> str:
        """Rows from top to bottom, each as high as its highest box."""
        canvas = Canvas()
        heights: list[float] = [
            max(
                (
                    2 * _PAD + _LINE * sum(map(len, box.lines()))
                    for box in self.boxes.values()
                    if box.rows == (row, row)
                ),
                default=2 * _PAD + _LINE,
            )
            for row in range(len(self.rows))
        ]
        tops, y = [], float(_MARGIN)
        for row, height in enumerate(heights):
            y += self._gap_above(row)
            tops.append(y)
            y += height
        for box in self.boxes.values():
            box.y = tops[box.rows[0]]
            box.height = tops[box.rows[1]] + heights[box.rows[1]] - box.y
        for band in self.bands:
            self._draw_band(canvas, band, tops, heights)
        for box in self.boxes.values():
            box.draw(canvas)
        for arrow in self.arrows:
            self._draw_arrow(canvas, arrow)
        bottom = y + _MARGIN + _BAND_PAD * any(band.rows[1] == len(self.rows) - 1 for band in self.bands)
        return canvas.svg(self.title, self.width, bottom)

    def _draw_band(self, canvas: Canvas, band: Band, tops: list[float], heights: list[float]) -> None:
        first, last = band.columns
        left = _MARGIN + sum(self.columns[:first]) + self.gap * first
        width = sum(self.columns[first : last + 1]) + self.gap * (last - first) + 2 * _BAND_PAD
        top = tops[band.rows[0]] - _BAND_HEAD + 4
        bottom = tops[band.rows[1]] + heights[band.rows[1]] + _BAND_PAD
        canvas.rect(left, top, width, bottom - top, "band", behind=True)
        canvas.text(
            left + _BAND_PAD + 2,
            top + 4,
            wrapped(band.name, width, _TEXT_PX, bold=True),
            "band-name",
            "start",
        )

    def _draw_arrow(self, canvas: Canvas, arrow: Arrow) -> None:
        a, b = self.boxes[arrow.origin], self.boxes[arrow.target]
        label = self._label(arrow)
        left, right = max(a.x, b.x), min(a.x + a.width, b.x + b.width)
        top, bottom = max(a.y, b.y), min(a.y + a.height, b.y + b.height)
        if left < right:
            x = (left + right) / 2
            ends = (a.y + a.height, b.y) if a.y < b.y else (a.y, b.y + b.height)
            canvas.arrow([(x, ends[0]), (x, ends[1])], both=arrow.both)
            canvas.text(x + 8, sum(ends) / 2 - _LINE * len(label) / 2, label, "label", "start")
        elif top < bottom:
            y = (top + bottom) / 2
            sides = (a.x + a.width, b.x) if a.x < b.x else (a.x, b.x + b.width)
            canvas.arrow([(sides[0], y), (sides[1], y)], both=arrow.both)
            canvas.text(sum(sides) / 2, y - _LINE * len(label) - 3, label, "label")
        else:
            x, y = a.x + a.width / 2, b.y + b.height / 2
            canvas.arrow([(x, a.y + a.height), (x, y), (b.x, y)], both=arrow.both)


class Sequence:
    """Messages between participants, in the order of time."""

    def __init__(self, lines: list[str]) -> None:
        self.title = ""
        self.actors: list[str] = []
        self.steps: list[str] = []
        for line in lines:
            word, _, value = _parts_of(line) if not _ARROW.fullmatch(line) else ("", "", "")
            if word == "title":
                self.title = value
            elif word == "actors":
                self.actors = [item.strip() for item in value.split(",")]
            else:
                self.steps.append(line)
        self.step_width = (_WIDTH_MAX - 2 * _MARGIN) / len(self.actors)

    def _x(self, actor: str) -> float:
        if actor not in self.actors:
            raise DiagramError(f"{actor!r} is not one of {self.actors}")
        return _MARGIN + self.step_width * (self.actors.index(actor) + 0.5)

    def svg(self) -> str:
        """One step below the other."""
        canvas, y = Canvas(), float(_MARGIN)
        for actor in self.actors:
            head = Box(
                actor, x=self._x(actor) - self.step_width / 2 + 12, y=y, width=self.step_width - 24, height=34
            )
            head.draw(canvas)
        begin, y = y + 34, y + 48
        for step in self.steps:
            if message := _ARROW.fullmatch(step):
                y = self._draw_message(canvas, message, y)
            else:
                y = self._draw_step(canvas, *_parts_of(step), y)
        for actor in self.actors:
            x = self._x(actor)
            canvas.behind.append(f'<line x1="{x:g}" y1="{begin:g}" x2="{x:g}" y2="{y:g}" class="life"/>')
        return canvas.svg(self.title, _WIDTH_MAX, y + _MARGIN)

    def _draw_message(self, canvas: Canvas, message: re.Match[str], y: float) -> float:
        start, stop = self._x(message["a"]), self._x(message["b"])
        label = wrapped(message["label"] or "", abs(start - stop) - 14, _LABEL_PX)
        middle = (start + stop) / 2
        for number, line in enumerate(label):
            width = width_of(line, _LABEL_PX) + 6
            canvas.rect(middle - width / 2, y + _LINE * number, width, _LINE, "paper")
        canvas.text(middle, y, label, "label")
        y += _LINE * len(label) + 5
        canvas.arrow([(start, y), (stop, y)], both=message["head"] == "<->")
        return y + 12

    def _draw_step(self, canvas: Canvas, word: str, actor: str, value: str, y: float) -> float:
        if word == "note":
            box = Box(text=value, style="strong", x=_MARGIN, width=_WIDTH_MAX - 2.0 * _MARGIN)
        elif word == "at":
            box = Box(
                text=value,
                style="plain",
                x=self._x(actor) - self.step_width / 2 + 4,
                width=self.step_width - 8,
            )
        else:
            raise DiagramError(f"a step that is not known: {word!r}")
        box.y, box.height = y + 2, 12.0 + _LINE * len(box.lines()[1])
        box.draw(canvas)
        return box.y + box.height + 12


def _parts_of(line: str) -> tuple[str, str, str]:
    if not (parts := _LINE_OF_TEXT.fullmatch(line)):
        raise DiagramError(f"a line that is not known: {line!r}")
    return parts["word"], parts["more"] or "", parts["value"] or ""


def _taken(known: dict[str, Taken], name: str) -> Taken:
    if name not in known:
        raise DiagramError(f"there is no box {name!r}")
    return known[name]


def files_of(name: str, source: str) -> dict[str, str]:
    """The drawings of a text by the names of their files."""
    text, schemes = _SCHEMES.sub("", source), _SCHEMES.search(source)
    drawing = drawn(text)
    if not schemes:
        return {f"{name}.svg": drawing}
    rules = {"light": "", "dark": _DARK}
    return {f"{name}-{item}.svg": drawing.replace(_WHERE_DARK, rules[item]) for item in schemes[1].split()}


def main(sources: Path, target: Path) -> None:
    """Draw all texts of a folder."""
    for source in sorted(sources.glob("*.txt")):
        try:
            for file, drawing in files_of(source.stem, source.read_text("utf-8")).items():
                (target / file).write_text(drawing, "utf-8")
        except DiagramError as error:
            sys.exit(f"{source}: {error}")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:3]))
