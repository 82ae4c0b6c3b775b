"""What jobs share that needs Spark."""
