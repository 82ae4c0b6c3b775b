"""The open transactions of a modern cluster: their writes, the readers that wait for them, and the end of
those that an interrupted write left."""
