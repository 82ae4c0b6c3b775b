"""Settings travel to the executors, and equal ones share connections."""

from __future__ import annotations

import pickle

import pytest

from spark_kafkawire.model import Generation
from spark_kafkawire.net.settings import ConnectionSettings


@pytest.mark.parametrize("generation", Generation)
def test_settings_travel_to_executors_and_stay_equal(generation: Generation) -> None:
    settings = ConnectionSettings(generation, 30.0, client_id="me")
    arrived = pickle.loads(pickle.dumps(settings))
    assert arrived == settings
    assert hash(arrived) == hash(settings)
    assert arrived != ConnectionSettings(generation, 30.0)
