"""Tables of a cluster, such as ``partitions`` and ``group_offsets``, and of log directories, as Arrow
columns; without Spark. A function sends only the requests that the wanted columns need.
"""
