"""One file a client: what its tests are, how they are run, and what is known to differ."""
