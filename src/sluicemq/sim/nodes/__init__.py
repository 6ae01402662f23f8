"""Whole nodes of one cluster in simulation, clients at each of them, and what goes wrong.

`python -m sluicemq.sim.nodes SEED --count N`, `sluicemq sim --nodes 3 SEED`.
"""
