"""Shows the position of a streaming query from its checkpoint, and converts the checkpoint for the other
connector."""
