"""One quorum queue on three whole brokers, clients on each of them, and what can go wrong between
and on machines; everything follows from the seed."""

from __future__ import annotations

from random import Random

from sluicemq.amqp import methods as m
from sluicemq.amqp.frames import content_body
from support.linked_brokers import Cluster, LinkedBroker, LinkedClient

STEPS = 60


class Publisher:
    """A client that publishes "name n", n = 0, 1, ... and counts what was confirmed."""

    def __init__(self, name: str, broker: LinkedBroker) -> None:
        self.name = name
        self.client = broker.connect()

    def publish(self, count: int) -> None:
        first = self.client.published
        self.client.publish(*(self.body(n) for n in range(first, first + count)))

    def body(self, n: int) -> bytes:
        return f"{self.name} {n}".encode()

    @property
    def confirmed(self) -> set[bytes]:
        self.client.poll()
        return {self.body(tag - 1) for tag in self.client.confirmed}

    @property
    def published(self) -> set[bytes]:
        return {self.body(n) for n in range(self.client.published)}


class Consumer:
    """A client that consumes, and what it has to answer for."""

    def __init__(self, history: History, broker: LinkedBroker, prefetch: int) -> None:
        self.history = history
        self.client = broker.connect()
        self.client.call(2, m.BasicQos(prefetch_count=prefetch), m.BasicQosOk)
        self.client.send(2, m.BasicConsume(queue="q", consumer_tag="c"))
        self.seen = 0
        self.last: dict[str, int] = {}
        self.open: dict[int, bytes] = {}

    def look(self) -> None:
        client = self.client
        client.poll()
        for tag, body, redelivered in client.delivered[self.seen :]:
            self.open[tag] = body
            self.history.delivered(body, redelivered)
            if not redelivered and self.history.is_ordered:
                name, n = body.decode().split()
                assert self.last.get(name, -1) < int(n), f"{body!r} comes too late"
                self.last[name] = int(n)
        self.seen = len(client.delivered)

    def settle(self, random: Random) -> None:
        self.look()
        for tag, body in [*self.open.items()]:
            chance = random.random()
            if chance < 0.7:
                self.client.send(2, m.BasicAck(delivery_tag=tag))
                self.history.settled.add(body)
                del self.open[tag]
            elif chance < 0.8:
                self.client.send(2, m.BasicNack(delivery_tag=tag, requeue=True))
                del self.open[tag]


class History:
    def __init__(self) -> None:
        self.seen: set[bytes] = set()
        self.settled: set[bytes] = set()
        self.published: set[bytes] = set()
        self.is_ordered = True
        """Nothing is got one by one, which a leader that is lost may do twice: then a message goes
        back behind others."""

    def delivered(self, body: bytes, redelivered: bool) -> None:
        assert body in self.published, f"{body!r} was never published"
        assert redelivered or body not in self.seen, f"{body!r} comes twice"
        self.seen.add(body)


class SharedRun:
    """A run of one seed."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.history = History()
        self.history.is_ordered = self.random.random() < 0.5
        self.cluster = Cluster(3, seed)
        self.cluster.declare(home=self.random.randrange(1, 4))
        self.publishers: list[Publisher] = []
        self.consumers: list[Consumer] = []
        self.getters: list[LinkedClient] = []
        self.joining: list[LinkedBroker] = []
        """Nodes that have started, and are not open for clients yet."""
        self.names = 0
        self.unanswered = 0
        """Gets without acknowledgement: of each whose answer is lost a message may be."""
        for broker in self.cluster.brokers:
            self.join(broker)

    def join(self, broker: LinkedBroker) -> None:
        """Clients connect to a node."""
        self.names += 1
        self.publishers.append(Publisher(f"p{self.names}", broker))
        self.consumers.append(Consumer(self.history, broker, self.random.choice((1, 3, 100))))

    def run(self) -> None:
        for _ in range(STEPS):
            self.step()
        self.heal()
        self.drain()

    def step(self) -> None:
        random = self.random
        for broker in [*self.joining]:
            if not broker.is_running:
                self.joining.remove(broker)
            elif broker.node.is_open and broker.has("q") and not broker.is_frozen:
                self.joining.remove(broker)
                self.join(broker)
        chance = random.random()
        if chance < 0.5:
            publisher = random.choice(self.publishers)
            if not publisher.client.is_gone:
                publisher.publish(random.randrange(1, 6))
                self.history.published |= publisher.published
        elif chance < 0.75:
            random.choice(self.consumers).settle(random)
        elif chance < 0.8:
            if not self.history.is_ordered:
                self.get()
        else:
            self.fault()
        self.cluster.rest(random.choice((0, 1, 3, 20, 400)))
        for consumer in self.consumers:
            consumer.look()

    def get(self) -> None:
        """Get a message, and acknowledge it when it comes, if it needs that."""
        broker = self.random.choice(self.cluster.brokers)
        if not broker.is_running or broker.is_frozen or broker in self.joining:
            return
        client = broker.connect()
        no_ack = self.random.random() < 0.3
        client.send(2, m.BasicGet(queue="q", no_ack=no_ack))
        client.has_no_ack = no_ack  # type: ignore[attr-defined]
        self.getters.append(client)
        self.unanswered += no_ack

    def fault(self) -> None:
        random, cluster = self.random, self.cluster
        down = [each for each in cluster.brokers if not each.is_running or each.is_frozen]
        chance = random.random()
        if down:
            broker = random.choice(down)
            if broker.is_running:
                broker.freeze(False)
            else:
                broker.start()
                self.joining.append(broker)
        elif chance < 0.35:
            leaders = cluster.leaders()
            broker = (
                leaders[0] if leaders and random.random() < 0.6 else random.choice(cluster.brokers)
            )
            broker.crash(power=random.random() < 0.5)
        elif chance < 0.5:
            random.choice(cluster.brokers).freeze()
        elif chance < 0.75:
            hosts = [each.host for each in cluster.brokers]
            one, other = random.sample(hosts, 2)
            ways = {(one, other): None}
            if random.random() < 0.7:
                ways[other, one] = None
            if random.random() < 0.4:
                alone = random.choice(hosts)
                ways |= {(alone, each): None for each in hosts if each != alone}
                ways |= {(each, alone): None for each in hosts if each != alone}
            cluster.network.cut(ways)
        elif chance < 0.9:
            cluster.network.cut({})
        else:
            ends = [*random.choice(cluster.brokers).net.ends.values()]
            if ends and ends[0].out is not None:
                cluster.network.tear(ends[0])

    def heal(self) -> None:
        cluster = self.cluster
        cluster.network.cut({})
        for broker in cluster.brokers:
            if not broker.is_running:
                broker.start()
            elif broker.is_frozen:
                broker.freeze(False)
        cluster.until(
            lambda: all(
                each.is_up(n) for each in cluster.brokers for n in (1, 2, 3) if n != each.number
            )
        )
        cluster.until(lambda: all(each.node.is_open and each.has("q") for each in cluster.brokers))
        for publisher in self.publishers:
            if not publisher.client.is_gone:
                cluster.until(publisher.client.all_confirmed)
                assert not publisher.client.nacked

    def drain(self) -> None:
        """Take everything out, over one connection."""
        cluster = self.cluster
        for consumer in self.consumers:
            consumer.look()
            if not consumer.client.is_gone:
                consumer.client.lose()
        for client in self.getters:
            client.poll()
            for event in client.got:
                body = content_body(event.content)
                assert isinstance(event.method, m.BasicGetOk)
                self.history.delivered(body, event.method.redelivered)
                self.history.settled.add(body)  # it may come back
                self.unanswered -= client.has_no_ack  # type: ignore[attr-defined]
            if not client.is_gone:
                client.lose()
        last = Consumer(self.history, self.random.choice(cluster.brokers), 100)

        def empty() -> bool:
            last.look()
            shells = [each.shell() for each in cluster.brokers]
            for tag, body in last.open.items():
                last.client.ack(tag)
                self.history.settled.add(body)
            last.open.clear()
            return all(not (each.fifo.messages.count or each.fifo.messages.out) for each in shells)

        cluster.until(empty)
        confirmed = {body for each in self.publishers for body in each.confirmed}
        lost = confirmed - self.history.settled
        assert len(lost) <= self.unanswered, f"{sorted(lost)} were confirmed and are lost"
        shells = [each.shell() for each in cluster.brokers]
        cluster.until(lambda: len({each.fifo.digest() for each in shells}) == 1)
        for each in shells:
            assert not each.asking.rows or each.asking.rows[0].number > each.asking.done
        cluster.no_faults()
