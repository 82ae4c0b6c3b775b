"""`.ci/diagrams.py`: each drawing of the pages comes from its text, and every text is on a page."""

from __future__ import annotations

import re
import runpy
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.browser import Browser, find_browser
from tests.support.cases import for_each
from tests.support.pages import DOCS, PAGES, ROOT, links_of

TEXTS: Final = sorted((DOCS / "diagrams").glob("*.txt"))
IMAGES: Final = DOCS / "images"
#: How far right each text of a drawing reaches beyond the smallest box around its middle, pixels.
OVERFLOW: Final = """
(() => {
  const boxes = [...document.querySelectorAll("rect")].map(rect => rect.getBBox());
  return [...document.querySelectorAll("text")].map(text => {
    const at = text.getBBox(), x = at.x + at.width / 2, y = at.y + at.height / 2;
    const around = boxes.filter(b => b.x <= x && x <= b.x + b.width && b.y <= y && y <= b.y + b.height);
    const box = around.reduce((least, b) => b.width * b.height < least.width * least.height ? b : least);
    return Math.max(box.x - at.x, at.x + at.width - box.x - box.width);
  });
})()
"""


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / ".ci" / "diagrams.py"))


@for_each("text", TEXTS, ids=lambda text: text.stem)
def test_a_drawing_is_what_its_text_gives(text: Path, script: dict[str, Any]) -> None:
    for name, drawing in script["files_of"](text.stem, text.read_text("utf-8")).items():
        assert (IMAGES / name).read_text("utf-8") == drawing, "run make diagrams"
        ElementTree.fromstring(drawing)


def test_every_drawing_has_a_text_and_a_page() -> None:
    drawings = {path.name for path in IMAGES.glob("*.svg")}
    shown = {Path(link).name for page in PAGES for link in links_of(page) if link.endswith(".svg")}
    assert drawings == shown
    assert {re.sub(r"(-light|-dark)?\.svg$", "", name) for name in drawings} == {text.stem for text in TEXTS}


def test_a_drawing_for_one_scheme_has_the_colours_of_that_scheme_whatever_the_reader_prefers() -> None:
    light, dark = ((IMAGES / f"overview-{each}.svg").read_text("utf-8") for each in ("light", "dark"))
    papers = [re.findall(r"\.paper\{fill:(#\w+)\}", text)[-1] for text in (light, dark)]
    assert papers == ["#fff", "#1e2129"]
    assert "prefers-color-scheme" not in light + dark


@for_each(
    ("text", "error"),
    [
        (
            "columns: 60\nrow: a\nbox a: incomprehensibilities",
            r"'incomprehensibilities' takes \d+ of 42 pixels",
        ),
        ("columns: 300 300\nrow: a b\nbox a: A\nbox b: B", "650 pixels wide, more than 460"),
        ("columns: 60 60\nrow: a\nbox a: A", "row 1 has 1 places, not 2"),
        ("columns: 60\nrow: a\nbox a: A\na -> b", "there is no box 'b'"),
        ("columns: 60\nrow: b\nbox a: A", "there is no box 'b'"),
        ("columns: 60\ncircle a: A", "a line that is not known: 'circle a: A'"),
        ("columns: 60\n?", r"a line that is not known: '\?'"),
        ("actors: A, B\nA -> C: no", r"'C' is not one of \['A', 'B'\]"),
        ("actors: A, B\nbox a: A", "a step that is not known: 'box'"),
    ],
)
def test_a_text_that_cannot_be_drawn_is_refused(text: str, error: str, script: dict[str, Any]) -> None:
    with pytest.raises(script["DiagramError"], match=error):
        script["drawn"](text)


def test_text_is_escaped(script: dict[str, Any]) -> None:
    drawing = script["drawn"]("title: a < b\ncolumns: 90\nrow: a\nbox a: A & B")
    root = ElementTree.fromstring(drawing)
    assert re.findall(r"\S+", "".join(root.itertext()))[:3] == ["a", "<", "b"]
    assert "A & B" in [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]


@pytest.mark.skipif(find_browser() is None, reason="no browser is installed")
@for_each("drawing", sorted(IMAGES.glob("*.svg")), ids=lambda drawing: drawing.stem)
def test_no_text_is_wider_than_its_box(drawing: Path) -> None:
    with Browser() as browser:
        browser.open(drawing)
        overflow = browser.run(OVERFLOW)
    assert overflow
    assert max(overflow) <= 0
