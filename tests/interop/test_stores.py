"""Directories in HDFS and in object stores have the rows of local ones, and HDFS keeps the files of jobs:
Hadoop's own HDFS, and emulators of S3, GCS and Azure's blobs."""

from __future__ import annotations

import base64
import email.utils
import hashlib
import hmac
import http.client
import itertools
import json
import shutil
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.sql import SparkSession

from spark_kafkawire.broker.cluster import ChildProcess, find_java
from spark_kafkawire.directories.files import FileAccessError
from spark_kafkawire.jobs.files import FileError
from spark_kafkawire.jobs.ingest.output import OutputOptions
from spark_kafkawire.jobs.ingest.run import Ingest
from spark_kafkawire.jobs.spark import HadoopFiles
from tests.jobs.ingest.ingesting import QUIET, Crashing, options_of, produce, values_of
from tests.support.directory_reading import DirectoryRead
from tests.support.golden import CORPUS
from tests.support.log_folders import KILLED, START_OFFSET
from tests.support.noida import HOST, NoidaBroker, free_port, free_ports, listens

from .jars import hdfs_jars, kept
from .versions import needs_hdfs

_TIMEOUT_S: Final = 120.0
#: Credentials of anybody, in the environment, where pyarrow looks for them.
ENVIRONMENT: Final = {
    "AWS_ACCESS_KEY_ID": "anybody",
    "AWS_SECRET_ACCESS_KEY": "anything",
    "AWS_EC2_METADATA_DISABLED": "true",
}
REGION: Final = "us-east-1"
COMMITTED: Final = {"kafka__isolation__level": "read_committed"}
#: Directories, each in a bucket and in a folder of its own.
PLACES: Final = (("logs", "broker-1", KILLED), ("old-logs", "broker-0", CORPUS / "broker0"))
#: Packages of the emulators that pip gets.
PACKAGES: Final = {"S3Emulator": "moto", "GcsEmulator": "gcp_storage_emulator"}
_AZURITE: Final = "3.37.0"
#: Azurite's account. Its documentation has this key: it is no secret.
_ACCOUNT: Final = "devstoreaccount1"
_ACCOUNT_KEY: Final = (
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)


class ObjectStore(ABC):
    """An emulator in a process of its own during the ``with`` block. It answers as the store does, and
    has none of its limits, no TLS and no logins."""

    def __init__(self, folder: Path) -> None:
        self._port = free_port()
        self._log = folder / f"{type(self).__name__}.log"
        self._process: ChildProcess | None = None

    @property
    def endpoint(self) -> str:
        """Its address."""
        return f"http://{HOST}:{self._port}"

    @abstractmethod
    def uri(self, bucket: str, path: str) -> str:
        """A path as a user writes it."""

    def upload(self, folder: Path, bucket: str, name: str) -> None:
        """Put all files below a folder into a new bucket, below a name."""
        self._make(bucket)
        system = self._system()
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                with system.open_output_stream(f"{bucket}/{name}/{path.relative_to(folder)}") as stream:
                    stream.write(path.read_bytes())

    @abstractmethod
    def _argv(self) -> list[str]: ...

    def _make(self, bucket: str) -> None:
        self._system().create_dir(bucket)

    @abstractmethod
    def _system(self) -> Any: ...

    def __enter__(self) -> ObjectStore:
        name = type(self).__name__
        self._process = ChildProcess(name, self._argv(), output=self._log, log=self._log)
        self._process.wait_until(lambda: listens(HOST, self._port) or None, "answering", _TIMEOUT_S)
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._process:
            self._process.kill()


class S3Emulator(ObjectStore):
    """S3 of moto."""

    def uri(self, bucket: str, path: str) -> str:
        return f"s3://{bucket}/{path}"

    def _argv(self) -> list[str]:
        return [sys.executable, "-m", "moto.server", "-H", HOST, "-p", str(self._port)]

    def _system(self) -> Any:
        from pyarrow.fs import S3FileSystem

        return S3FileSystem(
            access_key=ENVIRONMENT["AWS_ACCESS_KEY_ID"],
            secret_key=ENVIRONMENT["AWS_SECRET_ACCESS_KEY"],
            endpoint_override=f"{HOST}:{self._port}",
            scheme="http",
            region=REGION,
            allow_bucket_creation=True,
        )


class GcsEmulator(ObjectStore):
    """GCS of gcp-storage-emulator."""

    def uri(self, bucket: str, path: str) -> str:
        return f"gs://anonymous@{bucket}/{path}"

    def _argv(self) -> list[str]:
        words = ["start", f"--host={HOST}", f"--port={self._port}", "--in-memory"]
        return [sys.executable, "-m", "gcp_storage_emulator", *words]

    def _system(self) -> Any:
        from pyarrow.fs import GcsFileSystem

        address = f"{HOST}:{self._port}"
        return GcsFileSystem(
            anonymous=True,
            scheme="http",
            endpoint_override=address,
            default_bucket_location="US",
            project_id="test",
        )


class Azurite(ObjectStore):
    """Azure's blobs of Azurite, which npm gets once a user."""

    def uri(self, bucket: str, path: str) -> str:
        return f"abfs://{bucket}@{_ACCOUNT}.dfs.core.windows.net/{path}?credential_kind=anonymous"

    def _argv(self) -> list[str]:
        words = ["--blobHost", HOST, "--blobPort", str(self._port), "--inMemoryPersistence", "--silent"]
        program = azurite() / "node_modules" / ".bin" / "azurite-blob"
        return ["node", str(program), *words, "--disableTelemetry", "--skipApiVersionCheck"]

    def _make(self, bucket: str) -> None:
        """Make a container that anybody may read, which pyarrow does not."""
        headers = {
            "x-ms-blob-public-access": "container",
            "x-ms-date": email.utils.formatdate(usegmt=True),
            "x-ms-version": "2021-08-06",
        }
        signed = "PUT" + 12 * "\n" + "".join(f"{name}:{value}\n" for name, value in headers.items())
        signed += f"/{_ACCOUNT}/{_ACCOUNT}/{bucket}\nrestype:container"
        key = base64.b64decode(_ACCOUNT_KEY)
        signature = base64.b64encode(hmac.digest(key, signed.encode(), hashlib.sha256)).decode()
        headers["Authorization"] = f"SharedKey {_ACCOUNT}:{signature}"
        connection = http.client.HTTPConnection(HOST, self._port, timeout=_TIMEOUT_S)
        connection.request("PUT", f"/{_ACCOUNT}/{bucket}?restype=container", headers=headers)
        response = connection.getresponse()
        assert response.status == http.HTTPStatus.CREATED, response.read()
        connection.close()

    def _system(self) -> Any:
        from pyarrow.fs import AzureFileSystem

        address = f"{HOST}:{self._port}"
        return AzureFileSystem(
            _ACCOUNT,
            account_key=_ACCOUNT_KEY,
            blob_storage_authority=address,
            dfs_storage_authority=address,
            blob_storage_scheme="http",
            dfs_storage_scheme="http",
        )


def azurite() -> Path:
    """The folder of Azurite; skips the test where npm is missing or does not get it."""

    def install(folder: Path) -> None:
        npm = shutil.which("npm")
        if npm is None:
            pytest.skip("Azurite is got with npm: it is not in PATH")
        folder.mkdir()
        command = [npm, "install", "--silent", "--prefix", str(folder), f"azurite@{_AZURITE}"]
        try:
            subprocess.run(command, check=True, capture_output=True, timeout=_TIMEOUT_S)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
            pytest.skip(f"npm does not get azurite {_AZURITE}")

    return kept(f"azurite-{_AZURITE}", install)


#: Who owns all files.
OWNER: Final = "backup"
_JAVA_OPTIONS: Final = (
    "-Xmx320m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    f"-DHADOOP_USER_NAME={OWNER}",
)


class Hdfs:
    """One name node and one data node, in a process during the ``with`` block. Users are names, as
    without Kerberos, and permissions count."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.port, self._rpc_port = free_ports(2)
        self._process: ChildProcess | None = None

    def path(self, path: str) -> str:
        """A path as Spark writes it."""
        return f"hdfs://{HOST}:{self._rpc_port}{path}"

    def uri(self, path: str, user: str | None = None) -> str:
        """A path as a user writes it."""
        at = "" if user is None else f"{user}@"
        return f"webhdfs://{at}{HOST}:{self.port}{path}"

    def upload(self, folder: Path, path: str) -> None:
        """Put all files below a folder below a path."""
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                self._put(f"{path}/{file.relative_to(folder)}", file.read_bytes())

    def allow(self, path: str, mode: str) -> None:
        """Set the permissions of a file or folder, in octal digits."""
        self._ask("PUT", self.port, f"/webhdfs/v1{path}?op=SETPERMISSION&user.name={OWNER}&permission={mode}")

    def _put(self, path: str, content: bytes) -> None:
        location = self._ask(
            "PUT", self.port, f"/webhdfs/v1{path}?op=CREATE&user.name={OWNER}&noredirect=true"
        )
        _, _, rest = json.loads(location)["Location"].partition("//")
        address, _, target = rest.partition("/")
        self._ask("PUT", int(address.rpartition(":")[2]), f"/{target}", content)

    def _ask(self, method: str, port: int, target: str, body: bytes | None = None) -> bytes:
        connection = http.client.HTTPConnection(HOST, port, timeout=_TIMEOUT_S)
        try:
            connection.request(method, target, body)
            response = connection.getresponse()
            content = response.read()
            assert response.status < 400, content
            return content
        finally:
            connection.close()

    def _answering(self) -> bool | None:
        try:
            self._put("/started", b"")
        except (OSError, AssertionError, http.client.HTTPException):
            return None
        return True

    def __enter__(self) -> Hdfs:
        words = [
            "org.apache.hadoop.mapreduce.MiniHadoopClusterManager",
            "-nomr",
            "-format",
            "-datanodes",
            "1",
        ]
        words += ["-nnport", str(self._rpc_port), "-nnhttpport", str(self.port)]
        words += ["-D", f"hdfs.minidfs.basedir={self._folder / 'hdfs'}"]
        log = self._folder / "hdfs.log"
        argv = [str(find_java()), *_JAVA_OPTIONS, "-cp", f"{hdfs_jars()}/*", *words]
        self._process = ChildProcess("HDFS", argv, output=log, log=log)
        try:
            self._process.wait_until(self._answering, "answering", _TIMEOUT_S)
        except BaseException:
            self._process.kill()
            raise
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._process:
            self._process.kill()


@pytest.mark.timeout(400)
@pytest.mark.parametrize("store", [S3Emulator, GcsEmulator, Azurite])
def test_directories_in_an_object_store(
    store: type[ObjectStore], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if package := PACKAGES.get(store.__name__):
        pytest.importorskip(package, reason="the extra interop has it")
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    with store(tmp_path) as server:
        where = {"fs__endpoint": server.endpoint}
        if store is S3Emulator:
            where["fs__region"] = REGION
        for bucket, name, local in PLACES:
            server.upload(local, bucket, name)
            expected = DirectoryRead(local).table()
            assert len(expected)
            assert DirectoryRead(server.uri(bucket, name), **where).table() == expected
        if store is S3Emulator:
            assert DirectoryRead("s3a://old-logs/broker-0/", **where).table() == expected
        result = DirectoryRead(server.uri("logs", "broker-1"), **where, **COMMITTED).table()
        assert result == DirectoryRead(KILLED, **COMMITTED).table()
        with pytest.raises(FileAccessError, match=r"does not exist$"):
            DirectoryRead(server.uri("logs", "missing"), **where)
        if store is S3Emulator:
            with pytest.raises(FileAccessError, match=r"there are some below .*broker-1; give these paths"):
                DirectoryRead("s3://logs", **where)


@pytest.fixture(scope="module")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hdfs]:
    """Two directories that anybody may read."""
    needs_hdfs()
    with Hdfs(tmp_path_factory.mktemp("hdfs")) as server:
        server.upload(KILLED, "/backup/broker-1")
        server.upload(CORPUS / "broker0", "/backup/old/broker-0")
        yield server


@pytest.mark.timeout(400)
def test_directories_in_hdfs_have_the_rows_of_local_ones(hdfs: Hdfs, spark: SparkSession) -> None:
    for path, local in (("/backup/broker-1", KILLED), ("/backup/old/broker-0", CORPUS / "broker0")):
        expected = DirectoryRead(local).table()
        assert len(expected)
        assert DirectoryRead(hdfs.uri(path)).table() == expected
    result = DirectoryRead(hdfs.uri("/backup/broker-1"), **COMMITTED).table()
    assert result == DirectoryRead(KILLED, **COMMITTED).table()
    df = spark.read.format("kafkawire").option("subscribe", "events").load(hdfs.uri("/backup/broker-1"))
    local_df = spark.read.format("kafkawire").option("subscribe", "events").load(str(KILLED))
    assert df.count() == local_df.count() > START_OFFSET


@pytest.mark.parametrize(("name", "mode"), [("", "700"), ("/00000000000000000000.log", "600")])
def test_what_the_user_may_not_read_is_an_error_and_not_an_empty_log(
    hdfs: Hdfs, name: str, mode: str
) -> None:
    """A folder and a file."""
    path = f"/backup/broker-1/events-0{name}"
    hdfs.allow(path, mode)
    try:
        with pytest.raises(
            FileAccessError, match=r"events-0.* cannot be read: .*Permission denied: user=dr\.who"
        ):
            DirectoryRead(hdfs.uri("/backup/broker-1")).table()
        expected = DirectoryRead(KILLED).table()
        assert DirectoryRead(hdfs.uri("/backup/broker-1", user=OWNER)).table() == expected
    finally:
        hdfs.allow(path, "755")


@pytest.mark.timeout(400)
def test_an_ingest_into_hdfs_that_crashes_at_any_step_loses_and_doubles_nothing(
    hdfs: Hdfs, spark: SparkSession, noida: NoidaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    hdfs.allow("/", "777")
    topic, starts = noida.create_topic(2), itertools.count(0, 4)
    output = OutputOptions(hdfs.path("/ingested"))
    options = options_of(noida, topic, output, group=topic)

    def run() -> None:
        start = next(starts)
        produce(noida.bootstrap_servers, topic, range(start, start + 4))
        Ingest(spark, options, QUIET).run()

    assert Crashing(monkeypatch).around_each(range(1, 8), run) >= 11
    run()
    assert values_of(spark, output) == [*range(next(starts))]


def test_hdfs_moves_a_folder_into_one_that_another_run_has_made_and_that_is_an_error(
    hdfs: Hdfs, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    hdfs.allow("/", "777")
    files, exists = HadoopFiles(spark), HadoopFiles.exists
    for name in ("attempt/part", "batch=0/other"):
        files.make_folder(hdfs.path(f"/racing/{name}"))
    with pytest.raises(FileError, match="already exists"):
        files.rename(hdfs.path("/racing/attempt"), hdfs.path("/racing/batch=0"))
    with monkeypatch.context() as patched:
        # The other run makes it just after this look.
        patched.setattr(HadoopFiles, "exists", lambda self, path: path[-2:] != "=0" and exists(self, path))
        with pytest.raises(FileError, match=r"batch=0 was created meanwhile: does another run write here\?"):
            files.rename(hdfs.path("/racing/attempt"), hdfs.path("/racing/batch=0"))
    assert files.names(hdfs.path("/racing/batch=0")) == ["other"]
