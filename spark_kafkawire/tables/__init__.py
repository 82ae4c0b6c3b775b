"""Tables of a cluster, such as ``partitions`` and ``group_offsets``, and of log directories, as Arrow
columns; without Spark.

``table``       declares a table: its columns, and a function for the rows of each generation of brokers
``scan``        is what such a function asks: the cluster, the filters of the user, and the wanted columns
``catalogue``   has all tables by name, makes the columns that a reader wants, and plans what tasks read

A function sends only the requests that the wanted columns need. The other modules are the tables:
``topics`` and ``groups`` of a cluster, ``log_tables`` of log directories.
"""
