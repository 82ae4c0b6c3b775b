"""How a job is told what to do, and tells how far it is and how it ended."""
