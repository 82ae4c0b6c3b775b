"""Tables of a cluster, such as ``partitions`` and ``group_offsets``, and of log directories, as Arrow
columns; without Spark.

``table``       declares a table: its columns, and a function for the rows of each generation of brokers
``scan``        is what such a function asks: the cluster, the filters of the user, and the wanted columns
``catalogue``   has all tables by name, and makes the columns that a reader wants

``log_segments``, ``log_plan``   are what the tasks of the tables of log directories read, and its plan

A function sends only the requests that the wanted columns need. The other modules are the tables, a module
for each one or two.
"""
