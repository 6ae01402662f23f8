"""The quorum queue: what its members agree on, and the state that each of them has of it."""
