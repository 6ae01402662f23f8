"""Simulates Raft with a register as state machine: seeded faults, and every rule checked after
every event.

`python -m sluicemq.sim.raft SEED --count N`; docs/raft.md says how to read it.
"""
