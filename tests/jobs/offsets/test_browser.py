"""The page in a browser: it draws what it says, and sorts, folds and filters; hostile names do nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from spark_kafkawire.jobs.offsets.page.document import page
from spark_kafkawire.jobs.offsets.page.topics_table import PARTITIONS_UNFOLDED_MAX
from spark_kafkawire.jobs.offsets.report import ClusterReport
from tests.support.browser import Browser, find_browser

from .reports import HOSTILE, partition_07, partition_modern, report_07, report_modern

pytestmark = pytest.mark.skipif(find_browser() is None, reason="no Chromium or Chrome is installed")

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


def test_the_page_runs_without_trouble_and_asks_for_nothing(browser: Browser, tmp_path: Path) -> None:
    show(browser, REPORT, tmp_path)
    assert browser.troubles == []
    assert browser.requested == [(tmp_path / "offsets.html").as_uri()]
    assert browser.run("document.querySelectorAll('.fold[aria-expanded=true]').length") == 3


def test_a_click_sorts_topics_and_another_one_turns_them(browser: Browser, tmp_path: Path) -> None:
    show(browser, REPORT, tmp_path)
    by_name, by_partitions, by_size, _, by_lag = range(5)
    orders = []
    for column in (by_size, by_size, by_lag, by_partitions, by_name, by_name):
        click(browser, "thead button", column)
        orders.append(" ".join(browser.run(TOPICS)))
    assert orders == [
        "big middle small",
        "small middle big",
        "big middle small",
        "big middle small",
        "big middle small",
        "small middle big",
    ]
    assert browser.run("document.querySelector('thead th').ariaSort") == "descending"
    logs = "[...document.querySelectorAll('.log th')].map(cell => cell.firstChild.textContent.trim())"
    assert browser.run(logs) == ["0-0", "0-0", "1-0", "0-0"]


def test_topics_fold_one_by_one_and_all_at_once(browser: Browser, tmp_path: Path) -> None:
    show(browser, REPORT, tmp_path)
    assert browser.run(VISIBLE_PARTITIONS) == 4
    click(browser, ".fold", 0)
    assert browser.run(VISIBLE_PARTITIONS) == 2
    click(browser, "#fold")
    assert browser.run(VISIBLE_PARTITIONS) == 0
    click(browser, "#unfold")
    assert browser.run(VISIBLE_PARTITIONS) == 4


def test_topics_are_found_by_name_and_by_lag(browser: Browser, tmp_path: Path) -> None:
    show(browser, REPORT, tmp_path)
    find = (
        "(box => {{ box.value = '{}'; box.dispatchEvent(new Event('input')) }})"
        "(document.querySelector('#filter'))"
    )
    browser.run(find.format("MALL"))
    assert browser.run(TOPICS) == ["small"]
    assert browser.run("document.querySelector('#shown').innerText") == "1 of 3 topics"
    browser.run(find.format(""))
    click(browser, "#lagging")
    assert browser.run(TOPICS) == ["big", "middle"]


def test_bars_have_one_scale(browser: Browser, tmp_path: Path) -> None:
    show(browser, REPORT, tmp_path)
    widths = "[...document.querySelectorAll('.log .sizebar')].map(bar => bar.getBoundingClientRect().width)"
    largest, *others = browser.run(widths)
    assert [round(1000 * width / largest) for width in others] == [400, 500, 90]


def test_the_page_is_dark_where_that_is_liked(browser: Browser, tmp_path: Path) -> None:
    show(browser, REPORT, tmp_path)
    colours = "['backgroundColor', 'color'].map(name => getComputedStyle(document.body)[name])"
    light, picture = browser.run(colours), browser.picture()
    browser.prefer("dark")
    dark = browser.run(colours)
    assert light != dark
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
