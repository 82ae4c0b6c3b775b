"""The picture of the dashboard in ``docs/metrics.md``: its panels, by the answers of a real Prometheus that
has scraped two real streams for some minutes.

    python -m tests.benchmarks.dashboard 180

Grafana draws the same lines in its own style.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import matplotlib

matplotlib.use("Agg")  # no window

from matplotlib import dates, pyplot
from pyspark.sql import SparkSession

from spark_kafkawire import metrics
from tests.support.noida import NoidaBroker
from tests.support.prometheus import Prometheus, panels
from tests.support.spark_streams import begun, send, stream

from .session import spark_session

_PICTURE: Final = Path("docs/images/dashboard.png")


def run(spark: SparkSession, noida: NoidaBroker, folder: Path, seconds: float) -> None:
    """Feed two streams at a rate that changes, and draw what Prometheus has of them."""
    served = metrics.serve(spark, 0)
    prometheus = Prometheus(folder, f"127.0.0.1:{served.port}")
    topics = {name: noida.create_topic(4, name) for name in ("orders", "payments")}
    copies = noida.create_topic(partitions=4)
    queries = []
    for name, topic in topics.items():
        send(noida, topic, range(10))
        rows = stream(spark, noida, topic, startingOffsets="earliest", maxOffsetsPerTrigger="3000")
        writer = rows.select("value").writeStream.format("kafkawire").queryName(name)
        writer = writer.options(**{"kafka.bootstrap.servers": noida.bootstrap_servers, "topic": copies})
        writer = writer.option("checkpointLocation", str(folder / name)).trigger(processingTime="2 seconds")
        queries.append(begun(writer))
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        is_peak = 0.3 < left / seconds < 0.7
        for partition in range(4):
            send(noida, topics["orders"], range(800 if is_peak else 150), partition)
            send(noida, topics["payments"], range(100 + 60 * partition), partition)
        time.sleep(1)
    draw(prometheus, seconds)
    for query in queries:
        query.stop()
    served.close()
    prometheus.stop()


def draw(prometheus: Prometheus, seconds: float) -> None:
    """Each panel in its place of the grid."""
    # Its classes have no types for mypy, where they are installed.
    new_formatter: Any = dates.DateFormatter
    figure = pyplot.figure(figsize=(13, 15), layout="constrained")
    shown = panels()
    tops = sorted({panel.place["y"] for panel in shown})
    grid = figure.add_gridspec(len(tops), 2)
    for panel in shown:
        left, right = panel.place["x"] // 12, (panel.place["x"] + panel.place["w"]) // 12
        axes = figure.add_subplot(grid[tops.index(panel.place["y"]), left:right])
        for name, line in panel.lines(prometheus, seconds).items():
            days = [at / 86_400 for at, _ in line]
            axes.plot(days, [value for _, value in line], linewidth=1.2, label=name)
        axes.xaxis.set_major_formatter(new_formatter("%H:%M"))
        axes.set_ylim(bottom=0)
        axes.set_title(panel.title, fontsize=11, loc="left")
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(linewidth=0.4)
        axes.tick_params(labelsize=7)
        axes.legend(fontsize=7, frameon=False, loc="upper left", ncols=2)
    figure.savefig(_PICTURE, dpi=90)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary, NoidaBroker() as broker, spark_session() as session:
        run(session, broker, Path(temporary), float(sys.argv[1]))
