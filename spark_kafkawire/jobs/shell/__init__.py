"""The command line of a job: its arguments, its progress and how it ended."""
