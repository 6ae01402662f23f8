"""What each method of a client does on its channel: one function a method, one table of them.

A function that needs a queue's answer asks a Question, whose `answer` runs when it arrives.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from sluicemq.amqp import methods as m
from sluicemq.amqp.method import Method
from sluicemq.chain.channel.channel_port import ChannelPort
from sluicemq.chain.channel.delivery_frames import DeliveryEncoder
from sluicemq.chain.channel.questions import Declaration, Question, violation_of
from sluicemq.chain.channel.reply_to import ReplyConsumer, is_heard
from sluicemq.chain.channel.transactions import Transaction
from sluicemq.chain.channel.type_rules import check_consume, check_get, check_has
from sluicemq.chain.channel.unacked import Undoable
from sluicemq.errors import ChannelViolation, ConnectionViolation
from sluicemq.flow.prefetch import Prefetch
from sluicemq.metadata.agreement import Agreed, NoAgreement
from sluicemq.metadata.changes import (
    Bind,
    Change,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    Unbind,
)
from sluicemq.model.arguments import type_name
from sluicemq.model.definitions import (
    EXCHANGE,
    QUEUE,
    BindingDefinition,
    ExchangeDefinition,
    QueueDefinition,
    check_access,
    check_name,
    check_unnamed,
)
from sluicemq.model.permissions import CONFIGURE, READ
from sluicemq.model.queue_types import CLASSIC
from sluicemq.model.reply_address import PSEUDO_QUEUE
from sluicemq.queues.commands import (
    ACK,
    REJECT,
    REQUEUE,
    Cancel,
    Command,
    Consume,
    Delete,
    Get,
    Inspect,
    Purge,
)
from sluicemq.queues.consumers import Consumer
from sluicemq.queues.effects import (
    Cancelled,
    Consumed,
    Deleted,
    Got,
    Inspected,
    Purged,
    Refuse,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sluicemq.chain.channel.consuming import Consuming
    from sluicemq.chain.channel.publishing import Publishing
    from sluicemq.chain.channel.transaction_port import TransactionPort
    from sluicemq.chain.queue.queue import Queue

ANSWERS: Final = (Got, Consumed, Cancelled, Inspected, Purged, Deleted, Refuse, Agreed)
"""The effects that answer a Question."""

TOKEN_BYTES: Final = 16
"""Random bytes in generated queue names and consumer tags (RabbitMQ: 128 bits)."""


LINE_ENDS: Final = dict.fromkeys(map(ord, "\r\n"))


def plain(name: str) -> str:
    """Return a name without CR and LF. RabbitMQ removes them in methods that declare, bind, unbind
    or delete; elsewhere they are a part of the name, which then matches nothing."""
    return name.translate(LINE_ENDS)


class WholeChannel(ChannelPort):
    """A channel with its halves, as its methods see it. `last_queue` is the name of the queue
    declared last, "" before the first. `replies` is None without a reply consumer."""

    publishing: Publishing
    consuming: Consuming
    replies: ReplyConsumer | None
    last_queue: str

    def ask(self, question: Question, queue: Queue, command: Command) -> None:
        """Send a command to a queue and have the client wait for the answer; its messages are held
        meanwhile."""
        raise NotImplementedError

    def wait(self, question: Question) -> None:
        """Have the client wait for the answer to a question; its messages are held meanwhile."""
        raise NotImplementedError

    def say_cancelled(self, tag: str) -> None:
        """Tell a client that has announced `consumer_cancel_notify` that a consumer is gone."""
        raise NotImplementedError


def agree(channel: WholeChannel, method: Any, change: Change, then: Callable[[], None]) -> None:
    """Propose a change and call `then` when it is agreed on and durable; with `nowait` nobody waits
    for the disk. Raises objections to the change that are known at once, and a violation when
    nothing can be agreed on now."""
    agreement = channel.services.agreement
    is_durable_enough = getattr(method, "nowait", False) and agreement.applies_at_once
    try:
        is_done = agreement.propose(change, None if is_durable_enough else channel)
    except NoAgreement as error:
        raise violation_of(error) from error
    if is_done:
        then()
    else:
        channel.wait(Question(method, lambda _: then()))


def reply_when_agreed(channel: WholeChannel, method: Any, change: Change, answer: Method) -> None:
    """Propose a change and send `answer` when it is agreed on, unless the method has `nowait`.
    Raises as `agree` does."""

    def then() -> None:
        if not getattr(method, "nowait", False):
            channel.reply(answer)

    agree(channel, method, change, then)


def token(channel: WholeChannel, prefix: str) -> str:
    """Return a random name that is not in use, which begins with `prefix`."""
    raw = channel.services.world.dice.token(TOKEN_BYTES)
    return prefix + urlsafe_b64encode(raw).decode().rstrip("=")


def meant(channel: WholeChannel, name: str) -> str:
    """Return the name or, when it is empty, that of the queue declared last. Raises
    ChannelViolation (404) when none was declared."""
    name = name or channel.last_queue
    if not name:
        raise ChannelViolation(404, "no previously declared queue")
    return name


def queue_named(channel: WholeChannel, name: str, permission: str = "") -> Queue:
    """Return the queue of that name or, when it is empty, the one declared last. Raises
    ChannelViolation when there is none, when the user has no `permission` for it ("": not checked),
    or when it is exclusive to another connection."""
    vhost = channel.vhost
    name = meant(channel, name)
    if permission:
        channel.rights.check_queue(permission, name)
    queue = vhost.queues.get(name)
    if queue is None:
        raise ChannelViolation(404, f"no queue '{name}' in vhost '{vhost.name}'")
    check_access(queue.definition, channel.reader.name if queue.is_local else None, vhost.name)
    return queue


def channel_flow(channel: WholeChannel, method: m.ChannelFlow) -> None:
    """Answer channel.flow. RabbitMQ refuses to stop deliveries by it, because prefetch does that:
    `active` False raises ConnectionViolation (540)."""
    if not method.active:
        raise ConnectionViolation(540, "active=false")
    channel.reply(m.ChannelFlowOk(active=True))


def access_request(channel: WholeChannel, _: m.AccessRequest) -> None:
    """Answer access.request, a relic of AMQP 0-8 that old clients still send, with ticket 1."""
    channel.reply(m.AccessRequestOk(ticket=1))


def exchange_declare(channel: WholeChannel, method: m.ExchangeDeclare) -> None:
    name = plain(method.exchange)
    definition = ExchangeDefinition(
        name,
        method.exchange_type,
        method.durable,
        method.auto_delete,
        method.internal,
        method.arguments,
        channel.vhost.name,
    )
    topology = channel.vhost.topology
    if method.passive:
        channel.rights.check_any(EXCHANGE, name)
        channel.services.definitions.open_host(channel.vhost.name)
        topology.check_declared(name)
        if not method.nowait:
            channel.reply(m.ExchangeDeclareOk())
        return
    channel.rights.check_exchange_declaration(topology, definition)
    change = DeclareExchange(definition)
    reply_when_agreed(channel, method, change, m.ExchangeDeclareOk())


def exchange_delete(channel: WholeChannel, method: m.ExchangeDelete) -> None:
    name = plain(method.exchange)
    channel.vhost.topology.check_deletion(name)
    channel.rights.check_exchange(CONFIGURE, name)
    change = DeleteExchange(channel.vhost.name, name, method.if_unused)
    if method.if_unused:
        reply_when_agreed(channel, method, change, m.ExchangeDeleteOk())
        return
    check_ready(channel, change)
    channel.begin(delete_in_pieces(channel, method, change))


def check_ready(channel: WholeChannel, change: Change) -> None:
    """Raise a violation when it is known already that this cannot be agreed on now."""
    try:
        channel.services.agreement.check_ready(change)
    except NoAgreement as error:
        raise violation_of(error) from error


def delete_in_pieces(
    channel: WholeChannel, method: m.ExchangeDelete, change: DeleteExchange
) -> Iterator[int]:
    """Delete an exchange that may have very many bindings: they are removed first, some in each
    piece; yields the work of each."""
    yield from channel.vhost.unbind_exchange(change.name)
    try:
        reply_when_agreed(channel, method, change, m.ExchangeDeleteOk())
    except ChannelViolation as violation:
        violation.class_id, violation.method_id = method.class_id, method.method_id
        channel.fail(violation)


def exchange_bind(channel: WholeChannel, method: m.ExchangeBind) -> None:
    binding = binding_of_exchange(method, channel)
    channel.rights.check_binding(channel.vhost.topology, binding)
    reply_when_agreed(channel, method, Bind(binding), m.ExchangeBindOk())


def exchange_unbind(channel: WholeChannel, method: m.ExchangeUnbind) -> None:
    binding = binding_of_exchange(method, channel)
    channel.rights.check_binding(channel.vhost.topology, binding)
    reply_when_agreed(channel, method, Unbind(binding), m.ExchangeUnbindOk())


def binding_of_exchange(
    method: m.ExchangeBind | m.ExchangeUnbind, channel: WholeChannel
) -> BindingDefinition:
    return BindingDefinition(
        plain(method.source),
        plain(method.destination),
        EXCHANGE,
        method.routing_key,
        method.arguments,
        channel.vhost.name,
    )


def queue_declare(channel: WholeChannel, method: m.QueueDeclare) -> None:
    vhost = channel.vhost
    name = plain(method.queue)
    if name.startswith(PSEUDO_QUEUE):
        reply_address_declare(channel, name, method.nowait)
        return
    if method.passive:
        if name:
            channel.rights.check_any(QUEUE, name)
        inspect(channel, method, queue_named(channel, name))
        return
    is_named = bool(name)
    definition = queue_asked_for(channel, method)
    name = definition.name
    state = channel.services.definitions
    is_new = name not in vhost.queues
    if is_new and is_named:
        check_name(QUEUE, name)
    channel.rights.check_queue(CONFIGURE, name)
    if is_new:
        state.check_room(vhost.name, name)
        channel.rights.check_dead_lettering(definition)

    again = partial(queue_declare, channel, method)

    def declared() -> None:
        channel.services.counters.queues_declared += 1
        if name in vhost.queues:
            inspect(channel, method, queue_named(channel, name), again)
        elif not method.nowait:  # somebody deleted it meanwhile
            channel.reply(m.QueueDeclareOk(queue=name, message_count=0, consumer_count=0))

    change = DeclareQueue(definition, is_free=not is_named)
    agree(channel, method, change, declared)
    queue = vhost.queues.get(name)
    if is_new and queue is not None and method.exclusive and not channel.reader.is_open():
        queue.post(Delete(None, False, False))  # its owner left meanwhile


def inspect(
    channel: WholeChannel,
    method: m.QueueDeclare,
    queue: Queue,
    again: Callable[[], None] | None = None,
) -> None:
    """Make this the queue declared last and reply, unless the method has `nowait`, with its numbers
    of messages and consumers. If it turns out to be deleted, `again` is called; without `again` the
    method is refused."""
    channel.last_queue = queue.name

    def inspected(answer: Inspected) -> None:
        channel.reply(
            m.QueueDeclareOk(
                queue=queue.name, message_count=answer.ready, consumer_count=answer.consumers
            )
        )

    def is_gone() -> bool:
        return channel.vhost.queues.get(queue.name) is not queue

    if not method.nowait:
        question = Question(method, inspected)
        if again is not None:
            question = Declaration(method, inspected, is_gone, again)
        channel.ask(question, queue, Inspect(channel))


def queue_asked_for(channel: WholeChannel, method: m.QueueDeclare) -> QueueDefinition:
    """Return the definition that the client asks for. A queue without a name gets a generated one.
    A queue without a type gets the default type of the virtual host or, without one, of the
    configuration; a type other than classic only if it is durable and neither exclusive nor
    auto-delete."""
    vhost, services = channel.vhost, channel.services
    services.definitions.open_host(vhost.name)
    arguments = method.arguments
    default_type = services.definitions.vhosts[vhost.name].default_queue_type
    if default_type is None and services.config.queue.default_queue_type != CLASSIC:
        default_type = services.config.queue.default_queue_type
    if default_type is not None and "x-queue-type" not in arguments:
        lasting = method.durable and not (method.exclusive or method.auto_delete)
        arguments = {**arguments, "x-queue-type": default_type if lasting else CLASSIC}
    name = plain(method.queue)
    if not name:
        check_unnamed(arguments.get("x-queue-type"))
        name = token(channel, "amq.gen-")
    return QueueDefinition(
        name,
        method.durable,
        method.exclusive,
        method.auto_delete,
        arguments,
        channel.reader.name if method.exclusive else None,
        vhost.name,
    )


def reply_address_declare(channel: WholeChannel, name: str, nowait: bool) -> None:
    """Answer a declaration of a reply address, by which servers ask whether a client is still
    there; nothing is ever declared. Raises ChannelViolation (404) when it is not."""
    if name != PSEUDO_QUEUE and not is_heard(channel.directory, name):
        raise ChannelViolation(404, f"no queue '{name}' in vhost '{channel.vhost.name}'")
    channel.last_queue = name
    if not nowait:
        channel.reply(m.QueueDeclareOk(queue=name, message_count=0, consumer_count=1))


def queue_bind(channel: WholeChannel, method: m.QueueBind) -> None:
    binding = binding_of_queue(method, channel)
    channel.rights.check_binding(channel.vhost.topology, binding)
    channel.vhost.topology.existing(binding.source)  # RabbitMQ checks the exchange before the queue
    queue_named(channel, binding.destination)
    reply_when_agreed(channel, method, Bind(binding), m.QueueBindOk())


def queue_unbind(channel: WholeChannel, method: m.QueueUnbind) -> None:
    """Remove a binding of a queue and reply. A missing binding is fine, as in RabbitMQ since 3.2,
    whoever owns the queue."""
    binding = binding_of_queue(method, channel)
    channel.rights.check_binding(channel.vhost.topology, binding)
    if method.queue and not channel.vhost.topology.has_binding(binding):
        channel.reply(m.QueueUnbindOk())
        return
    queue_named(channel, binding.destination)
    reply_when_agreed(channel, method, Unbind(binding), m.QueueUnbindOk())


def binding_of_queue(
    method: m.QueueBind | m.QueueUnbind, channel: WholeChannel
) -> BindingDefinition:
    """Return the binding that the method names. An empty queue name means the queue declared last,
    and an empty key with it that queue's name. Raises ChannelViolation (404) when none was
    declared."""
    key = method.routing_key
    if not method.queue and not key:
        key = channel.last_queue
    queue = meant(channel, plain(method.queue))
    return BindingDefinition(
        plain(method.exchange), queue, QUEUE, key, method.arguments, channel.vhost.name
    )


def queue_purge(channel: WholeChannel, method: m.QueuePurge) -> None:
    def purged(answer: Purged) -> None:
        if not method.nowait:
            channel.reply(m.QueuePurgeOk(message_count=answer.count))

    queue = queue_named(channel, method.queue, READ)
    check_has(queue, "queue.purge")
    channel.ask(Question(method, purged), queue, Purge(channel))


def queue_delete(channel: WholeChannel, method: m.QueueDelete) -> None:
    """Delete a queue and reply with how many messages were in it. A missing queue is fine, as in
    RabbitMQ since 3.2."""

    def deleted(answer: Deleted) -> None:
        if not method.nowait:
            channel.reply(m.QueueDeleteOk(message_count=answer.count))

    name = plain(method.queue)
    if name and name not in channel.vhost.queues:
        channel.rights.check_queue(CONFIGURE, name)
        deleted(Deleted(channel, 0))
        return
    queue = queue_named(channel, name, CONFIGURE)
    check_ready(channel, DeleteQueue(channel.vhost.name, queue.name, queue.id))
    command = Delete(channel, method.if_unused, method.if_empty)
    channel.ask(Question(method, deleted), queue, command)


def basic_qos(channel: WholeChannel, method: m.BasicQos) -> None:
    if method.prefetch_size:
        raise ConnectionViolation(540, f"prefetch_size!=0 ({method.prefetch_size})")
    consuming = channel.consuming
    if method.global_:
        consuming.limiter.set_limit(method.prefetch_count)
    else:
        consuming.prefetch_count = method.prefetch_count
        consuming.limiter.set_limit(0)  # as in RabbitMQ: both hold only if this one came first
    channel.reply(m.BasicQosOk())


def basic_consume(channel: WholeChannel, method: m.BasicConsume) -> None:
    consuming = channel.consuming
    tag = method.consumer_tag or token(channel, "amq.ctag-")
    if tag in consuming.subscriptions:
        raise ConnectionViolation(530, f"attempt to reuse consumer tag '{tag}'")
    if method.queue == PSEUDO_QUEUE:
        reply_consume(channel, method, tag)
        return
    queue = queue_named(channel, method.queue, READ)
    check_consume(queue, method, consuming.prefetch_count, consuming.limiter.limit)
    outflow, _ = consuming.window(queue)
    consumer = Consumer(
        channel,
        tag,
        method.no_ack,
        method.exclusive,
        priority_of(queue, method.arguments),
        Prefetch(consuming.prefetch_count),
        consuming.limiter,
        outflow,
        method.arguments,
    )

    def consumed(answer: Consumed) -> None:
        subscribe(channel, queue, answer)
        if not method.nowait:
            channel.reply(m.BasicConsumeOk(consumer_tag=tag))

    channel.ask(Question(method, consumed), queue, Consume(consumer))


def subscribe(channel: WholeChannel, queue: Queue, answer: Consumed) -> None:
    """Take deliveries for a consumer of the queue from now on."""
    consuming, consumer, reader = channel.consuming, answer.consumer, channel.reader
    _, inflow = consuming.window(queue)
    source = consuming.source(queue, answer.link)
    encoder = DeliveryEncoder(channel.number, consumer.tag, reader.frame_max, reader.refits)
    consuming.subscribe(consumer, queue, source, encoder, inflow)


def reply_consume(channel: WholeChannel, method: m.BasicConsume, tag: str) -> None:
    """Set up the one consumer of replies that a channel may have. Raises ChannelViolation (406)
    when there is one already, or when this one would acknowledge."""
    if not method.no_ack:
        raise ChannelViolation(406, "reply consumer cannot acknowledge")
    if channel.replies is not None:
        raise ChannelViolation(406, "reply consumer already set")
    channel.replies = ReplyConsumer(channel, channel.consuming, tag)
    channel.publishing.look_ups.hear_replies(channel.replies)
    if not method.nowait:
        channel.reply(m.BasicConsumeOk(consumer_tag=tag))


def priority_of(queue: Queue, arguments: dict[str, Any]) -> int:
    """Return x-priority, 0 when absent. Raises ChannelViolation (406) when it is not a whole
    number."""
    priority = arguments.get("x-priority", 0)
    if not isinstance(priority, int) or isinstance(priority, bool):
        kind = type_name(priority)
        text = f"invalid arg 'x-priority' for {queue.title}: \"expected integer, got {kind}\""
        raise ChannelViolation(406, text)
    return priority


def basic_cancel(channel: WholeChannel, method: m.BasicCancel) -> None:
    """Cancel a consumer and reply, unless the method has `nowait`; a missing one is fine."""
    tag = method.consumer_tag
    subscriptions = channel.consuming.subscriptions

    def cancelled(_: object) -> None:
        subscriptions.pop(tag, None)
        if not method.nowait:
            channel.reply(m.BasicCancelOk(consumer_tag=tag))

    if channel.replies is not None and channel.replies.tag == tag:
        channel.replies = None
        channel.publishing.look_ups.hear_replies(None)
        cancelled(None)
        return
    subscription = subscriptions.get(tag)
    if subscription is None:
        cancelled(None)
        return
    command = Cancel(subscription.consumer)
    channel.ask(Question(method, cancelled), subscription.queue, command)


def basic_get(channel: WholeChannel, method: m.BasicGet) -> None:
    queue = queue_named(channel, method.queue, READ)
    check_get(queue)

    def got(answer: Got) -> None:
        if answer.content is None:
            channel.consuming.got_nothing(queue)
            channel.reply(m.BasicGetEmpty())
        else:
            channel.consuming.got(answer, queue)

    channel.ask(Question(method, got), queue, Get(channel, method.no_ack))


def basic_ack(channel: WholeChannel, method: m.BasicAck) -> None:
    channel.consuming.acknowledge(method.delivery_tag, method.multiple, ACK, method.method_id)


def basic_reject(channel: WholeChannel, method: m.BasicReject) -> None:
    outcome = REQUEUE if method.requeue else REJECT
    channel.consuming.acknowledge(method.delivery_tag, False, outcome, method.method_id)


def basic_nack(channel: WholeChannel, method: m.BasicNack) -> None:
    outcome = REQUEUE if method.requeue else REJECT
    channel.consuming.acknowledge(method.delivery_tag, method.multiple, outcome, method.method_id)


def basic_recover(channel: WholeChannel, method: m.BasicRecover) -> None:
    if not method.requeue:
        raise ConnectionViolation(540, "requeue=false")
    channel.consuming.recover(method.method_id, lambda: channel.reply(m.BasicRecoverOk()))


def basic_recover_async(channel: WholeChannel, method: m.BasicRecoverAsync) -> None:
    if not method.requeue:
        raise ConnectionViolation(540, "requeue=false")
    channel.consuming.recover(method.method_id, lambda: None)


def confirm_select(channel: WholeChannel, method: m.ConfirmSelect) -> None:
    if channel.publishing.transaction is not None:
        raise ChannelViolation(406, "cannot switch from tx to confirm mode")
    channel.publishing.begin_confirms()
    if not method.nowait:
        channel.reply(m.ConfirmSelectOk())


def tx_select(channel: WholeChannel, _: m.TxSelect) -> None:
    """Make the channel transactional and reply; a second tx.select changes nothing. Raises
    ChannelViolation (406) when the channel confirms."""
    publishing, consuming = channel.publishing, channel.consuming
    if publishing.confirming:
        raise ChannelViolation(406, "cannot switch from confirm to tx mode")
    if publishing.transaction is None:
        transaction = Transaction(channel, publishing, consuming)
        publishing.transaction = consuming.transaction = transaction
        consuming.settlement = Undoable
    channel.reply(m.TxSelectOk())


def tx_commit(channel: WholeChannel, _: m.TxCommit) -> None:
    transaction_of(channel).commit()


def tx_rollback(channel: WholeChannel, _: m.TxRollback) -> None:
    transaction_of(channel).rollback()
    channel.reply(m.TxRollbackOk())


def transaction_of(channel: WholeChannel) -> TransactionPort:
    transaction = channel.publishing.transaction
    if transaction is None:
        raise ChannelViolation(406, "channel is not transactional")
    return transaction


METHODS: Final[dict[type[Method], Callable[[WholeChannel, Any], None]]] = {
    m.ChannelFlow: channel_flow,
    m.AccessRequest: access_request,
    m.ExchangeDeclare: exchange_declare,
    m.ExchangeDelete: exchange_delete,
    m.ExchangeBind: exchange_bind,
    m.ExchangeUnbind: exchange_unbind,
    m.QueueDeclare: queue_declare,
    m.QueueBind: queue_bind,
    m.QueueUnbind: queue_unbind,
    m.QueuePurge: queue_purge,
    m.QueueDelete: queue_delete,
    m.BasicQos: basic_qos,
    m.BasicConsume: basic_consume,
    m.BasicCancel: basic_cancel,
    m.BasicGet: basic_get,
    m.BasicAck: basic_ack,
    m.BasicReject: basic_reject,
    m.BasicNack: basic_nack,
    m.BasicRecover: basic_recover,
    m.BasicRecoverAsync: basic_recover_async,
    m.ConfirmSelect: confirm_select,
    m.TxSelect: tx_select,
    m.TxCommit: tx_commit,
    m.TxRollback: tx_rollback,
}

METHOD_WORK: Final[dict[type[Method], int]] = {
    m.ExchangeDeclare: 60,
    m.ExchangeDelete: 60,
    m.ExchangeBind: 40,
    m.ExchangeUnbind: 40,
    m.QueueDeclare: 200,
    m.QueueDelete: 100,
    m.QueueBind: 40,
    m.QueueUnbind: 40,
    m.QueuePurge: 60,
    m.BasicConsume: 100,
    m.BasicCancel: 60,
    m.BasicGet: 60,
}
"""Units of work that some methods cost, with the turn of the queue that they ask. The others cost a
few units, or say themselves how many."""
