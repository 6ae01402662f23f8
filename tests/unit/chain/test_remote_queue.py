"""Goal: a queue of another node is to clients as one of their own, and when the link is lost both
sides know what is theirs. Method: whole nodes over a wire that the test moves and cuts, with
clients at each (support/paired.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sluicemq.amqp import methods as m
from sluicemq.amqp.events import Acks, ContentMethod, Deliveries, MethodFrame
from sluicemq.chain.queue.quorum.shell import SETTLES_WAIT_MS
from sluicemq.chain.remote.remote_channel import RemoteChannel
from sluicemq.chain.remote.remote_end import RemoteEnd
from sluicemq.chain.remote.remote_queue import RemoteQueue
from sluicemq.chain.remote.sections import SectionCame
from sluicemq.cluster.cluster_port import QUEUE_ANSWERS, QUEUE_ASKS, REPLIES
from sluicemq.limits import RETRY_REFUSED_MS
from sluicemq.model.reply_address import ADDRESS, PSEUDO_QUEUE
from sluicemq.queues.commands import Publish
from support.paired import Group
from unit.chain.client import PERSISTENT, Client


def clients(group: Group) -> tuple[Client, Client]:
    """One at each node, with a channel."""
    one, two = group[1].connect(), group[2].connect()
    one.open(1)
    two.open(1)
    return one, two


def pair(**options: Any) -> tuple[Group, Client, Client]:
    """Two nodes; the queue "q" lives on the second."""
    group = Group()
    group.declare("q", home=2, **options)
    return group, *clients(group)


def consume(client: Client, queue: str = "q", prefetch: int = 0, **options: Any) -> None:
    if prefetch:
        client.call(1, m.BasicQos(prefetch_count=prefetch))
    client.send(1, m.BasicConsume(queue=queue, consumer_tag="c", **options))


def inspected(client: Client, queue: str = "q") -> tuple[int, int]:
    [answer] = client.call(1, m.QueueDeclare(queue=queue, passive=True))
    assert isinstance(answer, m.QueueDeclareOk), answer
    return answer.message_count, answer.consumer_count


def said(client: Client) -> list[object]:
    """Methods, and (tags, redelivered) for each run of deliveries."""
    found: list[object] = []
    for event in client.events():
        if isinstance(event, Deliveries):
            found.append(([*event.tags], event.redelivered))
        elif isinstance(event, Acks):
            found += [m.BasicAck(delivery_tag=tag) for tag in event.tags]
        else:
            assert isinstance(event, MethodFrame | ContentMethod), event
            found.append(event.method)
    return found


def test_publishes_are_confirmed_and_counted_where_the_queue_is() -> None:
    group, one, two = pair()
    assert one.call(1, m.ConfirmSelect()) == [m.ConfirmSelectOk()]
    one.publish(1, "q", *(b"%d" % n for n in range(10)), raw=PERSISTENT)
    group[2].wait()
    assert said(one) == [m.BasicAck(delivery_tag=10, multiple=True)]
    assert inspected(one) == inspected(two) == (10, 0)
    [got] = two.call(1, m.BasicGet(queue="q", no_ack=True))
    assert got == m.BasicGetOk(
        delivery_tag=1, redelivered=False, exchange="", routing_key="q", message_count=9
    )


CONSUME_OK = m.BasicConsumeOk(consumer_tag="c")


def test_deliveries_come_within_the_prefetch_and_acknowledgements_go_back() -> None:
    group, one, two = pair()
    two.publish(1, "q", *(b"%d" % n for n in range(10)))
    consume(one, prefetch=4)
    assert said(one) == [CONSUME_OK, ([1, 2, 3, 4], False)]
    assert inspected(two) == (6, 1)
    one.send(1, m.BasicAck(delivery_tag=2, multiple=True))
    one.send(1, m.BasicNack(delivery_tag=3, requeue=False))
    one.send(1, m.BasicReject(delivery_tag=4, requeue=True))
    depth = group.queue(2, "q").machine.depth
    assert (depth.ready, depth.unacked) == (3, 4)
    one.send(1, m.ChannelClose(reply_code=0, reply_text="", failed_class_id=0, failed_method_id=0))
    assert (depth.ready, depth.unacked, depth.consumers) == (7, 0, 0)


def test_a_limit_of_the_whole_channel_holds_over_local_and_remote_queues() -> None:
    group, one, _ = pair()
    group.declare("here", home=1)
    one.publish(1, "q", *[b""] * 5)
    one.publish(1, "here", *[b""] * 5)
    one.call(1, m.BasicQos(prefetch_count=3, global_=True))
    consume(one)
    one.send(1, m.BasicConsume(queue="here", consumer_tag="d"))
    tags = [tag for each in said(one) if isinstance(each, tuple) for tag in each[0]]
    assert tags == [1, 2, 3]
    one.send(1, m.BasicAck(delivery_tag=2, multiple=True))
    assert sum(len(each[0]) for each in said(one) if isinstance(each, tuple)) == 2


def test_what_a_client_does_not_read_stays_where_the_queue_is() -> None:
    """The window is for each queue and channel, whatever the nodes."""
    group, one, two = pair()
    for _ in range(30):
        two.publish(1, "q", *[b"x" * 1000] * 100)
    one.reader.writer.choked = True
    consume(one, no_ack=True)
    depth = group.queue(2, "q").machine.depth
    assert 3000 - 3 * 1024 <= depth.ready < 3000
    left = depth.ready
    one.reader.writer.choked = False
    one.reader.writer.schedule()
    group.run()
    assert (left > 0, depth.ready) == (True, 0)


def test_purge_delete_cancel_and_notification() -> None:
    group, one, two = pair()
    two.publish(1, "q", b"1", b"2")
    assert one.call(1, m.QueuePurge(queue="q")) == [m.QueuePurgeOk(message_count=2)]
    consume(one)
    assert said(one) == [CONSUME_OK]
    [refusal] = two.call(1, m.QueueDelete(queue="q", if_unused=True))
    assert isinstance(refusal, m.ChannelClose) and "in use" in refusal.reply_text
    assert one.call(1, m.BasicCancel(consumer_tag="c")) == [m.BasicCancelOk(consumer_tag="c")]
    two.open(2)
    two.send(2, m.BasicConsume(queue="q", consumer_tag="d"))
    one.publish(1, "q", b"3")
    assert len(said(two)) == 2
    one.send(1, m.QueueDelete(queue="q"))
    group[2].wait()
    assert said(one) == [m.QueueDeleteOk(message_count=0)]
    assert said(two) == [m.BasicCancel(consumer_tag="d", nowait=True)]
    assert "q" not in group[1].node.broker.vhosts["/"].queues
    [missing] = one.call(1, m.QueueDeclare(queue="q", passive=True))
    assert isinstance(missing, m.ChannelClose) and missing.reply_code == 404


def test_nothing_is_left_of_a_channel_that_is_gone_or_has_only_asked() -> None:
    group, one, _ = pair()
    remote = group.queue(1, "q")
    assert isinstance(remote, RemoteQueue)
    assert inspected(one) == (0, 0)
    one.call(1, m.QueuePurge(queue="q"))
    one.send(1, m.BasicGet(queue="q"))
    assert (len(remote.ends), len(group[2].post.channels[1])) == (0, 0)
    one.publish(1, "q", b"1", b"2")
    one.send(1, m.BasicGet(queue="q"))
    consume(one)
    assert (len(remote.ends), len(group[2].post.channels[1])) == (1, 1)
    one.lose()
    assert (len(remote.ends), len(group[2].post.channels[1])) == (0, 0)
    assert not (remote.ends_by_link or remote.ends_by_window or remote.ends_by_limiter)
    assert not (group[1].post.ends or remote.machine.links or remote.touched)
    assert group.queue(2, "q").machine.depth.ready == 2


def test_an_exclusive_queue_is_nobodys_on_another_node() -> None:
    """Connections of two nodes may have one name."""
    group = Group()
    one, two = clients(group)
    assert one.reader.name == two.reader.name
    owner = two.reader.name
    group.declare("mine", home=2, durable=False, exclusive=True, owner=owner)
    assert inspected(two, "mine") == (0, 0)
    [refusal] = one.call(1, m.QueueDeclare(queue="mine", exclusive=True))
    assert isinstance(refusal, m.ChannelClose) and refusal.reply_code == 405


def test_exclusive_consumers_priorities_and_a_single_active_one_are_the_queues_affair() -> None:
    group, one, two = pair(arguments={"x-single-active-consumer": True})
    group.declare("r", home=2)
    consume(one)
    two.send(1, m.BasicConsume(queue="q", consumer_tag="d"))
    said(one), said(two)
    two.publish(1, "q", b"")
    assert (said(one), said(two)) == ([([1], False)], [])
    one.send(1, m.BasicConsume(queue="r", consumer_tag="e", exclusive=True))
    [refusal] = two.call(1, m.BasicConsume(queue="r", consumer_tag="f"))
    assert isinstance(refusal, m.ChannelClose) and refusal.reply_code == 403


def test_a_transaction_is_answered_when_the_other_node_is_done() -> None:
    group, one, two = pair()
    one.call(1, m.TxSelect())
    one.publish(1, "q", b"1", raw=PERSISTENT)
    assert inspected(two) == (0, 0)
    one.send(1, m.TxCommit())
    group[2].wait()
    assert said(one) == [m.TxCommitOk()]
    assert inspected(two) == (1, 0)


def test_messages_of_all_sizes_and_kinds_come_through_as_they_are() -> None:
    group, one, two = pair(arguments={"x-max-priority": 5})
    group.declare("big", home=2)
    bodies = [b"a", b"b" * 5000, b"c" * 300_000, b"", b"d" * 700_000]
    one.publish(1, "big", *bodies, raw=PERSISTENT)
    one.publish(1, "q", b"low")
    one.publish(1, "q", b"high", raw=b"\x08\x00\x05")
    two.send(1, m.BasicConsume(queue="big", no_ack=True, consumer_tag="c"))
    events = [each for each in two.events() if isinstance(each, Deliveries)]
    contents = [content for each in events for content in each.contents]
    assert [int.from_bytes(each[11:19]) for each in contents] == [*map(len, bodies)]
    two.send(1, m.BasicGet(queue="q", no_ack=True))
    [got] = [each for each in two.events() if isinstance(each, ContentMethod)]
    assert got.content.endswith(b"high\xce")


def test_a_stream_is_read_from_another_node() -> None:
    group, one, two = pair(arguments={"x-queue-type": "stream"})
    two.publish(1, "q", *(b"%d" % n for n in range(6)))
    group[2].wait()
    one.call(1, m.BasicQos(prefetch_count=2))
    one.send(1, m.BasicConsume(queue="q", consumer_tag="c", arguments={"x-stream-offset": 3}))
    found = said(one)
    assert found == [CONSUME_OK, ([1, 2], False)]
    one.send(1, m.BasicAck(delivery_tag=2, multiple=True))
    assert said(one) == [([3], False)]


def test_dead_letters_go_to_a_queue_of_another_node() -> None:
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    group, one, _ = pair(arguments=arguments)
    group.declare("dead", home=1)
    one.publish(1, "q", b"1", raw=PERSISTENT)
    one.send(1, m.BasicGet(queue="q"))
    one.send(1, m.BasicReject(delivery_tag=1, requeue=False))
    group[1].wait()
    said(one)
    assert inspected(one, "dead") == (1, 0)
    group[2].wait()
    assert group.queue(2, "q").machine.depth.unacked == 0


def lost(group: Group) -> None:
    group.cut(1, 2)
    group.run()


def test_what_is_on_its_way_when_the_queue_is_deleted_is_confirmed_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The stand-in hears of it just before a publish comes, and long before the definitions say so;
    the next publish takes another link."""
    group, one, _ = pair()
    one.call(1, m.ConfirmSelect())
    one.publish(1, "q", b"1", raw=PERSISTENT)
    group[2].wait()
    assert said(one) == [m.BasicAck(delivery_tag=1)]
    original = RemoteQueue.publish

    def publish(queue: RemoteQueue, message: Publish) -> None:
        if message.first_seq == 2:
            queue.let_go(queue.ends[message.link.sender])
        original(queue, message)

    monkeypatch.setattr(RemoteQueue, "publish", publish)
    one.publish(1, "q", b"2", raw=PERSISTENT)
    one.publish(1, "q", b"3", raw=PERSISTENT)
    group[2].wait()
    assert said(one) == [m.BasicAck(delivery_tag=2), m.BasicAck(delivery_tag=3)]
    assert inspected(one) == (2, 0)


def test_when_the_link_is_lost_exactly_what_waits_for_that_queue_is_rejected() -> None:
    group, one, _ = pair()
    group.declare("here", home=1)
    one.call(1, m.ConfirmSelect())
    group.held.add((2, 1))
    one.publish(1, "q", b"1", b"2", raw=PERSISTENT)
    one.publish(1, "here", b"3", raw=PERSISTENT)
    assert said(one) == [m.BasicAck(delivery_tag=3)]
    lost(group)
    assert said(one) == [m.BasicNack(delivery_tag=2, multiple=True)]
    one.publish(1, "q", b"4")
    assert said(one) == [m.BasicNack(delivery_tag=4, multiple=True)]
    group.link(1, 2)
    group.run()
    one.publish(1, "q", b"5")
    assert said(one) == [m.BasicAck(delivery_tag=5)]
    assert inspected(one)[0] == 3, "what had come is kept, though it was rejected"


@pytest.mark.parametrize("strategy", ["at-most-once", "at-least-once"])
def test_dead_letters_that_may_have_arrived_over_a_lost_link_come_again_as_promised(
    strategy: str,
) -> None:
    arguments = {
        "x-queue-type": "quorum",
        "x-overflow": "reject-publish",
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": "dead",
        "x-dead-letter-strategy": strategy,
    }
    group, one, two = pair(arguments=arguments)
    group.declare("dead", home=1)

    def die(body: bytes) -> None:
        two.publish(1, "q", body, raw=PERSISTENT)
        group[2].wait()
        two.send(1, m.BasicGet(queue="q"))
        group[2].wait()
        [got] = said(two)
        assert isinstance(got, m.BasicGetOk)
        two.send(1, m.BasicReject(delivery_tag=got.delivery_tag, requeue=False))
        group[2].world.clock.advance(SETTLES_WAIT_MS)
        group[2].wait()
        group[1].wait()

    group.held.add((1, 2))
    die(b"arrives, and that is not heard")
    assert inspected(one, "dead") == (1, 0)
    lost(group)
    die(b"cannot be sent yet")
    group.link(1, 2)
    group[2].world.clock.advance(RETRY_REFUSED_MS)
    group.run()
    copies = strategy == "at-least-once"
    assert inspected(one, "dead") == (2 + copies, 0)
    assert group.queue(2, "q").services.counters.dropped == (not copies)


def test_when_the_link_is_lost_deliveries_come_back_and_count_for_no_limit() -> None:
    group, one, two = pair(arguments={"x-delivery-limit": 0})
    two.publish(1, "q", b"1", b"2")
    consume(one)
    assert said(one) == [CONSUME_OK, ([1, 2], False)]
    lost(group)
    assert said(one) == [m.BasicCancel(consumer_tag="c", nowait=True)]
    consume(two)
    assert said(two) == [CONSUME_OK, ([1, 2], True)]


def test_acknowledgements_of_a_link_that_is_lost_hit_nothing_of_the_next() -> None:
    group, one, two = pair()
    two.publish(1, "q", b"1", b"2")
    consume(one, prefetch=2)
    said(one)
    lost(group)
    group.link(1, 2)
    group.run()
    consume(one)
    assert said(one)[-1] == ([3, 4], True)
    one.send(1, m.BasicAck(delivery_tag=2, multiple=True))
    depth = group.queue(2, "q").machine.depth
    assert (depth.ready, depth.unacked) == (0, 2)
    one.send(1, m.BasicAck(delivery_tag=4, multiple=True))
    assert (depth.ready, depth.unacked) == (0, 0)
    assert not group.queue(1, "q").ends_by_link.keys() - {
        each.link for each in group.queue(1, "q").ends.values()
    }


@pytest.mark.parametrize("durable", [True, False])
def test_a_queue_whose_node_is_down_is_not_found(durable: bool) -> None:
    group, one, _ = pair(durable=durable)
    lost(group)
    why = "home node 'n2' of durable queue 'q' in vhost '/' is down or inaccessible"
    if not durable:
        why = "no queue 'q' in vhost '/'"
    asked = (
        m.QueueDeclare(queue="q", durable=durable),
        m.QueueDeclare(queue="q", passive=True),
        m.BasicConsume(queue="q"),
        m.BasicGet(queue="q"),
        m.QueueDelete(queue="q"),
        m.QueuePurge(queue="q"),
    )
    for number, method in enumerate(asked, start=2):
        one.open(number)
        [refusal] = one.call(number, method)
        assert isinstance(refusal, m.ChannelClose)
        assert (refusal.reply_code, refusal.reply_text) == (404, f"NOT_FOUND - {why}")
    one.publish(1, "q", b"")
    assert group[1].node.broker.counters.dropped == 1
    assert group.queue(1, "q").state(0) == "down"


def test_a_question_is_answered_when_the_link_is_lost() -> None:
    group, one, _ = pair()
    group.held.add((2, 1))
    one.send(1, m.BasicGet(queue="q"))
    lost(group)
    [refusal] = said(one)
    assert isinstance(refusal, m.ChannelClose) and refusal.reply_code == 404


def test_who_has_deleted_a_queue_is_answered_when_the_link_is_lost() -> None:
    group, one, _ = pair()
    group.held.add((2, 1))
    one.send(1, m.QueueDelete(queue="q"))
    group.run()
    assert "q" not in group[1].node.broker.vhosts["/"].queues
    assert said(one) == []
    lost(group)
    assert said(one) == [m.QueueDeleteOk(message_count=0)]


def test_who_asks_before_the_queues_node_has_heard_of_it_waits() -> None:
    group, one, _ = pair()
    change = group.change("late", home=2)
    group.apply(change, but=2)
    one.call(1, m.ConfirmSelect())
    one.publish(1, "late", b"1")
    one.send(1, m.QueueDeclare(queue="late", passive=True))
    assert said(one) == []
    group.apply(change, but=1)
    group.run()
    assert said(one) == [
        m.QueueDeclareOk(queue="late", message_count=1, consumer_count=0),
        m.BasicAck(delivery_tag=1),
    ]


def test_requests_stay_in_order_when_the_queues_node_hears_of_it_as_one_comes() -> None:
    group, one, two = pair()
    change = group.change("late", home=2)
    group.apply(change, but=2)
    one.publish(1, "late", b"1")
    original, queues = RemoteChannel.post, group[2].node.broker.vhosts["/"].queues

    def post(self: RemoteChannel, message: object) -> None:
        original(self, message)
        if isinstance(message, SectionCame) and "late" not in queues:
            group.apply(change, but=1)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RemoteChannel, "post", post)
        one.publish(1, "late", b"2")
    consume(two, "late")
    deliveries = [each for each in two.events() if isinstance(each, Deliveries)]
    contents = [content for each in deliveries for content in each.contents]
    assert [content[-2:-1] for content in contents] == [b"1", b"2"]


def test_a_queue_that_has_had_a_fault_goes_on() -> None:
    group, one, _ = pair()
    one.call(1, m.ConfirmSelect())
    one.publish(1, "q", b"1", raw=PERSISTENT)
    group[2].wait()
    consume(one)
    assert said(one)[-1] == ([1], False)
    queue = group.queue(2, "q")
    queue.faulted(ValueError("planted"))
    group[2].wait()
    assert said(one) == [m.BasicCancel(consumer_tag="c", nowait=True)]
    assert group.queue(2, "q") is not queue
    one.send(1, m.BasicAck(delivery_tag=1))
    one.publish(1, "q", b"2")
    assert said(one) == [m.BasicAck(delivery_tag=2)]
    consume(one)
    assert [each for each in said(one) if isinstance(each, tuple)] == [([2], True), ([3], False)]


def test_replies_find_a_client_of_another_node() -> None:
    group, one, two = pair()
    one.call(1, m.BasicConsume(queue=PSEUDO_QUEUE, no_ack=True, consumer_tag="r"))
    replies = one.reader.channels[1].replies
    assert replies is not None
    [declared] = two.call(1, m.QueueDeclare(queue=replies.at, passive=True))
    assert isinstance(declared, m.QueueDeclareOk)
    two.publish(1, replies.at, b"answer")
    [event] = one.events()
    assert isinstance(event, Deliveries) and event.contents[0].endswith(b"answer\xce")
    token = replies.at.removeprefix(ADDRESS)
    other_life = ADDRESS + token.replace("AAAAA", "AAAAB", 1)
    two.publish(1, other_life, b"to an earlier life")
    assert one.events() == []
    lost(group)
    two.publish(1, replies.at, b"to nobody")
    assert group[2].node.broker.counters.dropped == 2
    [refusal] = two.call(1, m.QueueDeclare(queue=replies.at, passive=True))
    assert isinstance(refusal, m.ChannelClose) and refusal.reply_code == 404


def test_every_node_can_say_how_deep_a_queue_is() -> None:
    group, one, two = pair()
    one.publish(1, "q", b"1", b"2", b"3")
    consume(two, prefetch=2)

    def listed() -> list[object]:
        columns = ["messages_ready", "messages_unacknowledged", "consumers", "node", "state"]
        answers = group[1].ask("list_queues", columns=columns)
        group.run()
        ((row,),) = (answer.rows for answer in answers)
        return [row[each] for each in columns]

    assert listed() == [0, 0, 0, "n2", "running"]
    group[2].world.clock.advance(1000)
    group.run()
    assert listed() == [1, 2, 1, "n2", "running"]
    lost(group)
    assert listed() == [0, 0, 0, "n2", "down"]
    group.link(1, 2)
    group[2].world.clock.advance(1000)
    group.run()
    assert listed() == [1, 2, 1, "n2", "running"]


def chain_of(group: Group, number: int) -> dict[tuple[str, str], bool]:
    """Who holds up whom on a node, now or before: is the gate between them shut?"""
    answers = group[number].ask("chain")
    group.run()
    ((row,),) = (answer.rows for answer in answers)
    return {(link["sender"], link["receiver"]): link["shut"] for link in row["links"]}


def test_the_picture_of_the_chain_shows_who_on_which_node_is_held_up() -> None:
    group, one, _ = pair()
    [channel] = one.reader.channels.values()
    queue = "queue 'q' in vhost '/'"
    assert (queue, "node n2") not in chain_of(group, 1)
    gates = group[1].wire.gates[2]
    for gate in gates:
        gate.shut()
    one.publish(1, "q", *[b"x"] * 300)
    links = chain_of(group, 1)
    assert links[queue, "node n2"]
    assert links[channel.name, queue]
    for gate in gates:
        gate.open()
    group.run()
    assert not chain_of(group, 1)[queue, "node n2"]
    held = [*chain_of(group, 2).items()]
    assert any(sender.startswith(channel.name) and to == queue for (sender, to), _ in held)


def test_what_cannot_be_read_ends_the_link_and_nothing_else() -> None:
    group, one, _ = pair()
    wire = group[1].wire
    for frame_type in (QUEUE_ASKS, QUEUE_ANSWERS, REPLIES):
        payload = b"nonsense"
        assert wire.send(2, frame_type, payload)
        group.run()
        assert not group.is_up(1, 2)
        group.link(1, 2)
        group.run()
    assert inspected(one) == (0, 0)


def takes_a_lost_link_for_a_channel_that_has_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule 14: what comes back for that would count for the delivery limit."""

    def end(channel: RemoteChannel, is_lost: bool) -> None:
        ended(channel, is_lost and not channel.reach)

    ended = RemoteChannel.end
    monkeypatch.setattr(RemoteChannel, "end", end)


def goes_on_with_the_link_of_an_earlier_life(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule 9: an acknowledgement of what a lost link has brought would hit what the next one
    has."""

    def lose(queue: RemoteQueue, end: RemoteEnd, why: str) -> None:
        link = queue.machine.links[end.actor]
        lost(queue, end, why)
        queue.machine.links[end.actor] = link
        queue.last_run = 0

    lost = RemoteQueue.lose
    monkeypatch.setattr(RemoteQueue, "lose", lose)


@pytest.mark.parametrize(
    ("mistake", "noticed_by"),
    [
        (
            takes_a_lost_link_for_a_channel_that_has_gone,
            test_when_the_link_is_lost_deliveries_come_back_and_count_for_no_limit,
        ),
        (
            goes_on_with_the_link_of_an_earlier_life,
            test_acknowledgements_of_a_link_that_is_lost_hit_nothing_of_the_next,
        ),
    ],
)
def test_planted_mistakes_are_noticed(
    mistake: Callable[[pytest.MonkeyPatch], None],
    noticed_by: Callable[[], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mistake(monkeypatch)
    with pytest.raises(AssertionError):
        noticed_by()
