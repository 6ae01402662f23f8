"""Quorum queues: the shell around the state that each member builds from the log."""
