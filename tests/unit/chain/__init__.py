"""The actors of the chain and their parts, one at a time."""
