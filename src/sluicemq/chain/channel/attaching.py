"""A consumer whose queue is served by another node, or another shell, from now on: it is attached
to that, and its client hears nothing. If it has said `x-cancel-on-ha-failover`, or this is not
possible, it is cancelled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sluicemq.amqp.methods import BasicConsume
from sluicemq.chain.channel.methods import subscribe
from sluicemq.chain.channel.questions import Question
from sluicemq.flow.prefetch import Prefetch
from sluicemq.queues.commands import Consume
from sluicemq.queues.consumers import Consumer
from sluicemq.queues.effects import Refuse

if TYPE_CHECKING:
    from sluicemq.chain.channel.methods import WholeChannel
    from sluicemq.chain.queue.queue import Queue
    from sluicemq.queues.effects import Consumed

CANCEL_ON_FAILOVER: Final = "x-cancel-on-ha-failover"


class Attachment(Question):
    """This is a consumer that waits until the queue has it again, with what its client sends."""

    __slots__ = ("channel", "former", "queue")

    def __init__(self, channel: WholeChannel, former: Consumer, queue: Queue) -> None:
        super().__init__(BasicConsume(), self.attached)
        self.channel = channel
        self.former = former
        self.queue = queue

    def attached(self, answer: Consumed) -> None:
        subscribe(self.channel, self.queue, answer)

    def answer(self, answer: object) -> None:
        if isinstance(answer, Refuse):
            self.channel.say_cancelled(self.former.tag)
        else:
            super().answer(answer)

    def ask_again(self) -> None:
        attach_again(self.channel, self.queue.name, self.former)


def wants_to_hear(consumer: Consumer) -> bool:
    """Tell whether a client wants to have its consumer cancelled when the queue goes on
    elsewhere."""
    return consumer.arguments.get(CANCEL_ON_FAILOVER) is True


def attach_again(channel: WholeChannel, name: str, former: Consumer) -> None:
    """Have the queue that has this name now take a consumer that another one had: it may get as
    many messages as if it were new."""
    queue = channel.vhost.queues.get(name)
    if queue is None:
        channel.say_cancelled(former.tag)
        return
    consuming = channel.consuming
    outflow, _ = consuming.window(queue)
    consumer = Consumer(
        channel,
        former.tag,
        former.no_ack,
        former.exclusive,
        former.priority,
        Prefetch(former.prefetch.limit),
        consuming.limiter,
        outflow,
        former.arguments,
    )
    channel.ask(Attachment(channel, former, queue), queue, Consume(consumer))
