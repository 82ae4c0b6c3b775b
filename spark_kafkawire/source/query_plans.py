"""Plans of queries that Spark runs, as its JVM has them: the parts that read or write by this package, their
options and the figures that Spark counts for them.

A session of Spark Connect has no JVM. Spark's classes are found by their methods: packages move between
versions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from .datasource import KafkaWireDataSource

#: Spark's figures for a Python source: bytes that its tasks have sent to the JVM, and rows.
BYTES_FIGURE: Final = "pythonDataReceived"
ROWS_FIGURE: Final = "numOutputRows"
#: The name of this package's tables and sources in plans.
SOURCE_NAME: Final = KafkaWireDataSource.name()


def has_plans(spark: Any) -> bool:
    """True if a session has the plans of its queries."""
    # Compared by name: an import of the class requires gRPC.
    return not type(spark).__module__.startswith("pyspark.sql.connect.")


def stream_execution(spark: Any, query_id: str, batch_id: int) -> Any:
    """The execution of a batch of a streaming query; None if the query has ended, or is at another one."""
    query = spark.streams._jsqm.get(query_id)
    execution = None if query is None else query.streamingQuery().lastExecution()
    return None if execution is None or execution.currentBatchId() != batch_id else execution


def class_of(node: Any) -> str:
    """Name of the class of a node, without its package."""
    name: str = node.getClass().getSimpleName()
    return name


def leaves(plan: Any) -> Iterator[Any]:
    """The leaves of a logical plan, or of a physical one."""
    if class_of(plan) == "AdaptiveSparkPlanExec":
        plan = plan.executedPlan()
    result = plan.collectLeaves()
    for index in range(result.size()):
        leaf = result.apply(index)
        if class_of(leaf).endswith("QueryStageExec"):  # of an adaptive plan
            yield from leaves(leaf.plan())
        else:
            yield leaf


def scans(execution: Any) -> Iterator[Any]:
    """The nodes of an executed plan that read by a Python source."""
    for leaf in leaves(execution.executedPlan()):
        if leaf.metrics().contains(BYTES_FIGURE):
            yield leaf


def figure_of(node: Any, name: str) -> int:
    """A figure that Spark counts for a node of an executed plan; 0 if it has none of that name."""
    result = node.metrics().get(name)
    return int(result.get().value()) if result.isDefined() else 0


def rows_written(node: Any) -> int | None:
    """Rows that the node of a write has committed; None if it is another node, or Spark does not say. Its
    figure of rows is there from Spark 4.2 on only."""
    if class_of(node) != "AppendDataExec":  # a platform's own node need not have what is asked below
        return None
    progress = node.commitProgress()
    return int(progress.get().numOutputRows()) if progress.isDefined() else None


def relation_of(node: Any) -> Any:
    """The relation of a node of a logical plan if it reads or writes by this package, else None."""
    if class_of(node) != "DataSourceV2Relation":
        return None
    return node if node.table().name() == SOURCE_NAME else None


def options_of(node: Any) -> Mapping[str, str]:
    """The options of a relation."""
    return dict(node.options())
