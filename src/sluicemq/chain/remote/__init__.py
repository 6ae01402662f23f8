"""Queues on another node, as channels of this node see them, and those channels as the queues see
them.
"""
