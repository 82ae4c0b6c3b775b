"""Log directories in object stores beside S3, each read from an emulator of the store."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_kafkawire.directories.files import FileAccessError
from tests.support.directory_reading import DirectoryRead
from tests.support.golden import CORPUS
from tests.support.log_folders import KILLED

from .object_stores import Azurite, GcsEmulator, ObjectStore


@pytest.mark.timeout(400)
@pytest.mark.parametrize("store", [GcsEmulator, Azurite])
def test_directories_in_an_object_store(store: type[ObjectStore], tmp_path: Path) -> None:
    if store is GcsEmulator:
        pytest.importorskip("gcp_storage_emulator", reason="the extra interop has a GCS")
    with store(tmp_path) as server:
        server.upload(KILLED, "logs", "broker-1")
        server.upload(CORPUS / "broker0", "old-logs", "broker-0")
        where = {"fs__endpoint": server.endpoint}
        for bucket, name, local in (
            ("logs", "broker-1", KILLED),
            ("old-logs", "broker-0", CORPUS / "broker0"),
        ):
            expected = DirectoryRead(local).table()
            assert len(expected)
            assert DirectoryRead(server.uri(bucket, name), **where).table() == expected
        committed = {"kafka__isolation__level": "read_committed"}
        found = DirectoryRead(server.uri("logs", "broker-1"), **where, **committed).table()
        assert found == DirectoryRead(KILLED, **committed).table()
        with pytest.raises(FileAccessError, match=r"does not exist$"):
            DirectoryRead(server.uri("logs", "missing"), **where)
