"""Raft: how a group of members agrees on one log. Pure: no clock, no chance, no I/O, no actors.

    step(message)  tick()  propose(data)        events of a member
    ready() -> RaftReady                            the work of its host: write, send, apply
    synced(number)                              the host's report of durable appends

Begin with `raft.py`; docs/raft.md lists the guarantees.
"""
