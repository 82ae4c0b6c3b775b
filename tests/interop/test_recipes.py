"""The recipe that needs a jar of Spark's, with messages of a registry's own serializer in Apache Kafka."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.support import registry

from .apache_kafka import ApacheKafka
from .needs import needed_avro
from .versions import newest

ROOT: Final = Path(__file__).parents[2]
_TIMEOUT_S: Final = 400.0


@newest
@pytest.mark.timeout(_TIMEOUT_S + 60)
def test_from_avro_and_fastavro_read_what_a_registrys_serializer_wrote_by_two_schemas(
    kafka: ApacheKafka, tmp_path: Path
) -> None:
    jars = ",".join(needed_avro())
    servers, answers = kafka.bootstrap_servers(), tmp_path / "answers.json"
    registry.produce(servers)
    command = [sys.executable, "-m", "tests.interop.avro_recipe", servers, jars, str(answers)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=_TIMEOUT_S)
    assert done.returncode == 0, done.stderr
    by_spark, by_fastavro = json.loads(answers.read_text())
    assert by_spark == [{"city": None, **customer} for customer in registry.customers()]
    assert by_fastavro == by_spark
