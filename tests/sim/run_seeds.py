"""The runs of one node that the test run makes of its seeds: shorter ones than `sluicemq sim`, and
the node is looked at more seldom."""

from __future__ import annotations

from typing import Final

from sluicemq.sim.report import RunReport
from sluicemq.sim.run import STEPS, simulate
from sluicemq.sim.swarm import swarm_of
from support.thorough import thorough

SHORT_STEPS: Final = thorough(1000, STEPS)
MISTAKEN_STEPS: Final = thorough(2000, STEPS)
"""Of seeds with mistakes, for which it takes longer until every kind of actor has made one."""

CHECK_EVERY: Final = thorough(6, 1)
"""Of so many events that touch the node it is checked after one. Clients check what comes at once,
models of queues what their machines do; what is wrong with links or accounts stays so."""


def steps_of(seed: int) -> int:
    """How many events a run has before it is to drain."""
    return MISTAKEN_STEPS if swarm_of(seed).mistake_percent else SHORT_STEPS


def run(seed: int) -> RunReport:
    """The run of a seed."""
    return simulate(seed, steps_of(seed), check_every=CHECK_EVERY)
