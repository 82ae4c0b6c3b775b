"""Reads that are consumers of a group of Kafka 0.7."""
