"""The Spark edge. Importing it without any pyspark raises ``ModuleNotFoundError``, which names the packages
that provide one. In a user's program it checks which Python Spark will run."""

from __future__ import annotations

try:
    import pyspark  # noqa: F401
except ModuleNotFoundError as error:
    if error.name != "pyspark":
        raise
    raise ModuleNotFoundError(
        "No module named 'pyspark': spark-kafkawire leaves the choice of Spark to you. Run pip install "
        "pyspark for a Spark on this machine, pip install pyspark-client for a server of Spark Connect, or "
        "on a platform set PYSPARK_PYTHON to the Python that has its own pyspark",
        name="pyspark",
    ) from None

from .edge import is_worker

if not is_worker():
    from .other_python import warn_of_other_python

    warn_of_other_python()
