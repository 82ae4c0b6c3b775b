"""The site of ``make docs`` in a browser: no cell of a table and no line of code is cut off."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.support.browser import Browser, find_browser
from tests.support.pages import DOCS, ROOT

pytestmark = [
    pytest.mark.skipif(find_browser() is None, reason="no Chromium or Chrome is installed"),
    pytest.mark.skipif(importlib.util.find_spec("mkdocs") is None, reason="make docs has not run"),
    pytest.mark.slow,
    pytest.mark.timeout(600),
]

#: A notebook's window, and a large telephone, in CSS pixels.
NOTEBOOK: Final = 1280
TELEPHONE: Final = 500
#: The heads of tables and the blocks of code that do not fit. A table of numbers, or of more than five
#: columns, may scroll on a telephone, and so may text that a command has printed.
CUT: Final = """(() => {
    const mayScroll = innerWidth < 960
    const cut = []
    for (const table of document.querySelectorAll('.md-typeset table:not([class])')) {
        const room = table.closest('.md-typeset__scrollwrap').clientWidth
        const isWide = table.querySelector('td[style*="right"]') || table.rows[0].cells.length > 5
        if (table.scrollWidth > room + 1 && !(mayScroll && isWide)) cut.push(table.rows[0].innerText)
    }
    for (const code of document.querySelectorAll('.md-typeset pre > code')) {
        const isPrinted = !code.closest('.language-python, .language-sh')
        if (code.scrollWidth > code.clientWidth + 1 && !(mayScroll && isPrinted)) cut.push(code.innerText)
    }
    return cut
})()"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site."""
    folder = tmp_path_factory.mktemp("site")
    build = ("build", "--quiet", "--strict", "-f", ".ci/mkdocs.yml", "-d", str(folder))
    subprocess.run([sys.executable, "-m", "mkdocs", *build], cwd=ROOT, check=True)
    return folder


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as browser:
        yield browser


@pytest.mark.parametrize("width", [NOTEBOOK, TELEPHONE])
def test_no_table_and_no_code_of_a_page_is_cut_off(site: Path, browser: Browser, width: int) -> None:
    pages = sorted(site.glob("*/index.html"))
    assert len(pages) >= len(list(DOCS.glob("*.md"))) - 1
    cut = {}
    for page in pages:
        browser.open(page, width)
        assert browser.run("document.querySelector('.md-typeset h1') !== null"), page
        cut[page.parent.name] = browser.run(CUT)
    assert {name: found for name, found in cut.items() if found} == {}


def test_a_name_of_an_option_breaks_between_its_words(site: Path, browser: Browser) -> None:
    browser.open(site / "options" / "index.html", TELEPHONE)
    cell = (
        "[...document.querySelectorAll('td code')].find(code => code.innerText == 'kafka.bootstrap.servers')"
    )
    assert browser.run(f"{cell}.innerHTML") == "kafka.<wbr>bootstrap.<wbr>servers"
