"""Tables of Spark's catalog: Spark tells this source their options when one is made, and never again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ..errors import OptionError

#: What Spark adds to the options of a table that it makes.
_OF_A_TABLE: Final = "provider"
_WHY: Final = "Spark hands this source no options of a table when it is read or written"
_VIEW: Final = "use CREATE TEMPORARY VIEW name USING kafkawire OPTIONS (...)"
_WITH: Final = "give the options with each use, SELECT ... FROM name WITH (...)"


def check_is_no_table(options: Mapping[str, str]) -> None:
    """Raise ``OptionError`` (fatal) for a table without columns that is about to be made.

    Spark does not ask for the columns of one that has them: that one can be used with options.
    """
    if _OF_A_TABLE in {name.lower() for name in options}:
        raise OptionError(
            f"CREATE TABLE ... USING kafkawire: {_WHY}; {_VIEW}, or declare its columns and {_WITH}"
        )


def check_has_options(options: Mapping[str, str]) -> None:
    """Raise ``OptionError`` (fatal) where there is none, as for each table."""
    if not options:
        raise OptionError(
            "no option is set, not even kafka.bootstrap.servers; where this is a table of the catalog: "
            f"{_WHY}; {_VIEW}, or {_WITH} or spark.read.options(...).table(name)"
        )
