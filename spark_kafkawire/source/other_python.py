"""A warning where Spark will run a Python that lacks this package.

The JVM that a Python program starts looks sources up with ``PYSPARK_DRIVER_PYTHON``, else ``PYSPARK_PYTHON``,
else the first ``python3`` in ``PATH``; ``spark.pyspark.python`` counts for ``spark-submit`` only. Where that
Python lacks the package, Spark says ``DATA_SOURCE_NOT_FOUND``, and the only code of this package that runs is
what the program itself imports.

The warning is based on files alone and starts no process. Where files prove nothing (a script in front of
Python, as pyenv has one; an environment that also sees the packages of its base) there is no warning.
"""

from __future__ import annotations

import os
import shutil
import site
import sys
from pathlib import Path
from typing import Final

import pyspark

#: The JVM has started this Python, or is elsewhere.
_NO_JVM_OF_OURS: Final = ("PYSPARK_GATEWAY_PORT", "SPARK_CONNECT_MODE_ENABLED", "SPARK_REMOTE")
#: The variables in the order in which the JVM looks for its Python.
_CHOICES: Final = ("PYSPARK_DRIVER_PYTHON", "PYSPARK_PYTHON")
_OURS: Final = "lib*/python*/*-packages/*spark?kafkawire*"


def warn_of_other_python() -> None:
    """Warn where the JVM of this program runs a Python without this package."""
    choice = next((name for name in _CHOICES if os.environ.get(name)), None)
    python = shutil.which(os.environ[choice] if choice else "python3")
    try:
        if python is None or not _starts_the_jvm() or _is_reached_by_all() or not _lacks_us(Path(python)):
            return
    except (OSError, RuntimeError, IndexError):  # a folder that cannot be looked into proves nothing
        return
    from ..errors import LOG, quote

    why = choice or "the first python3 in PATH, as PYSPARK_PYTHON is not set"
    LOG.warning(
        "A Spark that this program starts runs %s (%s), where spark-kafkawire is not installed, and fails "
        "with DATA_SOURCE_NOT_FOUND: set PYSPARK_PYTHON and PYSPARK_DRIVER_PYTHON to %s before it starts",
        quote(python),
        why,
        quote(sys.executable),
    )


def _starts_the_jvm() -> bool:
    """True if the JVM has, or will have, the environment variables of this process."""
    context = getattr(pyspark, "SparkContext", None)  # pyspark-client has none
    if context is None or any(os.environ.get(name) for name in _NO_JVM_OF_OURS):
        return False
    return context._gateway is None or getattr(context._gateway, "proc", None) is not None


def _is_reached_by_all() -> bool:
    """True if each Python that is started here finds this copy: shipped in a zip, in the current folder or in
    ``PYTHONPATH``."""
    home = Path(__file__).parents[2]
    paths = [os.getcwd(), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    return not home.is_dir() or any(path and home.samefile(path) for path in paths if os.path.exists(path))


def _lacks_us(python: Path) -> bool:
    """True if a Python belongs to another environment than this one and lacks this package in its folders."""
    environment = python.absolute().parents[1]
    settings = environment / "pyvenv.cfg"
    if settings.is_file():
        places = {environment}
        is_known = "include-system-site-packages = true" not in settings.read_text("utf-8", "replace")
    else:
        base = python.resolve().parents[1]
        places = {environment, base, Path("/usr/local"), Path(site.getuserbase())}
        is_known = base != Path(sys.prefix).resolve() and any(base.glob("lib*/python*"))
    is_own = environment.resolve() == Path(sys.prefix).resolve()
    return is_known and not is_own and not any(path for location in places for path in location.glob(_OURS))
