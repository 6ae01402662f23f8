"""The simulated World: the same node, driven by a seed.

    timeline    the events of a run in virtual time, and a digest of all of them
    world, net  the World's faces: clock, dice, memory, log; sockets; the CPU's slowness
    disk, inode files that know what a power loss would leave, and the jobs on them
    swarm       the parameters of a run, chosen by its seed
    peer        clients that speak AMQP; publisher, consumer, operator: what they do
    workload    the clients of a run, and its end; fault_injector: all faults, and crashes
    history     checks what clients saw against what was promised them
    records     the records of a history; quorum_rules: what only quorum queues promise
    model       a queue as a plain list, beside each real one; durable_image: what is durable
    quorum_*    quorum queues: plans for a run, a model of their state, checks
    checkers    credit, bounds, counters: what must hold after every event; links: of each link
    touched     what an event may have changed; inboxes: waiting messages; totals: figures
    run         the loop and the verdict; report: figures and the short log

Everything follows from the seed. A failing seed is a bug report: see docs/simulation.md.
"""
