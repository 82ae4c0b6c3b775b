"""The declarations of tables, beside the option that chooses one and the page that documents them."""

from __future__ import annotations

import pytest

from spark_kafkawire.options.selection import TABLES
from spark_kafkawire.source.spark_versions import spark_type
from spark_kafkawire.tables.catalogue import CATALOGUE
from tests.support.pages import table_after


def test_the_option_knows_the_tables() -> None:
    assert tuple(CATALOGUE) == TABLES


@pytest.mark.parametrize("name", TABLES)
def test_the_page_has_the_columns_of_the_code(name: str) -> None:
    shown = table_after("docs/tables.md", f"<!-- table: {name} -->")
    columns = CATALOGUE[name].columns
    assert shown == [[each.name, spark_type(each.type).simpleString(), each.meaning] for each in columns]
