"""Mirrored queues: on each node that has a part of one its member of the Raft group, and on the
master's the queue that clients use."""
