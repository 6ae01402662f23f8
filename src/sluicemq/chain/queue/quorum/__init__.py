"""Quorum queues: the shell around the state that each member makes of the log."""
