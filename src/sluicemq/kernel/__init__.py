"""The smallest parts: the World's faces, an inbox, a run queue."""
