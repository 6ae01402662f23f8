"""Goal: what is between a channel and a queue of another node is conserved and bounded, whenever
the link is cut, and each message has one answer.

Method: two nodes with a queue and clients each, moved in small random steps; wires are cut and
joined at any moment. After every few steps all credit and all windows are summed up over both ends
and the bytes between them. At last all is joined: each publish was answered once, all that was
confirmed comes to a consumer, and the queues are empty.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random

import pytest

from sluicemq.amqp import methods as m
from sluicemq.amqp.events import Acks, Deliveries, MethodFrame
from sluicemq.amqp.frames import content_frames
from sluicemq.chain.queue.local_queue import LocalQueue
from sluicemq.chain.queue.queue import Queue
from sluicemq.chain.remote import remote_channel, remote_end
from sluicemq.chain.remote import sections as s
from sluicemq.chain.remote.queue_post import QueuePost, RemoteAnswer
from sluicemq.chain.remote.remote_channel import RemoteChannel
from sluicemq.chain.remote.remote_end import HeldDelivery, RemoteEnd
from sluicemq.chain.remote.remote_queue import ANSWERED, RemoteQueue
from sluicemq.cluster.cluster_port import QUEUE_ANSWERS, QUEUE_ASKS, NodeDown, NodeUp, PeerMessage
from sluicemq.flow.credit import Grant
from sluicemq.flow.delivery_window import ConnectionWindow
from sluicemq.flow.gate import Gate
from sluicemq.limits import DELIVERY_WINDOW
from sluicemq.queues.command_codec import PUBLISH_HEAD
from sluicemq.queues.commands import Publish
from sluicemq.queues.effects import Deliver
from support.paired import Group
from unit.chain.client import NO_PROPERTIES, PERSISTENT, Client

MOST_COST = 40 + 40 * 5100 // 4096 + 1
"""What the largest batch takes of the credit between the nodes."""

PUBLISH_AT = 8 + 16
"""Where the head of a publish begins, behind that of the command and an address."""


def publish_cost(command: bytes) -> int:
    """What a command takes of the credit between the nodes."""
    if command[:2] != b"\x01\0":
        return 0
    *_, count, _, envelope_size = PUBLISH_HEAD.unpack_from(command, PUBLISH_AT)
    sizes = 0 if command[2] & 1 else 4 * count
    size = len(command) - PUBLISH_AT - PUBLISH_HEAD.size - envelope_size - sizes
    return s.cost_on_wire(count, size)


def body_of(content: bytes) -> bytes:
    """The body of a message that is in one frame."""
    header_bytes = 8 + int.from_bytes(content[3:7])
    return content[header_bytes + 7 : -1]


class UnderWay:
    """What is on its way for one end."""

    def __init__(self, group: Group, end: RemoteEnd, channel: RemoteChannel | None) -> None:
        self.published = self.credited = self.delivered = self.taken = 0
        node, home = end.address.node, end.mail.node
        self.serial = end.address.serial
        self.add_all(group, node, home, is_ask=True)
        self.add_all(group, home, node, is_ask=False)
        asks: list[object] = [] if channel is None else [*channel.inbox, *(channel.early or ())]
        for each in asks:
            if isinstance(each, s.SectionCame):
                self.add(each.kind, each.body)
        for answer in end.queue.inbox:
            if isinstance(answer, RemoteAnswer) and answer.end is end:
                self.add(answer.section.kind, answer.section.body)

    def add_all(self, group: Group, source: int, target: int, is_ask: bool) -> None:
        """Of the frames in one direction."""
        frame_type = QUEUE_ASKS if is_ask else QUEUE_ANSWERS
        mail = post_of(group, source).mail[target]
        payloads = [b"".join(mail.gathered.get(frame_type, ()))]
        waiting: list[object] = [*group.wires[source, target], *post_of(group, target).inbox]
        frames = [each for each in waiting if isinstance(each, PeerMessage)]
        payloads += [each.payload for each in frames if each.frame_type is frame_type]
        for payload in payloads:
            for each in s.sections(payload):
                if each.serial == self.serial:
                    self.add(each.kind, each.body, each.flags)

    def add(self, kind: int, body: bytes, flags: int = s.SAME_SIZE) -> None:
        if kind == s.COMMAND:
            self.published += publish_cost(body)
        elif kind == s.CREDIT:
            self.credited += s.unpacked(s.AMOUNT, body)[0]
        elif kind == s.WINDOW:
            self.taken += s.unpacked(s.AMOUNT, body)[0]
        elif kind == s.DELIVER:
            _, cost_each, count, *_ = s.DELIVER_HEAD.unpack_from(body)
            self.delivered += cost_each * count


def post_of(group: Group, number: int) -> QueuePost:
    return group[number].post


def check(group: Group) -> None:
    """All that is between the ends, summed up, unless some have not heard yet that it is lost."""
    news = [each for number in group.numbers for each in post_of(group, number).inbox]
    if not group.is_up(1, 2) or any(isinstance(each, NodeDown | NodeUp) for each in news):
        return
    for number in group.numbers:
        for queue in group[number].node.broker.all_queues():
            if isinstance(queue, RemoteQueue):
                for end in queue.ends.values():
                    if not end.is_over and end.reach == end.mail.reach:
                        check_end(group, end)


def check_end(group: Group, end: RemoteEnd) -> None:
    channels = post_of(group, end.mail.node).channels[end.address.node]
    channel = channels.get(end.address.serial)
    way = UnderWay(group, end, channel)
    owed = 0 if channel is None else channel.owed
    assert end.credit > -MOST_COST, "more is sent than is covered, and one batch"
    assert end.credit + way.published + owed + way.credited == remote_end.WIRE_CREDIT
    window = None if channel is None else channel.window
    if channel is None or window is None:
        return
    outflow, inflow = window
    waiting = [each for each in [*channel.inbox, *channel.due] if isinstance(each, Deliver)]
    assert channel.queue is not None
    grants = sum(
        each.amount
        for each in channel.queue.inbox
        if isinstance(each, Grant) and each.outflow is outflow
    )
    held = sum((len(each.came.contents) - each.offset) * each.came.cost_each for each in end.held)
    assert (
        outflow.credit
        + sum(each.cost for each in waiting)
        + way.delivered
        + held
        + end.owed
        + way.taken
        + inflow.owed
        + grants
    ) == DELIVERY_WINDOW


class Talker:
    """A client that publishes with confirms and consumes, from both queues."""

    def __init__(self, group: Group, number: int) -> None:
        self.group = group
        self.number = number
        self.client: Client = group[number].connect()
        self.client.open(1, 2)
        self.client.call(1, m.ConfirmSelect())
        self.client.call(2, m.BasicQos(prefetch_count=7))
        self.published: list[bytes] = []
        self.acked: set[int] = set()
        self.nacked: set[int] = set()
        self.answered_upto = 0
        self.got: list[bytes] = []
        self.consuming: set[str] = set()

    def publish(self, random: Random) -> None:
        queue = random.choice(["one", "two"])
        raw = random.choice([NO_PROPERTIES, PERSISTENT])
        data = b""
        size = random.choice([1, 10, 5000])
        for _ in range(random.choice([1, 3, 40])):
            body = b"%d %d " % (self.number, len(self.published)) + b"x" * size
            self.published.append(body)
            data += m.BasicPublish(exchange="", routing_key=queue).frame(1)
            data += content_frames(1, raw, body, 131072)
        self.client.post_bytes(data)

    def consume(self) -> None:
        for queue in ("one", "two"):
            if queue not in self.consuming:
                self.consuming.add(queue)
                consume = m.BasicConsume(queue=queue, consumer_tag=queue)
                self.client.post_bytes(consume.frame(2))

    def hear(self, random: Random) -> None:
        """Take what the broker has said, and answer it."""
        for event in self.client.events():
            if isinstance(event, Acks):
                for tag in event.tags:
                    self.answer(tag, False, self.acked)
            elif isinstance(event, Deliveries):
                self.got += map(body_of, event.contents)
                tags = [*event.tags]
                if random.random() < 0.1:
                    nack = m.BasicNack(delivery_tag=tags.pop(), requeue=True)
                    self.client.post_bytes(nack.frame(2))
                acks = [m.BasicAck(delivery_tag=tag).frame(2) for tag in tags]
                self.client.post_bytes(b"".join(acks))
            else:
                assert isinstance(event, MethodFrame), event
                self.heard(event.method)

    def heard(self, method: object) -> None:
        if isinstance(method, m.BasicAck):
            self.answer(method.delivery_tag, method.multiple, self.acked)
        elif isinstance(method, m.BasicNack):
            self.answer(method.delivery_tag, method.multiple, self.nacked)
        elif isinstance(method, m.BasicCancel):
            self.consuming.discard(method.consumer_tag)
        elif isinstance(method, m.ChannelClose):
            assert method.reply_code == 404
            self.client.post_bytes(m.ChannelCloseOk().frame(2) + m.ChannelOpen().frame(2))
            self.consuming.clear()
        else:
            assert isinstance(method, m.BasicConsumeOk | m.ChannelOpenOk), method

    def answer(self, tag: int, multiple: bool, into: set[int]) -> None:
        known = self.acked | self.nacked
        tags = {tag}
        if multiple:
            tags = {each for each in range(1, tag + 1) if each not in known}
        assert not tags & known, "a publish is answered twice"
        into |= tags


@pytest.mark.parametrize("seed", range(24))
def test_credit_is_conserved_and_everything_is_answered_once(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if seed % 2:
        monkeypatch.setattr(remote_end, "WIRE_CREDIT", 64)
        monkeypatch.setattr(remote_channel, "WIRE_CREDIT_NOTIFY", 16)
    talk(seed)


def gives_too_little_credit_back(monkeypatch: pytest.MonkeyPatch) -> None:
    def publish_large(channel: RemoteChannel, command: Publish, queue: Queue | None) -> None:
        publish(channel, command, queue)
        channel.owed -= command.batch.size // 5000

    publish = RemoteChannel.publish
    monkeypatch.setattr(RemoteChannel, "publish", publish_large)


def forgets_what_waits_when_the_link_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    def close_end(_: RemoteQueue, end: RemoteEnd, __: str) -> None:
        end.close()

    monkeypatch.setattr(RemoteQueue, "lose", close_end)


def sends_what_is_not_covered(monkeypatch: pytest.MonkeyPatch) -> None:
    def always(end: RemoteEnd) -> None:
        while end.waiting and not end.is_over:
            end.credit += 1000
            sent = len(end.waiting)
            send_waiting(end)
            end.credit -= 1000
            if len(end.waiting) == sent:
                return

    send_waiting = RemoteEnd.send_waiting
    monkeypatch.setattr(remote_end, "WIRE_CREDIT", 64)
    monkeypatch.setattr(remote_channel, "WIRE_CREDIT_NOTIFY", 16)
    monkeypatch.setattr(RemoteEnd, "send_waiting", always)


def passes_on_answers_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    def again(queue: RemoteQueue, end: RemoteEnd, answer: RemoteAnswer) -> None:
        unanswered = dict(end.unanswered)
        confirmed(queue, end, answer)
        end.unanswered.update(unanswered)

    confirmed = ANSWERED[s.CONFIRMS]
    monkeypatch.setitem(ANSWERED, s.CONFIRMS, again)


def opens_the_window_too_far(monkeypatch: pytest.MonkeyPatch) -> None:
    def give_twice(end: RemoteEnd, delivery: HeldDelivery, count: int) -> None:
        give(end, delivery, count)
        end.owed += count

    give = RemoteEnd._give
    monkeypatch.setattr(RemoteEnd, "_give", give_twice)


@pytest.mark.parametrize(
    "mistake",
    [
        gives_too_little_credit_back,
        forgets_what_waits_when_the_link_is_lost,
        sends_what_is_not_covered,
        passes_on_answers_twice,
        opens_the_window_too_far,
    ],
)
def test_planted_mistakes_are_noticed(
    mistake: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    mistake(monkeypatch)
    with pytest.raises(AssertionError):
        for seed in range(1, 13):
            talk(seed)


def talk(seed: int) -> None:
    """One run, until all is over."""
    random = Random(seed)
    group = Group()
    group.declare("one", home=1)
    group.declare("two", home=2)
    talkers = [Talker(group, 1), Talker(group, 2)]
    cuts = random.choice([0, 0.002, 0.01])
    for step in range(1500):
        group.step(random)
        if random.random() < 0.03:
            random.choice(talkers).publish(random)
        if random.random() < 0.1:
            talker = random.choice(talkers)
            talker.hear(random)
            talker.consume()
        if random.random() < 0.02:
            choke(group, random)
        if random.random() < cuts:
            group.cut(1, 2) if group.is_up(1, 2) else group.link(1, 2)
        if step % 5 == 0:
            check(group)
    if not group.is_up(1, 2):
        group.link(1, 2)
    for gate in gates(group):
        gate.open()
    for _ in range(200):
        group.run()
        check(group)
        for broker in group.brokers.values():
            broker.world.clock.advance(100)
        for talker in talkers:
            talker.hear(random)
            talker.consume()
    finished(group, talkers)


def gates(group: Group) -> list[Gate]:
    """Of all who feed the other node."""
    return [
        gate
        for broker in group.brokers.values()
        for same in broker.wire.gates.values()
        for gate in same
    ]


def choke(group: Group, random: Random) -> None:
    """Too much waits for the other node now, or no longer."""
    gate = random.choice(gates(group))
    if gate.is_shut:
        gate.open()
    elif group.is_up(1, 2):
        gate.shut()


def finished(group: Group, talkers: list[Talker]) -> None:
    got = Counter(body for talker in talkers for body in talker.got)
    for talker in talkers:
        assert talker.acked | talker.nacked == {*range(1, len(talker.published) + 1)}
        missing = [each for each in talker.acked if not got[talker.published[each - 1]]]
        assert not missing, "something confirmed is lost"
    assert not got.keys() - {each for talker in talkers for each in talker.published}
    for number, name in (1, "one"), (2, "two"):
        queue = group.queue(number, name)
        assert isinstance(queue, LocalQueue)
        assert (queue.machine.depth.ready, queue.machine.depth.unacked) == (0, 0)
        remote = group.queue(3 - number, name)
        assert isinstance(remote, RemoteQueue)
        assert all(not (end.unanswered or end.waiting) for end in remote.ends.values())
        assert not remote.behind.is_shut
        assert len(remote.ends_by_link) == len(remote.ends)
    for broker in group.brokers.values():
        for reader in broker.node.broker.connections.values():
            assert isinstance(reader.window, ConnectionWindow)
            assert reader.window.spent == 0
        assert not broker.wire.ended
