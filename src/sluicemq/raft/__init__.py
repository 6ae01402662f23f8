"""Raft: how a group of members agrees on one log. Pure: no clock, no chance, no I/O, no actors.

    step(message)  tick()  propose(data)        what happens to a member
    ready() -> RaftReady                            what its host has to do: write, send, apply
    synced(number)                              what the host has made durable

`raft.py` is where to begin; docs/raft.md says what is promised.
"""
