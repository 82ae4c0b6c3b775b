"""State that jobs keep between runs, and protection from a second run at the same time."""
