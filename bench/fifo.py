"""What the state of a quorum queue costs: publish, deliver and acknowledge, without log and bodies.

    .venv/bin/python bench/fifo.py [--messages 300000]

Each batch is one command, and its acknowledgement another one, for all of it at once; `codec`
adds both in bytes, there and back, with 1 KiB bodies. The figures are CPU time of this process, in
microseconds a message.
"""

from __future__ import annotations

import argparse
from time import process_time

from history import keep

from sluicemq.kernel.address import ActorAddress
from sluicemq.model.batch import Batch
from sluicemq.model.traits import PERSISTENT, message_traits
from sluicemq.queues.commands import ACK
from sluicemq.queues.quorum.command_codec import decode_entry, encode_entry, enqueue_of
from sluicemq.queues.quorum.commands import (
    AddConsumer,
    ConsumerKey,
    Enqueue,
    FifoCommand,
    RegisterEnqueuer,
    SettleDelivered,
)
from sluicemq.queues.quorum.effects import FifoEffect
from sluicemq.queues.quorum.fifo import Fifo

SENDER = ActorAddress(1, 1, 1)
KEY = ConsumerKey(ActorAddress(1, 1, 2), "consumer")
BODY = 1024
HEAD = b"\x02\x00\x01\x00\x00\x00\x0f\x00\x3c\x00\x00" + BODY.to_bytes(8) + b"\x10\x00\x02\xce"
CONTENT = HEAD + b"\x03\x00\x01" + BODY.to_bytes(4) + bytes(BODY) + b"\xce"


class Member:
    """One member, and the log that it applies, entry by entry."""

    def __init__(self) -> None:
        self.fifo = Fifo("queue")
        self.index = 0

    def apply(self, command: FifoCommand) -> None:
        self.index += 1
        self.fifo.entered(self.index, self.index)
        effects: list[FifoEffect] = []
        self.fifo.apply(command, effects)
        self.fifo.entry_ended(effects)


def cycle_us(messages: int, batch: int, is_in_bytes: bool) -> float:
    """Microseconds a message of publish, deliver and acknowledge."""
    member = Member()
    member.apply(RegisterEnqueuer(SENDER))
    member.apply(AddConsumer(KEY))
    contents = [CONTENT] * batch
    traits = message_traits(b"\x00\x01q", 1, persistent=True)
    flown = Batch(traits, PERSISTENT, contents, batch * len(CONTENT), same_size=True)
    began = process_time()
    for first in range(0, messages, batch):
        if is_in_bytes:
            enqueue: FifoCommand = enqueue_of(flown, SENDER, first + 1, first + 1)
            [enqueue] = decode_entry(encode_entry([enqueue]))
        else:
            enqueue = Enqueue(SENDER, first + 1, batch, BODY, None, None, first + 1)
        member.apply(enqueue)
        settle: FifoCommand = SettleDelivered(KEY, ((first, first + batch),), ACK)
        if is_in_bytes:
            [settle] = decode_entry(encode_entry([settle]))
        member.apply(settle)
    took = process_time() - began
    assert not member.fifo.messages.out, "everything was acknowledged"
    return took * 1e6 / messages


def whole_us(messages: int, batch: int) -> tuple[float, float, float, int]:
    """Microseconds a message of filling a queue, of its snapshot and of reading that; its bytes."""
    member = Member()
    member.apply(RegisterEnqueuer(SENDER))
    began = process_time()
    for first in range(0, messages, batch):
        member.apply(Enqueue(SENDER, first + 1, batch, BODY, None, None, first + 1))
    filled = process_time()
    pieces = [*member.fifo.snapshot()]
    taken = process_time()
    Fifo("queue").restore(pieces)
    restored = process_time()
    times = [filled - began, taken - filled, restored - taken]
    fill, take, restore = (each * 1e6 / messages for each in times)
    return fill, take, restore, sum(map(len, pieces))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--messages", type=int, default=300_000)
    messages = parser.parse_args().messages
    print("| batch | cycle | codec | fill | snapshot | restore | snapshot, bytes a message |")
    print("|---|---|---|---|---|---|---|")
    for batch in (1, 10, 100, 1000):
        state = min(cycle_us(messages, batch, False) for _ in range(3))
        codec = min(cycle_us(messages, batch, True) for _ in range(3))
        fill, take, restore, size = whole_us(messages, batch)
        keep("fifo", f"batches of {batch}", us=state, codec_us=codec, fill_us=fill)
        print(
            f"| {batch} | {state:.3f} | {codec:.3f} | {fill:.3f} | {take:.3f} | {restore:.3f} "
            f"| {size / messages:.2f} |"
        )


if __name__ == "__main__":
    main()
