"""The stream: an append-only log with its consumers and its retention."""
