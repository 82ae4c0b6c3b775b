"""Credentials of ZooKeeper: refused without being shown, and in no repr."""

from __future__ import annotations

import pytest

from spark_kafkawire.errors import OptionError
from tests.options.values import (
    SECRET,
    read,
    write,
)


@pytest.mark.parametrize(
    "value", [SECRET, f"digest:{SECRET}", f"sasl:u:{SECRET}", f"u:{SECRET}", f"DIGEST:u:{SECRET}", ""]
)
def test_a_bad_credential_is_refused_and_never_shown(value: str) -> None:
    with pytest.raises(OptionError, match=r"option zookeeper\.auth") as error:
        read(**{"zookeeper.auth": value})
    assert SECRET not in str(error.value)
    assert SECRET not in repr(error.value)


def test_a_credential_is_in_no_repr() -> None:
    for options in (
        read(**{"zookeeper.auth": f"digest:u:{SECRET}"}),
        write(**{"zookeeper.auth": f"digest:u:{SECRET}"}),
    ):
        assert SECRET not in repr(options)
        assert SECRET not in str(options)
