"""The simulated World: the same node, driven by a seed.

    timeline    what happens next, in virtual time, and a digest of all that happened
    world, net  the World's faces: clock, dice, memory, log; sockets; the CPU's slowness
    disk, inode files that know what a power loss would leave of them, and jobs on them
    swarm       the parameters of a run, thrown from its seed
    peer        clients that speak AMQP bytes; publisher, consumer, operator: what they do
    workload    who takes part, how it ends; fault_injector: what goes wrong, with crashes
    history     what clients saw, against what was promised them
    records     what that is written down in; quorum_rules: what only quorum queues promise
    model       a queue as a plain list, run beside each real one; durable_image: what survives
    quorum_*    quorum queues: which there are (plans), what is seen of their states (model, checks)
    checkers    credit, bounds, counters: what must hold after every event; links: of each link
    touched     what an event may have changed; inboxes: what waits in them; totals: figures
    run         the loop and the verdict; report: figures and the short log

Everything follows from the seed. A failing seed is a bug report: see docs/simulation.md.
"""
