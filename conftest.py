"""Fixtures of several folders: Spark, recorded logs of Kafka 0.7.2, modern brokers; a check for leaks."""

from __future__ import annotations

import gc
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from hypothesis import HealthCheck, settings
from kazoo.client import KazooClient

from spark_kafkawire.broker import EmbeddedCluster, ZooKeeperServer
from tests.support.cases import forget_all
from tests.support.certificates import Certificates
from tests.support.certificates import make as make_certificates
from tests.support.durations import Durations
from tests.support.golden import CORPUS
from tests.support.local_spark import local_spark, run_this_python
from tests.support.mock_cluster import MockCluster
from tests.support.noida import NoidaBroker
from tests.support.schedule import schedule

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Also for tests that start Spark in another process.
run_this_python()

# Examples that Hypothesis draws for each test: `EXAMPLES=300 make check` draws more. A loaded machine may be
# slow without being wrong.
settings.register_profile(
    "this run",
    max_examples=int(os.environ.get("EXAMPLES", "25")),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("this run")


#: Folders and files whose modules import Spark. Tests of others that do so by themselves are marked.
_WITH_SPARK: Final = frozenset(
    Path(__file__).with_name("tests") / name
    for name in ("changes", "sinks", "source", "tables", "jobs", "chaos", "test_examples.py", "test_setup.py")
)
#: Fixtures that start a JVM.
_JVM_FIXTURES: Final = frozenset({"spark", "corpus", "zookeeper", "own_zookeeper"})


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out what imports Spark in a run where that is an error."""
    no_spark = config.pluginmanager.has_plugin("tests.support.no_spark")
    return True if no_spark and collection_path in _WITH_SPARK else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests that need Spark or a JVM, and tests that take minutes, so that runs can leave them out."""
    for item in items:
        if item.get_closest_marker("nightly") is not None:
            item.add_marker("slow")
        starts_jvm = isinstance(item, pytest.Function) and not _JVM_FIXTURES.isdisjoint(item.fixturenames)
        if starts_jvm or not _WITH_SPARK.isdisjoint(item.path.parents) or item.path in _WITH_SPARK:
            item.add_marker("jvm")


class _LongestFirst:
    """Order the tests of one of several processes: each process begins with a part of the long tests."""

    def __init__(self, processes: int, timeout_s: float) -> None:
        self._processes = processes
        self._timeout_s = timeout_s

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = schedule(items, self._is_long, self._processes)

    def _is_long(self, item: pytest.Item) -> bool:
        deadline = item.get_closest_marker("timeout")
        is_late = deadline is not None and deadline.args[0] > self._timeout_s
        return is_late or item.get_closest_marker("slow") is not None


class _FailuresAtOnce:
    """Shows each failure when it happens: the summary comes when all tests are over, or never."""

    def __init__(self, terminal: pytest.TerminalReporter) -> None:
        self._terminal = terminal

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            case = f" [{report.context.msg}]" if isinstance(report, pytest.SubtestReport) else ""
            self._terminal.ensure_newline()
            self._terminal.write_line(f"{report.nodeid}{case} failed at {report.when}:", red=True)
            self._terminal.write_line(report.longreprtext)


# Last, because the terminal's own plugin is registered by then.
@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Register the plugins: the order of long tests in a worker; failures and durations in the process with
    the terminal."""
    if (reported := getattr(config, "workerinput", None)) is not None:
        timeout_s = float(config.getini("timeout"))
        config.pluginmanager.register(_LongestFirst(reported["workercount"], timeout_s))
    if (terminal := config.pluginmanager.get_plugin("terminalreporter")) is not None:
        config.pluginmanager.register(_FailuresAtOnce(terminal))
        config.pluginmanager.register(Durations())


def pytest_collection_finish() -> None:
    """Exclude all objects loaded so far from garbage collection, because they stay."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module", autouse=True)
def nothing_left_open() -> Iterator[None]:
    """Report a socket or file that a module does not close as its failure, not as that of a later test."""
    yield
    gc.collect()


@pytest.fixture(autouse=True)
def nothing_remembered() -> Iterator[None]:
    """Forget what another test must not know."""
    yield
    forget_all()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A local session on two cores, loopback only, that finds ``kafkawire`` as users' sessions do."""
    settings = {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        # Rows of running tasks are counted with each heartbeat.
        "spark.executor.heartbeatInterval": "200ms",
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
    }
    session = local_spark("spark-kafkawire tests", settings)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def zookeeper() -> Iterator[ZooKeeperServer]:
    """A ZooKeeper that all tests share: each has its own chroot, and no test stops it."""
    with ZooKeeperServer() as server:
        yield server


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    """Two brokers on the corpus logs, with ZooKeeper, for the formats of 0.7 and the proposal. Tests may
    write to topics of their own."""
    folder = tmp_path_factory.mktemp("corpus")
    log_dirs = [Path(shutil.copytree(CORPUS / name, folder / name)) for name in ("broker0", "broker1")]
    spoken = {"wire.format": "0.7,proposal"}
    with EmbeddedCluster(brokers=2, partitions=3, log_dirs=log_dirs, properties=spoken) as cluster:
        yield cluster


@pytest.fixture
def corpus_zookeeper(corpus: EmbeddedCluster) -> Iterator[KazooClient]:
    """A client of the ZooKeeper of the corpus brokers."""
    client = KazooClient(corpus.zookeeper_connect)
    client.start()
    yield client
    client.stop()
    client.close()


# A start takes 30 ms, but requests are many times slower with hundreds of topics than with a few.
@pytest.fixture(scope="module")
def noida() -> Iterator[NoidaBroker]:
    """A modern broker that the tests of a file share: each creates its own topics, and no test stops it."""
    with NoidaBroker() as broker:
        yield broker


@pytest.fixture
def mock_cluster() -> Iterator[MockCluster]:
    """Three modern brokers with faults that the test selects."""
    with MockCluster(brokers=3) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Certificates of an authority, a server for ``localhost`` and clients."""
    return make_certificates(tmp_path_factory.mktemp("certificates"))
