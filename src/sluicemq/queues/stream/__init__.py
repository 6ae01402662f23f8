"""The stream: an append-only log as its consumers and its retention see it."""
