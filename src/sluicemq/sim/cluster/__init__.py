"""Simulated links between three nodes: faults follow from a seed, every promise of the links is
checked.

`python -m sluicemq.sim.cluster SEED --count N`.
"""
