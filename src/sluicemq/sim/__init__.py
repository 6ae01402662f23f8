"""The simulated World: the same node, driven by a seed.

    timeline    what happens next, in virtual time, and a digest of all that happened
    world, net  the World's faces: clock, dice, disk, memory; sockets; the CPU's slowness
    swarm       the parameters of a run, thrown from its seed
    peer        clients that speak AMQP bytes; publisher, consumer, operator: what they do
    workload    who takes part, what goes wrong, how it ends
    history     what clients saw, against what was promised them
    model       a queue as a plain list, run beside each real one
    checkers    credit, bounds, counters: what must hold after every event
    run         the loop and the verdict; report: figures and the short log

Everything follows from the seed. A failing seed is a bug report: see docs/simulation.md.
"""
