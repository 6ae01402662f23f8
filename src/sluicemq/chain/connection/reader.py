"""socket ---bytes---> READER ---batch---> channels. The only actor that ever stops.

It stops by not reading the socket and not parsing what it has read, for as long as one of its gates
is shut: credit of a channel spent, an alarm while it publishes, its own writer clogged. It passes a
run of publishes on as far as credit goes; the rest of the run waits in `rest`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from sluicemq.access.access import Rights
from sluicemq.amqp.connection import SERVER, AmqpConnection
from sluicemq.amqp.events import (
    Acks,
    AnyPublishes,
    ContentDue,
    ContentTooLarge,
    Heartbeat,
    MethodFrame,
    ProtocolHeader,
)
from sluicemq.amqp.frames import HEARTBEAT_FRAME, METHOD
from sluicemq.amqp.methods import (
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ChannelOpenOk,
    ConnectionBlocked,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionUnblocked,
    ConnectionUpdateSecret,
    ConnectionUpdateSecretOk,
)
from sluicemq.amqp.violations import unexpected_frame
from sluicemq.chain.channel.channel import Channel, ChannelDown, TooLarge
from sluicemq.chain.channel.connection_port import ConnectionFault, Farewell
from sluicemq.chain.connection.deadlines import TICK, Deadline, Tick
from sluicemq.chain.connection.handover import Handover
from sluicemq.chain.connection.handshake import OLDER, PROTOCOL, Handshake, stranger
from sluicemq.chain.connection.heartbeats import Heartbeats
from sluicemq.chain.connection.intake import Intake
from sluicemq.chain.connection.severing import Severable, end_queues, sever
from sluicemq.chain.connection.socket_tap import SocketTap
from sluicemq.chain.flow_actor import ActorKeeper
from sluicemq.chain.services import Services, account
from sluicemq.chain.splitting import split
from sluicemq.chain.writer import Frames, HangUp, Writer
from sluicemq.errors import ConnectionViolation, HandshakeFailed
from sluicemq.flow.alarm import AlarmsChanged
from sluicemq.flow.delivery_window import ConnectionWindow
from sluicemq.flow.gate import Gate
from sluicemq.flow.throttle import NOTHING, SEND_BLOCKED, Throttle
from sluicemq.kernel.actor import Share
from sluicemq.kernel.socket_messages import Closed, Received
from sluicemq.limits import CLOSING_TIMEOUT_MS, LINGER_MS, SILENT_CLOSE_DELAY_MS

if TYPE_CHECKING:
    from collections.abc import Callable

    from sluicemq.amqp.method import Method
    from sluicemq.chain.connection.broker_port import BrokerPort
    from sluicemq.chain.queue.namespace_port import NamespacePort
    from sluicemq.kernel.endpoints import Peer

EVENT_WORK: Final = 10
"""Units of work that an event costs its reader; see kernel/actor.py."""
LARGE_BYTES: Final = 128
LARGE_BYTES_PER_UNIT: Final = 4
"""A method of LARGE_BYTES costs a unit for each so many octets, as tables of small values do."""

HANDSHAKE: Final = 0
RUNNING: Final = 1
CLOSING: Final = 2
CLOSED: Final = 3


class Reader(Severable):
    """The reading half of a connection, which controls the connection's life."""

    kind = "reader"
    is_vital = False
    shares_room = True

    def __init__(self, broker: BrokerPort, connection: int, peer: Peer) -> None:
        share = Share(broker.scheduler)
        super().__init__(broker.scheduler, broker.world.clock, share)
        self.share = share
        self.broker = broker
        self.services: Services = broker  # the same; a compiled class
        self.connection = connection
        self.peer = peer
        self.name = f"{peer.peer_host}:{peer.peer_port} -> {peer.host}:{peer.port}"
        self.net = broker.world.net
        self.amqp = AmqpConnection(SERVER, broker.rooms)
        self.amqp.max_message_size = broker.config.net.max_message_size
        self.handshake = Handshake(broker.config, peer.is_near, broker.access, peer.vouched_name)
        self.keeper = ActorKeeper(broker.world.clock, self)
        self.throttle = Throttle(self.keeper, False)
        # Gates that have nothing to do with publishing, else alarms would hold up acknowledgements.
        self.halts = ActorKeeper(broker.world.clock, self)
        self.window = ConnectionWindow(broker.window_bound)
        """The window of the connection, over the delivery windows of all its channels."""
        self.writer = Writer(
            broker.scheduler,
            self.net,
            connection,
            Gate(self.halts, "writer backlog"),
            broker.writer_backlog_bytes,
            max(1, broker.delivery_window.more_after // 4),
            share,
            self.broken,
            broker.memory_counter,
            self.window.give_back,
        )
        self.channels: dict[int, Channel] = {}
        self.amqp.open_channels = self.channels
        self.rest: AnyPublishes | None = None
        self.handover = Handover()
        self.intake = Intake(broker.scheduler, self.take_more_in, self.broken)
        self.is_paced = broker.pacer is not None
        self.publishes_now = False
        """Was there a publish in what was parsed last? Then more are expected in what comes, and
        that has to wait for its turn. Always false unless `is_paced`: with RabbitMQ's profiles."""
        self.tap = SocketTap(self.net, connection, peer.tls is None)
        self.phase = HANDSHAKE
        self.half_open = True
        """True while the connection occupies one of the places for those that have not logged in;
        it does so until its socket is gone."""
        self.is_logged_in = False
        """True while the connection counts as open, with the broker and with its user."""
        self.faults = 0
        """How many faults there were in the reader, its writer and its channels."""
        self.frame_max = broker.config.net.frame_max
        self.user: str = ""
        self.vhost: NamespacePort | None = None
        """The virtual host; there is none before connection.open-ok."""
        self.rights: Rights
        """What the user may do there; there are none before connection.open-ok."""
        self.accounted = 0
        """The bytes it was last counted with, of those in use; see `account`."""
        self.heartbeats = Heartbeats()
        self.connected_at_ms = broker.world.clock.wall_ms()
        broker.counters.connections_opened += 1
        self.later(broker.config.net.handshake_timeout_ms, Deadline(HANDSHAKE))
        self.amqp.frame_max = broker.config.net.initial_frame_max

    def post(self, message: object) -> None:
        """Put a message into the inbox; but take bytes of a publishing client at once, to wait for
        a patient turn, unless the inbox may hold earlier ones. Of held clients no more is read."""
        is_next = self.publishes_now and not self.inbox
        if is_next and isinstance(message, Received) and not self.is_stopped():
            self.read(message.data)
            self.intake.schedule()
            self.account()
            if self.scheduler.is_held:
                self.net.rest(self.connection)
        else:
            super().post(message)

    def receive(self, message: object) -> None:
        """Handle bytes from the net, grants from channels, alarms, timers and the end of the
        socket."""
        if isinstance(message, Received):
            self.read(message.data)
        elif isinstance(message, AlarmsChanged):
            self.alarms_changed(message.reason)
        elif isinstance(message, ConnectionFault):
            self.fail(message.violation)
        elif isinstance(message, Closed):
            self.lost()
            self.give_up_place()
            self.release()
        elif isinstance(message, Tick):
            self.beat()
        elif isinstance(message, Farewell):
            self.say_farewell()
        elif isinstance(message, Deadline):
            if message.phase == self.phase:
                self.log("warning", "timed out while " + ("opening", "", "closing")[self.phase])
                (self.drop if self.half_open else self.hang_up)()
        else:
            super().receive(message)

    def turn_ended(self) -> None:
        """Go on parsing, unless a gate is shut: now, or in a turn of patient actors."""
        if change := self.throttle.credit_changed():
            self.tell_client(change)
        if self.publishes_now and not self.is_stopped():
            self.intake.schedule()
            self.account()
        else:
            self.take_in()

    def read(self, data: bytes) -> None:
        """Take bytes from the socket to be parsed; drop them when the connection is closed."""
        self.tap.count(len(data))
        if self.phase != CLOSED:
            self.amqp.receive_data(data)
        else:
            self.net.taken(self.connection, False)

    def take_more_in(self) -> None:
        """Go on parsing in a turn of patient actors. The socket is read only when everything read
        before is parsed, so that less of a client that is held up waits in the process."""
        if self.tap.pulls and not self.inbox and not self.is_stopped():
            self.spend(self.tap.pull(self.amqp, self.intake.pull_bytes))
        self.take_in()

    def take_in(self) -> None:
        """Parse as much as a turn may, then let reading of the socket go on or stop accordingly."""
        try:
            self.pump()
        except ConnectionViolation as violation:
            self.fail(violation)
        except HandshakeFailed as failure:
            self.log("warning", f"handshake failed: {failure}")
            self.hang_up()
        self.see_to_socket()

    def see_to_socket(self) -> None:
        """Read the socket unless a gate is shut, and account for the bytes held."""
        if self.phase != CLOSED:
            self.tap.turn(self.is_stopped())
        self.account()

    def account(self) -> None:
        held = self.amqp.held_bytes
        if self.rest is not None:
            held += self.rest.size
        if held != self.accounted:
            account(self.services, held - self.accounted)
            self.accounted = held

    def flow_resumed(self) -> None:
        self.schedule()  # a turn of its own, whoever has opened the gate

    def is_stopped(self) -> bool:
        """Tell whether a gate is shut; a connection that is being closed is read whatever the gates
        say."""
        return self.phase == RUNNING and (self.throttle.stopped or self.halts.gates_shut > 0)

    def pump(self) -> None:
        """Pass on what has been read, as far as the gates and the turn's work allow."""
        scheduler = self.scheduler
        self.publishes_now = self.rest is not None and self.is_paced
        while self.phase != CLOSED and not self.is_stopped():
            if self.handover.channel is not None and self.handover.waits():
                self.schedule()  # the channel has its turn first: both share one
                return
            if self.rest is not None and not self.amqp.wants_content:
                self.tell_client(self.throttle.publish_seen())  # the alarm went, and came again
                continue
            event = self.rest or self.amqp.next_event()
            if event is None:
                if self.amqp.content_bytes:
                    self.publishes_now = self.is_paced
                self.tap.all_taken(self.publishes_now and not self.inbox)
                if self.tap.pulls and scheduler.work > 0:
                    work = self.tap.fill_room(self.amqp)
                    scheduler.work -= work
                    if work:
                        continue
                if self.tap.pulls:
                    self.intake.schedule()
                return
            self.rest = None
            if isinstance(event, AnyPublishes):
                self.publishes(event)
            elif self.phase == RUNNING:
                self.running(event)
            elif not isinstance(event, Heartbeat):
                self.outside(event)
            scheduler.work -= EVENT_WORK
            if scheduler.work <= 0:
                self.schedule()
                return

    def alarms_changed(self, reason: str) -> None:
        """Heed the alarm for this reason, or its end (""): an alarm leaves a publish in
        the buffer."""
        self.tell_client(self.throttle.alarms_changed(reason))
        self.amqp.wants_content = not reason

    def publishes(self, event: AnyPublishes) -> None:
        """Pass on a run of publishes as far as the channel's credit goes, and keep the rest."""
        channel = self.channels.get(event.channel)
        if self.phase != RUNNING or channel is None:
            self.stray(event.channel, 60, 40)
            return
        outflow = channel.outflow
        count = len(event.contents)
        if count > outflow.credit > 0:
            count = outflow.credit
            event, self.rest = split(event, count)
        outflow.spend(count)
        self.publishes_now = self.is_paced
        self.intake.expect(event)
        self.spend(count)
        channel.post(event)
        if change := self.throttle.credit_changed():
            self.tell_client(change)

    def running(self, event: object) -> None:
        """Handle everything but publishes, once the connection is open."""
        if isinstance(event, ContentDue):
            self.tell_client(self.throttle.publish_seen())
        elif isinstance(event, Acks):
            channel = self.channels.get(event.channel)
            if channel is None:
                self.stray(event.channel, 60, 80)
            else:
                self.handover.give(channel, event)
        elif isinstance(event, MethodFrame):
            if len(event.raw) > LARGE_BYTES:
                self.spend(len(event.raw) // LARGE_BYTES_PER_UNIT)
            if event.channel:
                self.channel_method(event)
            else:
                self.connection_method(event.method)
        elif isinstance(event, ContentTooLarge):
            channel = self.channels.get(event.channel)
            if channel is not None:
                channel.post(TooLarge(event.size))

    def channel_method(self, event: MethodFrame) -> None:
        """Open and close channels here, because the reader knows which numbers are in use; pass
        other methods on."""
        number = event.channel
        method = event.method
        channel = self.channels.get(number)
        if isinstance(method, ChannelOpen):
            if channel is not None:
                self.violate(504, "second 'channel.open' seen", method)
            self.open_channel(number)
        elif channel is None:
            # The client answers our close, which has crossed with its own.
            if not isinstance(method, ChannelCloseOk):
                self.stray(number, method.class_id, method.method_id)
        elif isinstance(method, ChannelClose):
            self.forget(number)
            channel.post(ChannelDown(ChannelCloseOk()))
        elif isinstance(method, ChannelCloseOk):
            if not channel.closing:
                self.violate(503, "unimplemented method", method)
            self.forget(number)
            channel.post(ChannelDown(None))
        else:
            self.handover.give(channel, event)

    def open_channel(self, number: int) -> None:
        """Open a new channel. Raises ConnectionViolation when no more are allowed."""
        limit = self.handshake.channel_max
        if len(self.channels) >= limit:
            text = f"number of channels opened ({limit}) has reached the negotiated channel_max"
            raise ConnectionViolation(530, f"{text} ({limit})")  # RabbitMQ names no method here
        self.broker.access.check_channels(self.user)
        channel = Channel(self.broker, self.broker, self, number)
        halves = self.broker.credit_link(self, channel, f"channel {number}")
        channel.outflow, channel.inflow = halves
        self.channels[number] = channel
        self.broker.counters.channels_opened += 1
        channel.reply(ChannelOpenOk())
        channel.schedule()

    def channel_closing(self, number: int) -> None:
        self.amqp.ignore_content(number)
        self.account()  # in another actor's turn

    def forget(self, number: int) -> None:
        """Free the number of a channel, whose spent credit holds up nobody any more."""
        channel = self.channels.pop(number)
        self.broker.counters.channels_closed += 1
        self.handover.forget()
        channel.outflow.detach()
        self.amqp.ignore_content(number)

    def connection_method(self, method: Method) -> None:
        """Handle a method on channel 0, once the connection is open."""
        if isinstance(method, ConnectionClose):
            self.close_behind_channels()
        elif isinstance(method, ConnectionUpdateSecret):
            self.say(ConnectionUpdateSecretOk())
        else:
            self.violate(504, "unexpected method in connection state running", method)

    def outside(self, event: object) -> None:
        """Handle an event before the connection is open, or after the broker closed it."""
        if self.phase == CLOSING:
            if isinstance(event, MethodFrame) and isinstance(
                event.method, ConnectionCloseOk | ConnectionClose
            ):
                self.hang_up()
        elif isinstance(event, ProtocolHeader):
            self.greet(event.data)
        elif isinstance(event, MethodFrame) and not event.channel:
            self.negotiate(event.method)
        else:
            if self.handshake.is_tuned and isinstance(event, MethodFrame):
                raise unexpected_frame(METHOD, event.raw[7:-1])
            raise HandshakeFailed("a frame of a channel before the connection is open")

    def greet(self, header: bytes) -> None:
        """Answer the right protocol header with start; a wrong one with the right one,
        and close."""
        if header == PROTOCOL or header in OLDER:
            self.say(self.handshake.start())
        else:
            self.log("warning", f"this is not AMQP 0-9-1: {header!r}{stranger(header)}")
            self.writer.take(Frames([PROTOCOL]))
            self.hang_up()

    def negotiate(self, method: Method) -> None:
        """Take one step of the handshake with this method of the client."""
        handshake = self.handshake
        try:
            self.check_room(method)
            answer = handshake.receive(method)
        except ConnectionViolation as violation:
            if violation.code == 403:
                self.refuse_login(violation)
                return
            if violation.code == 530 and not violation.class_id:
                raise HandshakeFailed(violation.reply_text) from violation
            raise
        if handshake.awaits.NAME == "connection.open":
            self.frame_max = handshake.frame_max
            self.amqp.frame_max = handshake.frame_max
        if answer is not None:
            self.say(answer)
        if handshake.done:
            self.opened()

    def check_room(self, method: Method) -> None:
        """Raise ConnectionViolation (530) for connection.open when the maximum of connections is
        open."""
        limit = self.broker.config.net.connection_max
        if limit is None or not isinstance(method, ConnectionOpen):
            return
        if self.broker.admission.logged_in >= limit:
            text = f"connection refused: node connection limit ({limit}) is reached"
            self.violate(530, text, method)

    def refuse_login(self, violation: ConnectionViolation) -> None:
        """Close the connection after a delay, with a reply only to clients that understand it."""
        reason = self.handshake.refusal
        self.log("warning", f"login refused ({self.handshake.mechanism}): {reason!r}")
        if self.handshake.can("authentication_failure_close"):
            self.fail(violation)
        else:
            self.phase = CLOSING
        self.later(SILENT_CLOSE_DELAY_MS, Deadline(CLOSING))

    def opened(self) -> None:
        """Begin to heed alarms and heartbeats, and enter the tables: the handshake is done."""
        self.phase = RUNNING
        self.half_open = False
        self.broker.admission.log_in(self.peer.peer_host)
        self.is_logged_in = True
        self.user = self.handshake.user
        self.vhost = self.broker.vhosts[self.handshake.vhost]
        self.rights = Rights(self.broker.access, self.user, self.vhost.name)
        self.broker.access.enter(self)
        self.throttle.notify = self.handshake.can("connection.blocked")
        reason = self.broker.alarms.register(self)
        if reason:
            self.alarms_changed(reason)
        if self.handshake.heartbeat:
            self.later(self.handshake.heartbeat * 500, TICK)
        else:
            self.broker.deadlines.cancel(self)

    @property
    def refits(self) -> bool:
        offered = self.broker.config.net.frame_max
        return self.frame_max > 0 and not 0 < offered <= self.frame_max

    def is_open(self) -> bool:
        return self.phase == RUNNING

    def client_can(self, capability: str) -> bool:
        return self.handshake.can(capability)

    def beat(self) -> None:
        """Send a heartbeat when nothing else was sent for half an interval; give up a client that
        was silent for two. A connection that is not read because it publishes is not given up; one
        that is not read because its client does not read must at least do that."""
        if self.phase != RUNNING:
            return
        heartbeats, taken = self.heartbeats, self.writer.taken_bytes()
        excused = self.intake.scheduled or self.throttle.stopped
        is_due = heartbeats.look(self.tap.received_bytes, taken, not self.tap.is_shut, excused)
        if is_due and not self.writer.choked:
            self.writer.take(Frames([HEARTBEAT_FRAME]))
        if heartbeats.is_over:
            self.log("warning", f"no heartbeat for {self.handshake.heartbeat * 2} s, closing")
            self.drop()
        else:
            self.later(self.handshake.heartbeat * 500, TICK)

    def stray(self, number: int, class_id: int, method_id: int) -> None:
        """Refuse a frame on a channel that is not open; ignore it after our close."""
        if self.phase == RUNNING:
            raise ConnectionViolation(504, "expected 'channel.open'", class_id, method_id)
        if self.phase == HANDSHAKE:
            raise HandshakeFailed(f"channel {number} before the connection is open")

    def violate(self, code: int, text: str, method: Method) -> None:
        raise ConnectionViolation(code, text, method.class_id, method.method_id)

    def tell_client(self, what: int) -> None:
        """Send connection.blocked or unblocked, when the throttle asks for it and the client is
        there."""
        if what == NOTHING or self.phase != RUNNING:
            return
        if what == SEND_BLOCKED:
            self.say(ConnectionBlocked(reason=self.throttle.reason[:255]))
        else:
            self.say(ConnectionUnblocked())

    def log(self, level: str, text: str) -> None:
        self.broker.world.log.write(level, f"connection {self.name}: {text}")

    def say(self, method: Method) -> None:
        """Send the client a method on channel 0."""
        self.writer.take(Frames([method.frame(0)]))

    def later(self, delay_ms: int, message: object) -> None:
        """Set the one timer for `message`, in place of an earlier one."""
        self.broker.deadlines.set(self, delay_ms, message)

    def fail(self, violation: ConnectionViolation) -> None:
        """Close the connection for the peer's fault; wait for its close-ok, for a limited time."""
        if self.phase >= CLOSING:
            return
        self.log("error", f"closing the connection: {violation}")
        untuned = self.phase == HANDSHAKE and not self.handshake.is_tuned
        if untuned and violation.code in (501, 503, 504, 505):
            self.hang_up()
            return
        self.end_channels()
        self.amqp.ignore_all()
        self.phase = CLOSING
        self.say(
            ConnectionClose(
                reply_code=violation.code,
                reply_text=violation.short_text(),
                failed_class_id=violation.class_id,
                failed_method_id=violation.method_id,
            )
        )
        self.later(CLOSING_TIMEOUT_MS, Deadline(CLOSING))
        self.schedule()  # what was read already is skipped, perhaps with the peer's own close

    def force_close(self, text: str) -> None:
        """Close the connection on the operator's behalf, or at the broker's end; `text`
        says why."""
        if self.phase == RUNNING:
            self.fail(ConnectionViolation(320, text))
        else:
            self.hang_up()

    def close_behind_channels(self) -> None:
        """Close the connection at the client's request, when all channels have ended: whatever it
        sent on them before counts, however long that has to wait."""
        if not self.channels:
            self.say_farewell()
            return
        self.end_channels(Farewell(self, len(self.channels)))
        self.phase = CLOSING
        self.later(CLOSING_TIMEOUT_MS, Deadline(CLOSING))

    def say_farewell(self) -> None:
        """Answer the client's close, the last frame of this connection."""
        if self.phase != CLOSED:
            self.say(ConnectionCloseOk())
            self.hang_up()

    def end_channels(self, farewell: Farewell | None = None) -> None:
        """Have all channels give back what they hold, and exclusive queues deleted. `farewell`, if
        not None, waits for their ends."""
        self.rest = None
        for number in list(self.channels):
            channel = self.channels[number]
            self.forget(number)
            channel.post(ChannelDown(None, farewell))
        if self.vhost is not None and self.underway is None:
            owned = self.vhost.exclusive.get(self.name)
            if owned:
                self.begin(end_queues([*owned.values()]))
                self.schedule()

    def hang_up(self) -> None:
        """Write out everything due to the client, then close the socket."""
        if self.phase != CLOSED:
            self.end_channels()
            self.phase = CLOSED
            self.leave()
            self.writer.post(HangUp(LINGER_MS))

    def drop(self) -> None:
        """Close the socket now, without a reply, because the peer is gone."""
        self.lost()
        self.net.close(self.connection, 0)

    def lost(self) -> None:
        """End the rest of the connection, because the socket is gone."""
        if self.phase != CLOSED:
            self.end_channels()
            self.phase = CLOSED
            self.leave()
        self.writer.connection_lost()

    def release(self) -> None:
        self.keeper.release()
        self.halts.release()
        self.intake.release()
        self.writer.release()

    def leave(self) -> None:
        """Leave the broker's tables, step by step."""
        for step in self.leaving_steps():
            step()

    def leaving_steps(self) -> tuple[Callable[[], object], ...]:
        broker = self.broker
        return (
            partial(broker.deadlines.cancel, self),
            self.log_out,
            partial(broker.access.leave, self),
            partial(broker.forget_connection, self.connection),
            partial(broker.alarms.unregister, self),
            self.amqp.close,
            self.account,
        )

    def log_out(self) -> None:
        """Stop counting the connection as open."""
        if self.is_logged_in:
            self.is_logged_in = False
            self.broker.admission.log_out()

    def give_up_place(self) -> None:
        if self.half_open:
            self.half_open = False
            self.broker.admission.leave(self.peer.peer_host)

    # -- faults

    def faulted(self, error: Exception) -> None:
        """Close the connection after a fault; at once, if the fault came while handling its end."""
        if isinstance(self.faulted_message, Closed):
            sever(self)
        else:
            self.broken()

    def broken(self) -> None:
        """Close the connection, because the broker's own code has failed: by 541 if the client can
        hear that, and at once after a second fault."""
        self.faults += 1
        tuned = self.phase == HANDSHAKE and self.handshake.is_tuned
        if self.faults == 1 and (tuned or self.phase == RUNNING):
            try:
                self.fail(ConnectionViolation(541))
            except Exception as error:
                self.scheduler.witness(self, error)
            else:
                self.schedule()
                return
        sever(self)

    def go_deaf(self) -> None:
        super().go_deaf()
        self.phase = CLOSED
        self.rest = None
        self.amqp = AmqpConnection(SERVER)  # of the other one nothing is kept

    @property
    def is_held_up(self) -> bool:
        """Tell whether it waits for something other than its own publishes: for its client to read,
        or for queues to deliver what they have (`Pacer`)."""
        pacer = self.broker.pacer
        waits = self.intake.scheduled and pacer is not None and pacer.is_held
        return waits or self.halts.gates_shut > 0

    def state(self, now_ns: int) -> str:
        """Return the state that users see, such as `running` or `flow`, at the time `now_ns`."""
        if self.phase == RUNNING:
            shown = self.throttle.shown(now_ns)
            return "flow" if shown == "running" and self.is_held_up else shown
        return ("starting", "running", "closing", "closed")[self.phase]

    def facts(self) -> dict[str, Any]:
        """Return the facts agreed on in the handshake, under RabbitMQ's names."""
        return {"user": self.user, **self.handshake.facts()}
