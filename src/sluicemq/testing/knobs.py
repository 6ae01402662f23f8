"""What a test can do to its broker: commands of the control socket that no other broker has.

Each is an action as in `manage/actions/`; `broker.py` asks for them.
"""

from __future__ import annotations

from base64 import b64encode
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from sluicemq.host.memory_disk import MemoryFiles
from sluicemq.manage.actions.operations import queue_of
from sluicemq.manage.actions.vhosts import delete_vhost
from sluicemq.manage.command import DATA, CommandRefused
from sluicemq.manage.lists import depth_of
from sluicemq.metadata.changes import UpsertRecord
from sluicemq.model.permissions import Permission
from sluicemq.model.vhosts import VhostDefinition
from sluicemq.testing.peeking import OnDisk, next_messages
from sluicemq.testing.refusal import Refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sluicemq.kernel.disk import Files
    from sluicemq.manage.command import Given
    from sluicemq.manage.task import Action, Task
    from sluicemq.node import Node
    from sluicemq.testing.clock import MovableClock
    from sluicemq.testing.net import DelayingNet

TEST: Final = "test"
"""The source of the alarm that `block` raises."""

NS_PER_MS: Final = 1_000_000
FULL: Final = 1 << 62
"""More free bytes than any disk has."""


class Knobs:
    """The knobs of one life of a broker. `end` ends it."""

    def __init__(
        self,
        node: Node,
        net: DelayingNet,
        clock: MovableClock,
        files: Files,
        end: Callable[[Any], None],
    ) -> None:
        self.node = node
        self.net = net
        self.clock = clock
        self.files = files
        self.end = end
        self.memory_limit = node.monitor.alarm.limit_bytes
        self.disk_limit = node.monitor.disk_alarm.limit_bytes
        self.numbers = count(1)
        self.refusal = Refusal()

    def actions(self) -> Mapping[str, Action]:
        """Return the commands by name."""
        return {
            "test_advance": self.advance,
            "test_block": self.block,
            "test_memory_alarm": self.memory_alarm,
            "test_disk_full": self.disk_full,
            "test_drop_connections": self.drop_connections,
            "test_nack_next": self.nack_next,
            "test_delay": self.delay,
            "test_refuse_logins": self.refuse_logins,
            "test_restart": self.restart,
            "test_make_vhost": self.make_vhost,
            "test_drop_vhost": delete_vhost,
            "test_route": self.route,
            "test_queue": self.queue,
            "test_peek": self.peek,
        }

    def advance(self, task: Task, given: Given) -> None:
        """Move the clock ahead; answered when everything due until then has happened."""
        step_ms = given.number("ms")
        if step_ms < 0:
            raise CommandRefused("the clock cannot be moved back", DATA)
        self.clock.advance(step_ms * NS_PER_MS, task.expect())

    def block(self, task: Task, given: Given) -> None:
        """Raise or clear an alarm that blocks publishers."""
        alarms = self.node.broker.alarms
        if given.flag("on"):
            alarms.raise_alarm(TEST, "blocked by the test")
        else:
            alarms.clear_alarm(TEST)
        task.finish()

    def memory_alarm(self, task: Task, given: Given) -> None:
        """Have the broker consider itself short of memory, or no longer."""
        self.node.monitor.set_limit(0 if given.flag("on") else self.memory_limit)
        task.finish()

    def disk_full(self, task: Task, given: Given) -> None:
        """Have the broker consider its disk full, or no longer. With storage in memory nothing can
        be written then."""
        is_full = given.flag("on")
        if isinstance(self.files, MemoryFiles):
            self.files.is_full = is_full
        self.node.monitor.set_disk_limit(FULL if is_full else self.disk_limit)
        task.finish()

    def drop_connections(self, task: Task, _: Given) -> None:
        """Cut all clients off, without a word."""
        connections = [*self.net.connections.values()]
        for connection in connections:
            connection.abort()
        task.finish([{"count": len(connections)}])

    def nack_next(self, task: Task, given: Given) -> None:
        """Have the existing queues reject the next messages."""
        self.refusal.begin(given.number("count"), self.node.broker.all_queues())
        task.finish()

    def delay(self, task: Task, given: Given) -> None:
        """Have everything for clients leave that many milliseconds later."""
        self.net.delay_ms = given.number("ms")
        task.finish()

    def refuse_logins(self, task: Task, given: Given) -> None:
        """Refuse all log-ins, or none."""
        self.node.broker.access.refuses_all = "the test refuses log-ins" if given.flag("on") else ""
        task.finish()

    def restart(self, task: Task, given: Given) -> None:
        """End this life of the broker, in order or as a kill would; the next one begins
        by itself.
        """
        task.finish()
        self.end("kill" if given.flag("kill") else "restart")

    def make_vhost(self, task: Task, given: Given) -> None:
        """Make a virtual host, with all permissions in it for each user; answers its name."""
        name = given.text("vhost", "") or f"test-{next(self.numbers)}"
        task.propose(UpsertRecord(VhostDefinition(name)), [{"vhost": name}])
        for user in self.node.broker.definitions.users:
            task.propose(UpsertRecord(Permission(user, name, ".*", ".*", ".*")), task.rows)

    def route(self, task: Task, given: Given) -> None:
        """Answer the queues that a message without headers would go to."""
        topology = task.vhost(given).topology
        names = topology.route(given.text("exchange"), given.text("routing_key"))
        task.finish([{"queue": name} for name in names])

    def queue(self, task: Task, given: Given) -> None:
        """Answer how many messages a queue holds, and how many it has seen."""
        queue = queue_of(task, given)
        depth = depth_of(queue)
        row = {"ready": depth.ready, "unacknowledged": depth.unacked, "seen": queue.published}
        task.finish([row])

    def peek(self, task: Task, given: Given) -> None:
        """Answer the next messages of a queue, which does not notice; none, and `on_disk`, when
        they are not all in memory."""
        now_ms = self.clock.wall_ms()
        try:
            found = next_messages(queue_of(task, given), given.number("count"), now_ms)
        except OnDisk:
            task.finish([{"on_disk": True, "messages": []}])
            return
        messages = [
            {**each._asdict(), "content": b64encode(each.content).decode()} for each in found
        ]
        task.finish([{"on_disk": False, "messages": messages}])
