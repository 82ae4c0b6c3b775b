"""Reports the topics of a cluster and the offsets and lag of its groups.

    report      rows of partitions, and sums, words, problems and JSON of them
    terminal    the report as tables; page: as a page of HTML
    run         a report, or files of offsets, which it exports and commits

This job does not need Spark.
"""
