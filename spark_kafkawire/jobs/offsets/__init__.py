"""Reports the topics of a cluster and the offsets and lag of its groups.

    survey      asks the cluster, each broker and each group once
    report      the values of a survey, and arithmetic on them
    terminal    the report as a table; report_json as one object; page/ as a page of HTML
    check       problems of the groups' offsets
    file_format offsets as lines of a file, which ``importing`` commits

This job does not need Spark.
"""
