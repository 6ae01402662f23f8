"""What a message costs more when its queue is on another node: CPU time of both nodes together.

    PYTHONPATH=tests .venv/bin/python bench/hop.py [--messages 100000] [--repeats 5]

Two whole nodes in one process, without sockets: what goes from one to the other is made into
frames, with checksums, and read again. Memory is taken as in the process of a node. Publishers use
confirms, consumers acknowledge; what costs is the difference to both clients being at the queue's
own node. The first hop is that of a publish, the second that of a delivery. The sources are
measured, or with PYTHONPATH=build/compiled:tests the compiled build.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time

from history import keep

from sluicemq.amqp import methods as m
from sluicemq.amqp.frames import content_frames
from sluicemq.cluster.cluster_port import DATA, PeerMessage
from sluicemq.cluster.frame import FrameDecoder, encode_frames
from sluicemq.cluster.introduction import VERSION_MAX
from sluicemq.host.memory import tune_allocator
from support.paired import Group
from unit.chain.client import NO_PROPERTIES, Client

BODY_BYTES = 1000
READ = 200
"""Messages that a client sends in one piece, and acknowledges together."""


class Framed(Group):
    """Nodes between which everything is bytes."""

    def pass_one(self, one: int, other: int) -> bool:
        wire = self.wires.get((one, other))
        if not wire:
            return False
        decoder = FrameDecoder(DATA, VERSION_MAX)
        frames = (frame for message in wire for frame in encode_frames(message))
        decoder.receive(b"".join([part for frame in frames for part in frame]))
        wire.clear()
        handlers = self[other].wire.handlers
        while (message := decoder.next()) is not None:
            assert isinstance(message, PeerMessage)
            handlers[message.frame_type].post(message)
        return True


def client(group: Group, number: int) -> Client:
    made = group[number].connect()
    made.open(1)
    return made


def cost_us(publisher_at: int, consumer_at: int, messages: int) -> float:
    """Microseconds of CPU that a message takes; the queue is on node 2."""
    group = Framed()
    group.declare("q", home=2, durable=False)
    publisher, consumer = client(group, publisher_at), client(group, consumer_at)
    publisher.call(1, m.ConfirmSelect())
    consumer.send(1, m.BasicConsume(queue="q", consumer_tag="c"))
    head = m.BasicPublish(exchange="", routing_key="q").frame(1)
    content = content_frames(1, NO_PROPERTIES, b"x" * BODY_BYTES, 131072)
    run = (head + content) * READ
    sent = [group[number].net.sent for number in (publisher_at, consumer_at)]
    gc.collect()
    began = time.process_time()
    for tag in range(READ, messages + 1, READ):
        publisher.send_bytes(run)
        consumer.send(1, m.BasicAck(delivery_tag=tag, multiple=True))
        for each in sent:
            for written in each.values():
                written.clear()
    took_s = time.process_time() - began
    assert group.queue(2, "q").machine.depth.unacked == 0
    return took_s / messages * 1e6


def main() -> None:
    """Measure all cases in turn, and print medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    tune_allocator()
    cases = {"none": (2, 2), "publish": (1, 2), "delivery": (2, 1), "both": (1, 1)}
    found: dict[str, list[float]] = {case: [] for case in cases}
    for _ in range(options.repeats):
        for case, ends in cases.items():
            found[case].append(cost_us(*ends, options.messages))
    medians = {case: statistics.median(each) for case, each in found.items()}
    for case, each in medians.items():
        more = each - medians["none"]
        print(f"hops: {case:9} {each:6.2f} us a message, {more:5.2f} us more")
        if case != "none":
            keep("hop", case, us=round(each, 3), more_us=round(more, 3))


if __name__ == "__main__":
    main()
