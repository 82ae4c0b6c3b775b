"""What a cluster holds, and where its groups stand.

    survey      asks the cluster, each broker and each group once
    report      what it told: values and arithmetic
    terminal    the report as a table; report_json as one object; page/ as a page of HTML
    check       what is wrong with the groups' offsets
    file_format offsets as lines of a file, which importing puts back

Nothing here starts Spark.
"""
