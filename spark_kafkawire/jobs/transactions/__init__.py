"""The transactions that are open in a cluster: whose they are, who waits for them, and the end of what an
interrupted write left."""
