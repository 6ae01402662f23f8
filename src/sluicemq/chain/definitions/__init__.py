"""Definitions in a cluster: one Raft group of all nodes."""
