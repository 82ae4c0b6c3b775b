"""The site of ``make docs`` in a browser: no cell of a table and no line of code is cut off, the search finds
options, variants are tabs, and no page asks another site for anything."""

from __future__ import annotations

import fcntl
import functools
import importlib.util
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import pytest

from spark_kafkawire.version import VERSION
from tests.support.browser import Browser, find_browser
from tests.support.pages import DOCS, ROOT
from tests.support.polling import poll
from tests.support.short_and_long import short_and_long

pytestmark = [
    pytest.mark.skipif(find_browser() is None, reason="no Chromium or Chrome is installed"),
    pytest.mark.skipif(importlib.util.find_spec("mkdocs") is None, reason="make docs has not run"),
    pytest.mark.slow,
    pytest.mark.timeout(600),
]

#: A large window, that of a notebook, a large telephone and a small one, in CSS pixels.
WIDTHS: Final = (1400, 1280, 500, 400)
TELEPHONE: Final = 500
#: The heads of tables and the blocks of code that do not fit. A table of numbers, or of more than five
#: columns, may scroll on a telephone, and so may text that a command has printed.
CUT: Final = """(() => {
    const mayScroll = innerWidth < 960
    const cut = []
    for (const table of document.querySelectorAll('.md-typeset table:not([class])')) {
        const room = table.closest('.md-typeset__scrollwrap')
        const isWide = table.querySelector('td[style*="right"]') || table.rows[0].cells.length > 5
        const scrolls = room.scrollWidth > room.clientWidth + 1
        if (scrolls && !(mayScroll && isWide)) cut.push(table.rows[0].innerText)
    }
    for (const code of document.querySelectorAll('.md-typeset pre > code')) {
        const isPrinted = !code.closest('.language-python, .language-sh')
        if (code.scrollWidth > code.clientWidth + 1 && !(mayScroll && isPrinted)) cut.push(code.innerText)
    }
    return cut
})()"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site, one for all processes of a run."""
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID")
    folder = tmp_path_factory.getbasetemp().parent / f"site-{run}" if run else tmp_path_factory.mktemp("site")
    with open(f"{folder}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "sitemap.xml").exists():
            build = ("build", "--quiet", "--strict", "-f", ".ci/mkdocs.yml", "-d", str(folder))
            subprocess.run([sys.executable, "-m", "mkdocs", *build], cwd=ROOT, check=True)
    return folder


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    """The address of the site on this machine: a page from a file may not ask for the index of the search."""
    with ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=site)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as browser:
        yield browser


@short_and_long("widths", short=(WIDTHS[0], WIDTHS[-1]), long=WIDTHS)
def test_no_table_and_no_code_of_a_page_is_cut_off(
    widths: tuple[int, ...], site: Path, browser: Browser
) -> None:
    pages = sorted(site.glob("*/index.html"))
    assert len(pages) >= len(list(DOCS.glob("*.md"))) - 1
    cut = {}
    for page in pages:
        browser.open(page)
        assert browser.run("document.querySelector('.md-typeset h1') !== null"), page
        for width in widths:
            browser.resize(width)
            assert browser.run("innerWidth") == width
            cut[page.parent.name, width] = browser.run(CUT)
    assert {location: result for location, result in cut.items() if result} == {}


def test_a_name_of_an_option_breaks_between_its_words(site: Path, browser: Browser) -> None:
    browser.open(site / "options" / "index.html", TELEPHONE)
    cell = (
        "[...document.querySelectorAll('td code')].find(code => code.innerText == 'kafka.bootstrap.servers')"
    )
    assert browser.run(f"{cell}.innerHTML") == "kafka.<wbr>bootstrap.<wbr>servers"


#: Types a word into the search, as the theme listens to it.
TYPE: Final = """(word => {
    const field = document.querySelector('.md-search__input')
    field.focus()
    field.value = word
    for (const name of ['input', 'keyup']) field.dispatchEvent(new KeyboardEvent(name, {bubbles: true}))
})"""
FOUND: Final = "[...document.querySelectorAll('.md-search-result__link')].map(link => link.href)"


@pytest.mark.parametrize(
    ("word", "page"), [("maxOffsetsPerTrigger", "streaming"), ("exactly-once", "exactly-once")]
)
def test_the_search_finds_the_page(address: str, browser: Browser, word: str, page: str) -> None:
    browser.open(address)
    browser.run(f"{TYPE}({word!r})")
    result = poll(lambda: browser.run(FOUND), f"results of {word}")
    assert [link for link in result if link.startswith(f"{address}{page}/")], result


def test_a_page_asks_no_other_site_for_anything(address: str, browser: Browser) -> None:
    before = len(browser.requested)
    for page in ("", "options/", "api/"):
        browser.open(f"{address}{page}")
    asked = browser.requested[before:]
    assert asked
    assert [url for url in asked if not url.startswith((address, "data:"))] == []


def test_a_page_has_its_address_its_neighbours_and_the_version(site: Path, browser: Browser) -> None:
    browser.open(site / "lag" / "index.html")
    links = "[...document.querySelectorAll('link[rel=canonical], .md-footer__link')].map(a => a.href)"
    canonical, before, after = browser.run(links)
    assert canonical.endswith("/spark-kafkawire/lag/")
    assert (Path(before).name, Path(after).name) == ("data-loss", "metrics")
    repository = browser.run("document.querySelector('.md-header .md-source').innerText")
    assert repository.strip() == f"spark-kafkawire {VERSION}"
    mapped = (site / "sitemap.xml").read_text("utf-8")
    assert mapped.count("<loc>") == len(list(DOCS.glob("*.md")))
    assert f"<loc>{canonical}</loc>" in mapped


def test_variants_of_an_example_are_tabs(site: Path, browser: Browser) -> None:
    browser.open(site / "reading-and-writing" / "index.html")
    sets = "[...document.querySelectorAll('.tabbed-labels')].map(labels => labels.innerText)"
    assert [labels.split() for labels in browser.run(sets)] == 2 * [["Python", "SQL", "Command"]]
    shown = "[...document.querySelector('.tabbed-content').children].map(tab => tab.offsetHeight > 0)"
    assert browser.run(shown) == [True, False, False]
    browser.run("document.querySelectorAll('.tabbed-labels > label')[1].click()")
    assert browser.run(shown) == [False, True, False]
    assert "<!-- tab" not in browser.run("document.querySelector('.md-content').innerText")


def test_a_signature_of_the_reference_has_its_types(site: Path, browser: Browser) -> None:
    browser.open(site / "api" / "index.html")
    signatures = browser.run("[...document.querySelectorAll('.doc-signature')].map(each => each.innerText)")
    [shown] = [text for text in signatures if text.startswith("dead_letters(")]
    assert shown.split() == ["dead_letters(rows:", "DataFrame)", "->", "DataFrame"]
