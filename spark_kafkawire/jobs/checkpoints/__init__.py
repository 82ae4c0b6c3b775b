"""Where the checkpoint of a streaming query stands, and what the other connector needs to go on with it."""
