"""Simulates whole nodes of one cluster, clients at each node, and faults.

`python -m sluicemq.sim.nodes SEED --count N`, `sluicemq sim --nodes 3 SEED`.
"""
