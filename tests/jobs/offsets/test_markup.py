"""HTML is escaped unless it is known to be HTML."""

from __future__ import annotations

from spark_kafkawire.jobs.offsets.page.markup import Markup, joined, tag


def test_texts_and_values_are_escaped() -> None:
    assert tag("td", '<b>"&', title="'\"><script>") == (
        '<td title="&#x27;&quot;&gt;&lt;script&gt;">&lt;b&gt;&quot;&amp;</td>'
    )


def test_elements_are_not_escaped_again() -> None:
    assert tag("p", tag("i"), joined("<", Markup("<br>"))) == "<p><i></i>&lt;<br></p>"


def test_attributes_have_names_of_html_and_may_have_no_value() -> None:
    made = tag("input", data_v=0, class_="a", hidden=True, disabled=False, id="")
    assert made == '<input data-v="0" class="a" hidden>'
