"""Raft in simulation, on a register: seeded faults, and every rule checked after every event.

`python -m sluicemq.sim.raft SEED --count N`; docs/raft.md says how to read it.
"""
