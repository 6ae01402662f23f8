"""All of flow control, pure: nothing in here does I/O, reads a clock or waits.

    gate       what can hold up an actor, and who counts the shut ones
    credit     the two halves of a link: Outflow at the sender, Inflow at the receiver
    budget     `adaptive`: one budget of messages and bytes that all active links share
    link       makes the two halves of a link together
    profiles   the numbers: rabbitmq-3.5, rabbitmq-3.8, adaptive
    alarm      memory: when to raise, when to clear, who must know
    throttle   when a connection is not read, what its client is told, how it is shown
    confirms   what a channel still owes its publisher, in ranges
    prefetch   what a consumer or a channel may hold unacknowledged

Messages are counted n at a time: a link carries batches.
"""
