"""A real Prometheus that scrapes one port, and the panels of ``docs/grafana.json`` by its answers."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import time
import urllib.parse
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psutil

from .polling import poll

DASHBOARD: Final = Path("docs/grafana.json")
#: Grafana's variables in the dashboard, for a scrape each second.
_VARIABLES: Final = {"$query": ".*", "$__rate_interval": "10s", "$__range": "5m"}

#: Points of a line: seconds since 1970, and values.
Line = list[tuple[float, float]]


def program() -> str | None:
    """Path of Prometheus, which Debian has as a package; None if it is not installed."""
    return shutil.which("prometheus")


class Prometheus:
    """A server with its data in a folder."""

    def __init__(self, folder: Path, scraped: str) -> None:
        settings = folder / "prometheus.yml"
        targets = [{"job_name": "kafkawire", "static_configs": [{"targets": [scraped]}]}]
        interval = {"scrape_interval": "1s", "scrape_timeout": "1s"}
        settings.write_text(json.dumps({"global": interval, "scrape_configs": targets}))
        command = [program() or "", f"--config.file={settings}", f"--storage.tsdb.path={folder / 'data'}"]
        with (folder / "log").open("wb") as log:
            self._process = subprocess.Popen([*command, "--web.listen-address=127.0.0.1:0"], stderr=log)
        self._port = poll(self._listening, "Prometheus to listen")

    def _listening(self) -> int | None:
        assert self._process.poll() is None, "Prometheus has ended"
        result = psutil.Process(self._process.pid).net_connections("tcp")
        ports = [item.laddr.port for item in result if item.status == psutil.CONN_LISTEN]
        return ports[0] if ports else None

    def lines(self, expression: str, legend: str, seconds: float) -> dict[str, Line]:
        """Lines of an expression by their legends, without values that are no numbers."""
        end = time.time()
        wanted = {"query": expression, "start": end - seconds, "end": end, "step": "1s"}
        url = f"http://127.0.0.1:{self._port}/api/v1/query_range?{urllib.parse.urlencode(wanted)}"
        with urllib.request.urlopen(url, timeout=30) as response:
            answer: dict[str, Any] = json.load(response)
        result = {}
        for series in answer["data"]["result"]:
            name = legend
            for label, text in series["metric"].items():
                name = name.replace(f"{{{{{label}}}}}", text)
            points = [(at, float(text)) for at, text in series["values"]]
            result[name] = [point for point in points if math.isfinite(point[1])]
        return {name: line for name, line in result.items() if line}

    def stop(self) -> None:
        """End the server."""
        self._process.terminate()
        self._process.wait(30)


@dataclass(frozen=True, slots=True)
class Panel:
    """A panel of the dashboard, and its place in a grid of 24 columns."""

    title: str
    place: dict[str, int]
    #: Expressions and their legends.
    targets: list[tuple[str, str]]

    def lines(self, prometheus: Prometheus, seconds: float) -> dict[str, Line]:
        """The lines of the last seconds."""
        result: dict[str, Line] = {}
        for expression, legend in self.targets:
            result |= prometheus.lines(expression, legend, seconds)
        return result


def panels() -> list[Panel]:
    """The panels of the dashboard, for all queries."""
    result = []
    for panel in json.loads(DASHBOARD.read_text("utf-8"))["panels"]:
        targets = []
        for target in panel["targets"]:
            expression = target["expr"]
            for name, value in _VARIABLES.items():
                expression = expression.replace(name, value)
            targets.append((expression, target["legendFormat"]))
        result.append(Panel(panel["title"], panel["gridPos"], targets))
    return result
