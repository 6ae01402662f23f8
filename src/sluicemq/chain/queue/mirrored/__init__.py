"""Mirrored queues: the member of the Raft group on each node that has a part of the queue, and on
the master's node the queue that clients use.
"""
