"""The page: complete, one file, and safe whatever the topics are called; and what a browser makes of it."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest

from spark_kafkawire.jobs.offsets import page as offsets_table
from spark_kafkawire.jobs.offsets.page import PARTITIONS_UNFOLDED_MAX, Markup, join_markup, page, tag
from spark_kafkawire.jobs.offsets.report import ClusterReport
from spark_kafkawire.model import TopicPartition
from tests.support.browser import Browser, find_browser

from .reports import HOSTILE, partition_07, partition_modern, report_07, report_modern


def test_texts_and_values_are_escaped_once_and_attributes_have_names_of_html() -> None:
    assert tag("td", '<b>"&', title="'\"><script>") == (
        '<td title="&#x27;&quot;&gt;&lt;script&gt;">&lt;b&gt;&quot;&amp;</td>'
    )
    assert tag("p", tag("i"), join_markup("<", Markup("<br>"))) == "<p><i></i>&lt;<br></p>"
    assert tag("input", data_v=0, class_="a", id="") == '<input data-v="0" class="a">'


class Reader(HTMLParser):
    """The content that a browser would see: elements with attributes, and the rows' texts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.rows: list[list[str]] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, name: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append((name, dict(attributes)))
        if name == "tr":
            self.rows.append([])
        if name in ("td", "th"):
            self.rows[-1].append("")
        if name not in ("meta", "input"):
            self.open.append(name)

    def handle_endtag(self, name: str) -> None:
        assert self.open.pop() == name

    def handle_data(self, data: str) -> None:
        if "tr" in self.open:
            self.rows[-1][-1] += data

    def named(self, name: str) -> list[dict[str, str | None]]:
        return [attributes for element, attributes in self.elements if element == name]


def test_mark_a_partition_that_no_broker_serves() -> None:
    text = page(report_07((TopicPartition("t", 0, 7), None, (3,)), groups=("g",)))
    assert "No broker serves 1 partition now." in text
    assert "no broker serves the partitions that it has offsets for" in text
    assert Reader(text).rows[-1] == ["7-0 no broker serves it", "-", "-", "-", "at 3"]


def test_hostile_names_make_no_element_and_no_attribute() -> None:
    partition = partition_07(HOSTILE, "0-0", 0, (0,), 9, 4)
    plain, hostile = (Reader(page(report_07(partition, groups=(name,)))) for name in ("g", HOSTILE))
    harmless = Reader(page(report_07(partition_07("t", "0-0", 0, (0,), 9, 4), groups=("g",))))
    names = [name for name, _ in harmless.elements]
    assert [name for name, _ in hostile.elements] == [name for name, _ in plain.elements] == names
    assert [sorted(values) for _, values in hostile.elements] == [
        sorted(values) for _, values in harmless.elements
    ]
    text = page(report_07(partition, groups=(HOSTILE,)))
    assert "\x1b" not in text
    assert "\u202e" not in text


def test_the_page_loads_nothing_and_runs_its_own_script_only() -> None:
    text = page(report_07(partition_07("t", "0-0", 0, (0,), 9)))
    seen = Reader(text)
    [script] = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    [policy] = [meta["content"] for meta in seen.named("meta") if "http-equiv" in meta]
    assert policy is not None
    assert "default-src 'none'" in policy
    assert f"script-src 'sha256-{digest}'" in policy
    loaded = {"src", "href", "srcset", "data", "action"} & {
        key for _, values in seen.elements for key in values
    }
    assert not loaded
    assert "url(" not in text
    assert "@import" not in text


def test_few_partitions_are_unfolded_and_many_are_folded() -> None:
    few = [
        partition_07("t", f"0-{partition}", 0, (0,), 9)
        for partition in range(offsets_table.PARTITIONS_UNFOLDED_MAX)
    ]
    assert Reader(page(report_07(*few))).named("tbody")[-1] == {}
    many = [*few, partition_07("u", "0-0", 0, (0,), 9)]
    assert Reader(page(report_07(*many))).named("tbody")[-1] == {"class": "folded"}


def test_the_partitions_of_too_large_a_cluster_are_left_out_with_a_note(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(offsets_table, "PARTITIONS_LISTED_MAX", 3)
    partitions = [
        partition_07(topic, f"0-{partition}", 0, (0,), 9)
        for topic in ("a", "b", "c")
        for partition in range(2)
    ]
    text = page(report_07(*partitions))
    listed = [row[0] for row in Reader(text).rows[-5:]]
    assert listed == ["a", "0-0 on broker 0", "0-1 on broker 0", "b", "c"]
    assert "The partitions of 2 topics are left out" in text


REPORT = report_07(
    partition_07("big", "0-0", 0, (0, 500), 1000, 1000),
    partition_07("big", "1-0", 0, (0,), 400, 100),
    partition_07("middle", "0-0", 100, (100,), 600, 550),
    partition_07("small", "0-0", 0, (0,), 90, None),
    groups=("etl",),
)
TOPICS = "[...document.querySelectorAll('tbody:not([hidden]) .topic th')].map(cell => cell.innerText)"
VISIBLE_PARTITIONS = "[...document.querySelectorAll('.log')].filter(row => row.offsetHeight > 0).length"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if find_browser() is None:
        pytest.skip("no Chromium or Chrome is installed")
    with Browser() as browser:
        yield browser


def show(browser: Browser, report: ClusterReport, folder: Path, width: int = 1400) -> None:
    file = folder / "offsets.html"
    file.write_text(page(report), "utf-8")
    browser.troubles.clear()
    browser.requested.clear()
    browser.prefer("light")
    browser.open(file, width)


def click(browser: Browser, selector: str, place: int = 0) -> None:
    browser.run(f"document.querySelectorAll({selector!r})[{place}].click()")


def test_topics_are_sorted_folded_and_found(browser: Browser, tmp_path: Path) -> None:
    """And bars have one scale."""
    show(browser, REPORT, tmp_path)
    widths = "[...document.querySelectorAll('.log .sizebar')].map(bar => bar.getBoundingClientRect().width)"
    largest, *others = browser.run(widths)
    assert [round(1000 * width / largest) for width in others] == [400, 500, 90]
    assert browser.run(VISIBLE_PARTITIONS) == 4
    click(browser, ".fold", 0)
    assert browser.run(VISIBLE_PARTITIONS) == 2
    for button, visible in (("#fold", 0), ("#unfold", 4)):
        click(browser, button)
        assert browser.run(VISIBLE_PARTITIONS) == visible
    by_name, by_partitions, by_size, _, by_lag = range(5)
    rising, falling, orders = "big middle small", "small middle big", []
    for column in (by_size, by_size, by_lag, by_partitions, by_name, by_name):
        click(browser, "thead button", column)
        orders.append(" ".join(browser.run(TOPICS)))
    assert orders == [rising, falling, rising, rising, rising, falling]
    assert browser.run("document.querySelector('thead th').ariaSort") == "descending"
    logs = "[...document.querySelectorAll('.log th')].map(cell => cell.firstChild.textContent.trim())"
    assert browser.run(logs) == ["0-0", "0-0", "1-0", "0-0"]
    find = "box.value = '{}'; box.dispatchEvent(new Event('input'))"
    find = f"(box => {{{{ {find} }}}})(document.querySelector('#filter'))"
    browser.run(find.format("MALL"))
    assert browser.run(TOPICS) == ["small"]
    assert browser.run("document.querySelector('#shown').innerText") == "1 of 3 topics"
    browser.run(find.format(""))
    click(browser, "#lagging")
    assert sorted(browser.run(TOPICS)) == ["big", "middle"]


def test_the_page_runs_without_trouble_asks_for_nothing_and_is_dark_where_that_is_liked(
    browser: Browser, tmp_path: Path
) -> None:
    show(browser, REPORT, tmp_path)
    assert browser.troubles == []
    assert browser.requested == [(tmp_path / "offsets.html").as_uri()]
    assert browser.run("document.querySelectorAll('.fold[aria-expanded=true]').length") == 3
    colours = "['backgroundColor', 'color'].map(name => getComputedStyle(document.body)[name])"
    light, picture = browser.run(colours), browser.picture()
    browser.prefer("dark")
    assert browser.run(colours) != light
    assert browser.picture() != picture


@pytest.mark.parametrize("width", [380, 1400])
@pytest.mark.parametrize(
    "report",
    [REPORT, report_modern(partition_modern("t" * 249, 0, 0, 1 << 62, 5), groups=("g" * 200,))],
    ids=["0.7", "long names"],
)
def test_only_the_table_scrolls_sideways(
    width: int, report: ClusterReport, browser: Browser, tmp_path: Path
) -> None:
    show(browser, report, tmp_path, width)
    assert browser.run("document.scrollingElement.scrollWidth") <= width


def test_everything_is_there_without_scripts(browser: Browser, tmp_path: Path) -> None:
    partitions = [
        partition_07("t", f"0-{number}", 0, (0,), 9) for number in range(PARTITIONS_UNFOLDED_MAX + 1)
    ]
    browser.ask("Emulation.setScriptExecutionDisabled", value=True)
    try:
        show(browser, report_07(*partitions), tmp_path)
        seen = browser.ask("DOM.getDocument", depth=-1)["root"]
        rows = browser.ask("DOM.querySelectorAll", nodeId=seen["nodeId"], selector=".log, .tools")["nodeIds"]
        boxes = [browser.has_box(row) for row in rows]
    finally:
        browser.ask("Emulation.setScriptExecutionDisabled", value=False)
    assert boxes == [False, *([True] * len(partitions))]


def test_hostile_names_are_text(browser: Browser, tmp_path: Path) -> None:
    partition = partition_07(HOSTILE, "0-0", 0, (0,), 9, 4)
    show(browser, report_07(partition, groups=(HOSTILE,)), tmp_path)
    assert browser.troubles == []
    assert browser.run("document.querySelectorAll('img, script:not(body > script:last-child)').length") == 0
    [name] = browser.run(TOPICS)
    assert name == "</title></script><script>alert(1)</script>\"'><img src=x onerror=alert(1)>\\x1b\\u202e"


def test_a_large_cluster_is_folded_and_still_sorts(browser: Browser, tmp_path: Path) -> None:
    partitions = [
        partition_07(f"t{topic}", f"0-{number}", 0, (0,), topic)
        for topic in range(1, 301)
        for number in range(10)
    ]
    assert len(partitions) > PARTITIONS_UNFOLDED_MAX
    show(browser, report_07(*partitions), tmp_path)
    assert browser.run(VISIBLE_PARTITIONS) == 0
    click(browser, "thead button", 2)
    assert browser.run(TOPICS)[:2] == ["t300", "t299"]
