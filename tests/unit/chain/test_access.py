"""Goal: what the operator changes holds at once, on open channels too; it is there after a crash at
any moment; no pattern of a user holds up the others. Method: a whole node, clients of several
users, control commands between their methods, the plug pulled after each job of the disk.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicemq.access.access import Rights
from sluicemq.amqp import methods as m
from sluicemq.amqp.frames import content_frames
from sluicemq.amqp.method import Method
from sluicemq.amqp.properties import BasicProperties
from sluicemq.chain.channel.methods import METHODS
from sluicemq.config import AuthConfig, Config
from sluicemq.errors import ChannelViolation, ConnectionViolation
from sluicemq.limits import PATTERN_STRIKES_MAX, RIGHTS_MAX
from sluicemq.metadata.changes import UpsertRecord
from sluicemq.metadata.codec import RECORDS
from sluicemq.metadata.tables import DurableTables
from sluicemq.model.permissions import CONFIGURE, READ, WRITE, Permission
from sluicemq.model.users import User
from sluicemq.queue_config import QueueConfig
from support.files import DictFiles
from support.thorough import examples

from .client import NO_PROPERTIES, Broker, Client

TINY = replace(Config(), storage=Config.tiny().storage)


class Bench(Broker):
    """With a user u, who may all in the virtual host v, and a channel of that user."""

    def __init__(self, config: Config = TINY) -> None:
        super().__init__(config, DictFiles())
        self.run()
        self.do("add_user", username="u", password="u")
        self.do("add_vhost", vhost="v")
        self.allow()
        self.client = self.connect("u", "v")
        self.client.open(1)

    def allow(self, configure: str = ".*", write: str = ".*", read: str = ".*") -> None:
        patterns = {"configure": configure, "write": write, "read": read}
        self.do("set_permissions", username="u", vhost="v", **patterns)

    def say(self, *some: Method) -> list[Method]:
        return self.client.call(1, *some)

    def publish(self, raw: bytes = NO_PROPERTIES) -> list[Method]:
        """To q, by the route that is remembered."""
        self.client.publish(1, "q", b"x", raw=raw)
        return self.say()

    def closed(self, answers: list[Method], code: int = 403) -> str:
        """The channel was; a new one is open now."""
        [close] = answers
        assert isinstance(close, m.ChannelClose)
        assert close.reply_code == code
        self.say(m.ChannelCloseOk())
        self.client.open(1)
        return close.reply_text


def test_what_was_allowed_is_not_any_more() -> None:
    """RabbitMQ's channels would go on for as long as they remember."""
    bench = Bench()
    bench.say(m.QueueDeclare(queue="q"))
    assert bench.publish() == bench.publish() == []
    bench.allow(write="^other$")
    assert "access to exchange 'amq.default'" in bench.closed(bench.publish())
    assert isinstance(bench.say(m.BasicGet(queue="q"))[0], m.BasicGetOk)
    bench.allow(read="")
    assert "access to queue 'q'" in bench.closed(bench.say(m.BasicGet(queue="q")))
    bench.do("clear_permissions", username="u", vhost="v")
    assert "access to queue 'q'" in bench.closed(bench.say(m.QueueDeclare(queue="q")))


@pytest.mark.parametrize("there", [True, False])
def test_who_may_nothing_does_not_learn_what_is_there(there: bool) -> None:
    bench = Bench()
    if there:
        bench.say(
            m.QueueDeclare(queue="q"), m.ExchangeDeclare(exchange="x", exchange_type="fanout")
        )
    asked = {"queue": m.QueueDeclare(queue="q", passive=True)}
    asked["exchange"] = m.ExchangeDeclare(exchange="x", passive=True)
    bench.allow("^other$", "^other$", "^other$")
    for kind, method in asked.items():
        told = bench.closed(bench.say(method))
        assert f"access to {kind} '" in told
        assert "refused" in told
    for one in ("configure", "write", "read"):
        bench.allow(**{"configure": "", "write": "", "read": "", one: ".*"})
        for method in asked.values():
            [answer] = bench.say(method)
            assert isinstance(answer, m.ChannelClose) != there
            if not there:
                assert bench.closed([answer], 404)


def test_what_was_refused_is_allowed_now() -> None:
    bench = Bench()
    bench.allow(configure="^a$")
    assert isinstance(bench.say(m.QueueDeclare(queue="a"))[0], m.QueueDeclareOk)
    bench.closed(bench.say(m.QueueDeclare(queue="b")))
    bench.allow(configure="^b$")
    assert isinstance(bench.say(m.QueueDeclare(queue="b"))[0], m.QueueDeclareOk)
    bench.closed(bench.say(m.QueueDeclare(queue="a")))


def test_topic_permissions_hold_on_remembered_routes() -> None:
    bench = Bench()
    frame = m.BasicPublish(exchange="amq.topic", routing_key="k").frame(1)
    content = content_frames(1, NO_PROPERTIES, b"x", 4096)
    bench.client.send_bytes(frame + content)
    assert bench.say() == []
    given_ = {"username": "u", "vhost": "v", "exchange": "amq.topic", "read": ""}
    bench.do("set_topic_permissions", write="^x", **given_)
    bench.client.send_bytes(frame + content)
    assert "access to topic 'k' in exchange 'amq.topic'" in bench.closed(bench.say())


def test_an_impersonator_who_is_none_any_more() -> None:
    bench = Bench()
    bench.say(m.QueueDeclare(queue="q"))
    forged = BasicProperties(user_id="other").encode()
    bench.do("set_user_tags", username="u", tags=["impersonator"])
    assert bench.publish(forged) == bench.publish(forged) == []
    bench.do("set_user_tags", username="u", tags=[])
    assert "user_id property set to 'other'" in bench.closed(bench.publish(forged), 406)


def test_a_catastrophic_pattern_holds_nobody_up() -> None:
    """Each attempt costs little, and they are counted: in the end there are none."""
    bench = Bench()
    bench.allow(configure="^(a|a)+$")
    names = [f"{'a' * 100}{number}!" for number in range(3)]
    for name in names:
        bench.closed(bench.say(m.QueueDeclare(queue=name)))
    access = bench.node.broker.access
    pattern = access.pattern_of(access.definitions.permissions["u", "v"], CONFIGURE)
    assert pattern.strikes == len(names)
    pattern.strikes = PATTERN_STRIKES_MAX
    bench.closed(bench.say(m.QueueDeclare(queue="a")))
    guest = bench.connect()
    guest.open(1)
    assert isinstance(guest.call(1, m.QueueDeclare(queue="q"))[0], m.QueueDeclareOk)
    bench.allow(configure="^a+$")
    assert isinstance(bench.say(m.QueueDeclare(queue="a"))[0], m.QueueDeclareOk)


def test_a_pattern_that_is_none_any_more_allows_nothing() -> None:
    """After an upgrade: what the journal holds was valid once."""
    bench = Bench()
    bench.node.broker.agreement.propose(UpsertRecord(Permission("u", "v", "(", ".*", ".*")))
    assert "access to queue 'q'" in bench.closed(bench.say(m.QueueDeclare(queue="q")))
    assert "access to exchange 'amq.default'" in bench.closed(bench.publish())
    bench.allow()
    assert isinstance(bench.say(m.QueueDeclare(queue="q"))[0], m.QueueDeclareOk)


def test_log_ins() -> None:
    bench = Bench()
    assert bench.refused("nobody", "v").reply_code == 403
    bench.do("change_password", username="u", password="other")
    assert bench.refused("u", "v").reply_code == 403
    bench.do("clear_password", username="u")
    assert bench.refused("u", "v").reply_code == 403
    assert bench.say(m.QueueDeclare(queue="q")) != []


def test_a_deleted_user_is_gone_from_all_tables() -> None:
    bench = Bench()
    bench.do("delete_user", username="u")
    [close] = bench.client.call(0)
    assert isinstance(close, m.ConnectionClose)
    assert (close.reply_code, close.reply_text) == (320, "CONNECTION_FORCED - user 'u' is deleted")
    bench.client.lose()
    broker = bench.node.broker
    assert broker.access.sessions == {}
    assert broker.vhosts["v"].connections == 0
    assert broker.definitions.permissions.keys() == {("guest", "/")}


def test_nothing_is_declared_in_a_vhost_that_is_being_deleted() -> None:
    """It would be left behind, without a virtual host."""
    bench = Bench()
    bench.say(m.QueueDeclare(queue="q", durable=True))
    bench.world.disk.jobs.clear()
    answers = bench.ask("delete_vhost", vhost="v")
    again = bench.ask("delete_vhost", vhost="v")
    added = bench.ask("add_vhost", vhost="v")
    assert bench.node.run(3)
    assert "is being deleted" in again[0].error
    assert "is being deleted" in added[0].error
    late = [
        m.ExchangeDeclare(exchange="x", exchange_type="direct", durable=True),
        m.QueueBind(queue="q", exchange="amq.direct", routing_key="k"),
        m.QueueDeclare(queue="new", durable=True),
    ]
    channel = bench.client.reader.channels[1]
    for method in late:
        with pytest.raises(
            ConnectionViolation, match="320 CONNECTION_FORCED - vhost 'v' is deleted"
        ):
            METHODS[type(method)](channel, method)
    bench.run()
    assert [answer.error for answer in answers] == [""]
    definitions = bench.node.broker.definitions
    assert [*bench.node.broker.vhosts] == ["/"]
    for method in late:
        with pytest.raises((ChannelViolation, ConnectionViolation)):
            METHODS[type(method)](channel, method)
    kept = DurableTables(definitions.encode())
    assert (kept.queues, kept.exchanges, kept.bindings) == ({}, {}, {})
    assert bench.refused("u", "v").reply_text == "NOT_ALLOWED - vhost v not found"


def facts(broker: Broker) -> str:
    """All records of a node."""
    records = broker.node.broker.definitions.records
    return repr([sorted(records[each.KIND].items(), key=repr) for each in RECORDS])


names = st.sampled_from("abc")
tags = st.lists(st.sampled_from(["administrator", "impersonator"]), max_size=2)
pattern = st.sampled_from(["", ".*", "^a"])
COMMANDS = st.one_of(
    st.tuples(st.just("add_user"), st.fixed_dictionaries({"username": names, "password": names})),
    st.tuples(st.just("delete_user"), st.fixed_dictionaries({"username": names})),
    st.tuples(st.just("set_user_tags"), st.fixed_dictionaries({"username": names, "tags": tags})),
    st.tuples(
        st.just("set_user_limits"),
        st.fixed_dictionaries({"username": names, "definition": st.just('{"max-channels": 1}')}),
    ),
    st.tuples(st.just("add_vhost"), st.fixed_dictionaries({"vhost": names})),
    st.tuples(st.just("delete_vhost"), st.fixed_dictionaries({"vhost": names})),
    st.tuples(
        st.just("set_vhost_limits"),
        st.fixed_dictionaries({"vhost": names, "definition": st.just('{"max-queues": 1}')}),
    ),
    st.tuples(
        st.just("set_permissions"),
        st.fixed_dictionaries(
            {
                "username": names,
                "vhost": names,
                "configure": pattern,
                "write": pattern,
                "read": pattern,
            }
        ),
    ),
    st.tuples(
        st.just("set_topic_permissions"),
        st.fixed_dictionaries(
            {
                "username": names,
                "vhost": names,
                "exchange": names,
                "write": pattern,
                "read": pattern,
            }
        ),
    ),
)


@examples(15)
@given(st.lists(COMMANDS, max_size=12), st.integers(0, 3))
def test_what_was_answered_is_there_after_a_crash(
    commands: list[tuple[str, dict[str, object]]], jobs: int
) -> None:
    files = DictFiles()
    broker = Broker(TINY, files)
    broker.run()
    for command, arguments in commands:
        broker.begin(command, **arguments)
        broker.run()
    before = facts(broker)
    last = broker.begin("add_user", username="last", password="x")
    while broker.node.run(1000):
        continue
    after = facts(broker)
    for _ in range(jobs):
        if broker.world.disk.jobs:
            broker.world.disk.finish()
            while broker.node.run(1000):
                continue
    survivor = Broker(TINY, files.crash())
    assert facts(survivor) in ([after] if last else [before, after])
    again = Broker(TINY, survivor.world.disk.files.crash())
    assert facts(again) == facts(survivor)


@pytest.mark.parametrize(
    ("configured", "of_vhost", "lasting"),
    [
        ("classic", "stream", "stream"),
        ("quorum", "", "quorum"),
        ("quorum", "stream", "stream"),
        ("quorum", "classic", "classic"),
        ("classic", "", "classic"),
    ],
)
def test_a_default_queue_type_is_for_queues_that_can_have_it(
    configured: str, of_vhost: str, lasting: str
) -> None:
    bench = Bench(replace(TINY, queue=QueueConfig(default_queue_type=configured)))
    bench.do("add_vhost", vhost="w", default_queue_type=of_vhost)
    permission = {"configure": ".*", "write": ".*", "read": ".*"}
    bench.do("set_permissions", username="u", vhost="w", **permission)
    client = bench.connect("u", "w")
    client.open(1)
    for name, durable, auto_delete, arguments in (
        ("lasting", True, False, {}),
        ("passing", False, False, {}),
        ("unused", True, True, {}),
        ("chosen", True, False, {"x-queue-type": "classic"}),
    ):
        declare = m.QueueDeclare(
            queue=name, durable=durable, auto_delete=auto_delete, arguments=arguments
        )
        assert isinstance(client.call(1, declare)[0], m.QueueDeclareOk)
        assert isinstance(client.call(1, declare)[0], m.QueueDeclareOk)
    queues = bench.node.broker.vhosts["w"].queues
    types = {name: queue.definition.type for name, queue in queues.items()}
    assert types == {
        "lasting": lasting,
        "passing": "classic",
        "unused": "classic",
        "chosen": "classic",
    }


def test_a_crash_while_a_vhost_is_deleted_leaves_one_that_is_whole() -> None:
    """Whatever is left of it can be used, and deleted."""
    seen = set()
    for jobs in range(40):
        bench = Bench()
        for name in ("q1", "q2", "q3"):
            bench.say(m.QueueDeclare(queue=name, durable=True))
        bench.say(m.ExchangeDeclare(exchange="x", exchange_type="direct", durable=True))
        bench.say(m.QueueBind(queue="q2", exchange="x", routing_key="k"))
        answers = bench.begin("delete_vhost", vhost="v")
        for _ in range(jobs):
            while bench.node.run(1000):
                continue
            if bench.world.disk.jobs:
                bench.world.disk.finish()
        after = Broker(TINY, bench.world.disk.files.crash())
        found = after.node.broker.vhosts
        seen.add(len(found["v"].queues) if "v" in found else None)
        assert not (answers and "v" in found)
        if "v" in found:
            client = after.connect("u", "v")
            client.open(1)
            client.call(1, m.QueueDeclare(queue="q1", durable=True))
            after.do("delete_vhost", vhost="v")
            assert "v" not in after.node.broker.vhosts
        if answers:
            break
    assert None in seen
    assert 3 in seen


checks = st.tuples(
    st.sampled_from([CONFIGURE, WRITE, READ]), st.sampled_from(["a", "b", "ab", "amq.default"])
)
grants = st.tuples(pattern, pattern, pattern)


@examples(30)
@given(st.lists(st.one_of(checks, grants), max_size=30))
def test_remembered_rights_are_those_there_are(steps: list[tuple[str, ...]]) -> None:
    broker = Broker().node.broker
    broker.agreement.propose(UpsertRecord(User("u")))
    rights = Rights(broker.access, "u", "/")
    current: Permission | None = None
    for step in steps:
        if len(step) == 3:
            current = Permission("u", "/", *step)
            broker.agreement.propose(UpsertRecord(current))
            continue
        permission, name = step
        try:
            rights.check_queue(permission, name)
            allowed = True
        except ChannelViolation:
            allowed = False
        known = None if current is None else current.patterns()[permission]
        assert allowed == (known is not None and known.matches(name))


def test_what_is_remembered_is_bounded() -> None:
    bench = Bench()
    rights = bench.client.reader.rights
    for number in range(RIGHTS_MAX + 5):
        rights.check_queue(READ, f"q{number}")
    assert len(rights._allowed) <= RIGHTS_MAX


def test_the_first_user_and_vhost_are_as_configured_and_do_not_come_back() -> None:
    auth = AuthConfig(
        default_user="root",
        default_pass="root",
        default_vhost="first",
        default_user_tags=("monitoring",),
        default_permissions_read="^r",
    )
    config = replace(TINY, auth=auth)
    broker = Broker(config, DictFiles())
    broker.run()
    definitions = broker.node.broker.definitions
    assert definitions.users["root"].tags == ("monitoring",)
    assert definitions.permissions["root", "first"].read == "^r"
    broker.connect("root", "first")
    broker.do("delete_user", username="root")
    again = Broker(config, broker.world.disk.files.crash())
    assert again.node.broker.definitions.users == {}
    assert again.refused("root", "first").reply_code == 403


def test_who_leaves_makes_room() -> None:
    bench = Bench()
    bench.do("set_vhost_limits", vhost="v", definition='{"max-connections": 1}')
    text = "access to vhost 'v' refused for user 'u': connection limit (1) is reached"
    assert bench.refused("u", "v").reply_text == f"NOT_ALLOWED - {text}"
    bench.client.lose()
    again: Client = bench.connect("u", "v")
    bench.do("set_user_limits", username="u", definition='{"max-channels": 1}')
    again.open(1)
    [close] = again.call(2, m.ChannelOpen())
    assert isinstance(close, m.ConnectionClose)
    assert close.reply_code == 530
