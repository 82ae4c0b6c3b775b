"""Imported by each Python that Spark starts with this folder in PYTHONPATH: daemons that fork workers load
what all of those need, half a second of processor time that each would spend by itself.

pyspark loads it after the fork, as importing it may start threads. Here only pyarrow's allocator starts one,
which it makes again after a fork.
"""

import importlib
import os
import sys

#: Whose daemons fork many; others fork a worker or two for a whole session.
_BUSY = {"pyspark.worker"} | {
    f"pyspark.sql.worker.{name}"
    for name in ("create_data_source", "plan_data_source_read", "write_into_data_source")
}
_LOADED = ("pandas", "pyarrow.compute", "pyspark.worker", "spark_kafkawire.source.datasource")

if sys.orig_argv[1:3] == ["-m", "pyspark.daemon"] and _BUSY.intersection(sys.orig_argv[3:]):
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy's would be others
    for module in (*_LOADED, *_BUSY.intersection(sys.orig_argv)):
        importlib.import_module(module)
