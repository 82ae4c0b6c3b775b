"""Settings travel to the executors, and equal ones share connections."""

from __future__ import annotations

import pickle

import pytest

from spark_kafkawire.net.settings import ConnectionSettings
from spark_kafkawire.protocol import modern, v07
from spark_kafkawire.protocol.dialect import Dialect


@pytest.mark.parametrize("dialect", [v07.DIALECT, modern.DIALECT], ids=["0.7", "modern"])
def test_settings_travel_to_executors_and_stay_equal(dialect: Dialect) -> None:
    settings = ConnectionSettings(dialect, 30.0, client_id="me")
    arrived = pickle.loads(pickle.dumps(settings))
    assert arrived == settings
    assert hash(arrived) == hash(settings)
    assert arrived != ConnectionSettings(dialect, 30.0)
