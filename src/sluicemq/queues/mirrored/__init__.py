"""The mirrored queue: the commands in its members' log, and the state that each builds from them.

The master's ClassicQueue serves clients and applies their commands at once. The log has the
outcome, by positions. docs/decisions/0029-mirrored-queues.md says why.
"""
