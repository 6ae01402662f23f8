"""The mirrored queue: what the log of its members says, and the state that each of them has of it.

The master's ClassicQueue serves clients and applies what they ask at once. What became of it, by
positions, is in the log. docs/decisions/0029-mirrored-queues.md says why.
"""
