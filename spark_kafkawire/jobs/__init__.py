"""What the spark-submit jobs in ``jobs/`` are made of: each of those is arguments and calls of this."""
