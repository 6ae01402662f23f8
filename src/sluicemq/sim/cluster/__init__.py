"""Links between three nodes in simulation: seeded faults, and every promise of the links checked.

`python -m sluicemq.sim.cluster SEED --count N`.
"""
