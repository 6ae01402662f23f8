"""Queues that live on another node, as channels of this node and as those queues see it."""
