"""The pytest plugin: a broker a session, a virtual host a test.

    def test_orders(amqp_url, amqp_admin):
        place_order(amqp_url)
        amqp_admin.wait_until("orders", ready=1)

pytest finds it by itself where SluiceMQ is installed. The report of a failed test shows the
contents of its queues, and the chain of flow control.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from sluicemq.errors import SluiceError

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from sluicemq.testing.admin import Admin
    from sluicemq.testing.broker import Broker

SHOWN_MAX: Final = 50
"""As many queues are printed, and as many of each stage of the chain."""
HEADS_MAX: Final = 3
"""As many messages of a queue are printed."""
BODY_MAX: Final = 60
"""As many bytes of each."""
WIDTH: Final = 100
"""Characters in a line of the chain's picture."""


@pytest.fixture(scope="session")
def amqp_broker_options() -> dict[str, object]:
    """Return the options of the session's broker, as `sluicemq serve --set` takes them. Override it
    in a conftest.py."""
    return {}


@pytest.fixture(scope="session")
def amqp_broker(amqp_broker_options: dict[str, object]) -> Iterator[Broker]:
    """Yield the broker of this session, in a process of its own, with storage in memory."""
    from sluicemq.testing.broker import Broker  # noqa: PLC0415 (only for who uses it)

    with Broker(options=amqp_broker_options) as broker:
        yield broker


@pytest.fixture
def amqp_vhost(amqp_broker: Broker) -> Iterator[str]:
    """Yield the name of a virtual host of this test's own. What the test has done to the broker is
    undone afterwards."""
    name = amqp_broker.make_vhost()
    yield name
    amqp_broker.calm()
    amqp_broker.drop_vhost(name)


@pytest.fixture
def amqp_url(amqp_broker: Broker, amqp_vhost: str) -> str:
    """Return the URL of this test's virtual host, with user and password."""
    return amqp_broker.url_of(amqp_vhost)


@pytest.fixture
def amqp_admin(amqp_broker: Broker, amqp_vhost: str) -> Admin:
    """Return access to the queues and messages of this test's virtual host."""
    from sluicemq.testing.admin import Admin  # noqa: PLC0415 (as above)

    return Admin(amqp_broker, amqp_vhost)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[Any]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the contents of the queues to the report of a failed test."""
    report = yield
    found: dict[str, Any] = getattr(item, "funcargs", {})
    broker, vhost = found.get("amqp_broker"), found.get("amqp_vhost")
    if report.failed and call.when == "call" and broker is not None and vhost is not None:
        try:
            text = picture(broker, vhost)
        except (SluiceError, OSError) as error:
            text = f"the broker does not answer: {error}"
        report.sections.append((f"SluiceMQ, virtual host {vhost}", text))
    return report


def picture(broker: Broker, vhost: str) -> str:
    """Return the contents of a virtual host's queues, and the chain of flow control, as text."""
    columns = ["name", "messages_ready", "messages_unacknowledged", "consumers"]
    queues = broker.ask("list_queues", vhost=vhost, columns=columns)
    lines = []
    for row in queues[:SHOWN_MAX]:
        lines.append(
            f"{row['name']}: {row['messages_ready']} ready, {row['messages_unacknowledged']}"
            f" unacknowledged, {row['consumers']} consumers"
        )
        if row["messages_ready"]:
            lines += heads(broker, vhost, row["name"])
    if len(queues) > SHOWN_MAX:
        lines.append(f"and {len(queues) - SHOWN_MAX} queues more")
    return "\n".join([*(lines or ["there are no queues"]), "", chain(broker)])


def heads(broker: Broker, vhost: str, queue: str) -> list[str]:
    """Return the next messages of a queue, one a line, as far as they can be seen."""
    from sluicemq.testing.admin import Admin  # noqa: PLC0415 (as above)

    found = Admin(broker, vhost).look(queue, HEADS_MAX)
    if found is None:
        return ["  its messages are on the disk, or it is a stream"]
    return [f"  {each.routing_key}: {shown(each.body)}" for each in found]


def shown(body: bytes) -> str:
    """Return the beginning of a body, with its length if that is not all."""
    more = f"... ({len(body)} bytes)" if len(body) > BODY_MAX else ""
    return f"{body[:BODY_MAX]!r}{more}"


def chain(broker: Broker) -> str:
    """Return the chain of flow control as text: who is held up, and by whom."""
    from sluicemq.cli.chain_picture import picture as draw  # noqa: PLC0415 (as above)

    found = broker.ask("chain")[0]
    return "\n".join(draw(found["stages"], found["links"], WIDTH, SHOWN_MAX))
