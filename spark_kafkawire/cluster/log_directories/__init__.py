"""A cluster without brokers: topics, bounds and files of partitions, from log directories."""
