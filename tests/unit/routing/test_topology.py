"""One virtual host: what may be declared, bound, deleted; where a key leads; when `epoch` rises."""

from collections.abc import Callable

import pytest

from sluicemq.errors import ChannelViolation, ConnectionViolation, ProtocolViolation
from sluicemq.model.definitions import EXCHANGE, BindingDefinition, ExchangeDefinition
from sluicemq.routing.exchange import VAST
from sluicemq.routing.message import Message, TakesLong
from sluicemq.routing.topology import PREDECLARED, Topology

from .searching import result


def make(*queues: str) -> Topology:
    topology = Topology()
    for name in queues:
        topology.add_queue(name)
    return topology


def declare(topology: Topology, name: str, kind: str = "direct", **options: object) -> bool:
    passive = bool(options.pop("passive", False))
    definition = ExchangeDefinition(name, kind, **options)  # type: ignore[arg-type]
    if passive:
        topology.check_declared(name)
        return False
    return topology.declare_exchange(definition)


def to_queue(source: str, queue: str, key: str = "", **arguments: object) -> BindingDefinition:
    return BindingDefinition(source, queue, routing_key=key, arguments=arguments)


def to_exchange(source: str, exchange: str, key: str = "") -> BindingDefinition:
    return BindingDefinition(source, exchange, EXCHANGE, key)


def names(exchanges: tuple[ExchangeDefinition, ...]) -> list[str]:
    return [each.name for each in exchanges]


def refusal(action: Callable[[], object]) -> str:
    with pytest.raises(ProtocolViolation) as caught:
        action()
    strength = "channel" if isinstance(caught.value, ChannelViolation) else "connection"
    assert isinstance(caught.value, ChannelViolation | ConnectionViolation)
    return f"{strength} {caught.value.code} {caught.value.reply_text}"


@pytest.fixture(autouse=True)
def in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search in pieces finds the same as one in one go."""
    at_once = Topology.route

    def route(topology: Topology, exchange: str, key: str) -> tuple[str, ...]:
        found = at_once(topology, exchange, key)
        if exchange:
            assert result(topology.search(exchange, Message((key,)))) == found
        return found

    monkeypatch.setattr(Topology, "route", route)


NOT_ON_DEFAULT = "channel 403 ACCESS_REFUSED - operation not permitted on the default exchange"


def test_the_default_exchange_reaches_every_queue_by_its_name() -> None:
    topology = make("q")
    assert topology.route("", "q") == ("q",)
    assert topology.route("", "other") == ()
    topology.remove_queue("q")
    assert topology.route("", "q") == ()


def test_the_default_exchange_is_nobodys_to_change() -> None:
    topology = make("q")
    assert refusal(lambda: declare(topology, "")) == NOT_ON_DEFAULT
    assert refusal(lambda: declare(topology, "", passive=True)) == NOT_ON_DEFAULT
    assert refusal(lambda: topology.delete_exchange("", False)) == NOT_ON_DEFAULT
    assert refusal(lambda: topology.bind(to_queue("", "q", "k"))) == NOT_ON_DEFAULT
    assert refusal(lambda: topology.unbind(to_queue("", "q", "k"))) == NOT_ON_DEFAULT
    assert refusal(lambda: topology.bind(to_exchange("amq.direct", ""))) == NOT_ON_DEFAULT
    topology.check_publish("")


def test_predeclared_exchanges_are_durable_and_stay() -> None:
    topology = make("q")
    for name, kind in PREDECLARED.items():
        assert not declare(topology, name, kind, durable=True)
        assert refusal(lambda name=name: topology.delete_exchange(name, False)) == (
            f"channel 403 ACCESS_REFUSED - deletion of system exchange '{name}' "
            "in vhost '/' not allowed"
        )
    assert "received 'false' but current is 'true'" in refusal(
        lambda: declare(topology, "amq.direct", "direct")
    )


def test_names_of_the_broker_are_reserved() -> None:
    topology = make()
    assert refusal(lambda: declare(topology, "amq.mine")) == (
        "channel 403 ACCESS_REFUSED - exchange name 'amq.mine' contains reserved prefix 'amq.*'"
    )
    assert declare(topology, "amqmine")


def test_unknown_types_close_the_connection() -> None:
    topology = make()
    assert refusal(lambda: declare(topology, "x", "nosuch")) == (
        "connection 503 COMMAND_INVALID - unknown exchange type 'nosuch'"
    )
    assert refusal(lambda: declare(topology, "x", "")) == (
        "connection 503 COMMAND_INVALID - invalid exchange type ''"
    )


def test_passive_declare_asks_for_existence_only() -> None:
    topology = make()
    missing = "channel 404 NOT_FOUND - no exchange 'x' in vhost '/'"
    assert refusal(lambda: declare(topology, "x", passive=True)) == missing
    declare(topology, "x", "fanout", durable=True)
    assert not declare(topology, "x", "nosuch", passive=True)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"kind": "fanout"}, "'type' for exchange 'x' in vhost '/': received 'fanout' but current"),
        ({"durable": True}, "'durable' for exchange 'x' in vhost '/': received 'true' but current"),
        ({"auto_delete": True}, "'auto_delete' for exchange 'x' in vhost '/': received 'true'"),
        ({"internal": True}, "'internal' for exchange 'x' in vhost '/': received 'true'"),
        (
            {"arguments": {"alternate-exchange": "a"}},
            "received the value 'a' of type 'longstr' but current is none",
        ),
    ],
)
def test_declaring_again_must_ask_for_the_same(options: dict[str, object], text: str) -> None:
    topology = make()
    assert declare(topology, "x")
    assert not declare(topology, "x", arguments={"whatever": 1})
    answer = refusal(lambda: declare(topology, "x", **options))  # type: ignore[arg-type]
    assert answer.startswith("channel 406 PRECONDITION_FAILED - inequivalent arg")
    assert text in answer


def test_an_alternate_exchange_must_be_a_name() -> None:
    assert refusal(lambda: declare(make(), "x", arguments={"alternate-exchange": 5})) == (
        "channel 406 PRECONDITION_FAILED - invalid type 'signedint' for arg "
        "'alternate-exchange' in exchange 'x' in vhost '/'"
    )


def test_bind_names_what_is_missing() -> None:
    topology = make("q")
    missing_exchange = "channel 404 NOT_FOUND - no exchange 'x' in vhost '/'"
    assert refusal(lambda: topology.bind(to_queue("x", "nobody"))) == missing_exchange
    assert refusal(lambda: topology.bind(to_exchange("amq.direct", "x"))) == missing_exchange
    assert refusal(lambda: topology.bind(to_queue("amq.direct", "nobody"))) == (
        "channel 404 NOT_FOUND - no queue 'nobody' in vhost '/'"
    )


def test_unbind_of_what_never_was_is_fine() -> None:
    topology = make("q")
    epoch = topology.epoch
    assert topology.unbind(to_queue("amq.direct", "q", "k")) == ()
    assert topology.unbind(to_queue("x", "nobody", "k")) == ()
    assert topology.epoch == epoch


def test_routes_through_exchanges_each_queue_once_in_order() -> None:
    topology = make("a", "b", "c")
    declare(topology, "x", "fanout")
    topology.bind(to_queue("amq.topic", "b", "k.#"))
    topology.bind(to_exchange("amq.topic", "x", "k.*"))
    topology.bind(to_queue("amq.topic", "a", "#"))
    topology.bind(to_queue("x", "c"))
    topology.bind(to_queue("x", "b"))
    assert topology.route("amq.topic", "k.1") == ("b", "a", "c")
    assert topology.route("amq.topic", "other") == ("a",)


def test_what_the_key_alone_decides_is_said_without_a_message() -> None:
    topology = make("a", "b")
    declare(topology, "other", "fanout")
    topology.bind(to_queue("other", "a"))
    for exchange in ("amq.direct", "amq.topic"):
        topology.bind(to_queue(exchange, "b", "k"))
        topology.bind(to_queue(exchange, "b", "two"))
        topology.bind(to_queue(exchange, "a", "two"))
        topology.bind(to_exchange(exchange, "other", "on"))
        for key, queues in (("k", ("b",)), ("two", ("b", "a")), ("on", None), ("none", None)):
            assert topology.queues_by_key(exchange, key) == queues
            assert queues is None or topology.route(exchange, key) == queues
    assert topology.queues_by_key("", "a") == ("a",) == topology.route("", "a")
    assert topology.queues_by_key("", "none") == () == topology.route("", "none")
    assert topology.queues_by_key("other", "") is None
    with pytest.raises(ChannelViolation):
        topology.queues_by_key("missing", "")


@pytest.mark.parametrize("kind", ["direct", "fanout", "headers", "topic"])
def test_among_very_many_bindings_only_who_has_time_finds_a_way(kind: str) -> None:
    topology = make("last")
    declare(topology, "vast", kind)
    declare(topology, "x", "fanout")
    topology.bind(to_exchange("x", "vast"))
    for number in range(VAST + 1):
        topology.add_queue(f"q{number}")
        topology.bind(to_queue("vast", f"q{number}"))
    topology.bind(to_queue("x", "last"))
    hasty = Message(("",))
    hasty.is_hasty = True
    for exchange in ("x", "vast"):
        with pytest.raises(TakesLong):
            topology.route_message(exchange, hasty)
    assert topology.route("vast", "") == tuple(f"q{number}" for number in range(VAST + 1))
    assert topology.route("x", "")[0] == "last"
    pieces = topology.search("x", Message(("",)))
    next(pieces)
    topology.delete_exchange("vast", False)
    assert result(pieces) == ("last",)


def test_a_ring_of_exchanges_ends() -> None:
    topology = make("q")
    for name in ("x", "y"):
        declare(topology, name, "fanout")
    topology.bind(to_exchange("x", "y"))
    topology.bind(to_exchange("y", "x"))
    topology.bind(to_exchange("x", "x"))
    topology.bind(to_queue("y", "q"))
    assert topology.route("x", "k") == ("q",)
    assert names(topology.delete_exchange("x", False)) == ["x"]
    assert topology.route("y", "k") == ("q",)


def test_the_alternate_exchange_takes_what_finds_no_way() -> None:
    topology = make("rest", "k")
    declare(topology, "x", arguments={"alternate-exchange": "y"})
    assert topology.route("x", "k") == ()
    declare(topology, "y", "fanout", arguments={"alternate-exchange": "x"})
    assert topology.route("x", "k") == ()
    topology.bind(to_queue("y", "rest"))
    assert topology.route("x", "k") == ("rest",)
    topology.bind(to_queue("x", "k", "k"))
    assert topology.route("x", "k") == ("k",)
    declare(topology, "z", arguments={"alternate-exchange": ""})
    assert topology.route("z", "k") == ("k",)
    assert topology.route("z", "none") == ()


def test_publish_checks_name_missing_and_internal_exchanges() -> None:
    topology = make()
    declare(topology, "x", internal=True)
    assert refusal(lambda: topology.check_publish("x")) == (
        "channel 403 ACCESS_REFUSED - cannot publish to internal exchange 'x' in vhost '/'"
    )
    missing = "channel 404 NOT_FOUND - no exchange 'y' in vhost '/'"
    assert refusal(lambda: topology.check_publish("y")) == missing
    assert refusal(lambda: topology.route("y", "k")) == missing


def test_delete_if_unused_looks_at_outgoing_bindings_only() -> None:
    topology = make("q")
    declare(topology, "x")
    topology.bind(to_exchange("amq.direct", "x", "k"))
    topology.bind(to_queue("x", "q", "k"))
    assert refusal(lambda: topology.delete_exchange("x", True)) == (
        "channel 406 PRECONDITION_FAILED - exchange 'x' in vhost '/' in use"
    )
    topology.unbind(to_queue("x", "q", "k"))
    assert names(topology.delete_exchange("x", True)) == ["x"]
    assert topology.delete_exchange("x", True) == ()
    assert topology.route("amq.direct", "k") == ()


def test_auto_delete_exchanges_go_with_their_last_binding() -> None:
    topology = make("q", "r")
    for name in ("x", "y"):
        declare(topology, name, "fanout", auto_delete=True)
    topology.bind(to_exchange("x", "y"))
    topology.bind(to_queue("y", "q"))
    topology.bind(to_queue("y", "r"))
    assert topology.remove_queue("q") == ()
    assert names(topology.unbind(to_queue("y", "r"))) == ["y", "x"]
    assert [each.name for each in topology.list_exchanges()] == ["", *PREDECLARED]
    assert topology.inbound == {}


def test_an_auto_delete_exchange_never_bound_stays() -> None:
    topology = make()
    declare(topology, "x", auto_delete=True)
    topology.bind(to_exchange("amq.fanout", "x"))
    topology.unbind(to_exchange("amq.fanout", "x"))
    assert not declare(topology, "x", passive=True)


def test_deleting_a_destination_takes_auto_delete_sources_along() -> None:
    topology = make()
    declare(topology, "x", auto_delete=True)
    declare(topology, "y")
    topology.bind(to_exchange("x", "y", "k"))
    assert names(topology.delete_exchange("y", False)) == ["y", "x"]


def test_epoch_rises_exactly_when_a_route_can_change() -> None:
    topology = make("q")
    steps: list[tuple[Callable[[], object], bool]] = [
        (lambda: declare(topology, "x"), True),
        (lambda: declare(topology, "x"), False),
        (lambda: topology.bind(to_queue("x", "q", "k")), True),
        (lambda: topology.bind(to_queue("x", "q", "k")), False),
        (lambda: topology.unbind(to_queue("x", "q", "other")), False),
        (lambda: topology.unbind(to_queue("x", "q", "k")), True),
        (lambda: topology.add_queue("r"), True),
        (lambda: topology.remove_queue("r"), True),
        (lambda: topology.delete_exchange("x", False), True),
        (lambda: topology.delete_exchange("x", False), False),
    ]
    for number, (step, rises) in enumerate(steps):
        before = topology.epoch
        step()
        assert (topology.epoch > before) is rises, number


def test_lists_name_the_implicit_bindings_first() -> None:
    topology = make("q")
    topology.bind(to_queue("amq.direct", "q", "k", a=1))
    listed = [(b.source, b.destination, b.routing_key) for b in topology.list_bindings()]
    assert listed == [("", "q", "q"), ("amq.direct", "q", "k")]
