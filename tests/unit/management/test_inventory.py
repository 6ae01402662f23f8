"""Goal: what is asked of the broker is bounded however many ask, and of several nodes each thing is
shown once, as who knows it best says. Method: a link that counts, and a clock that the test moves.
"""

from __future__ import annotations

import pytest

from sluicemq.manage.record_columns import CONNECTIONS, EXCHANGES, QUEUES, RECORDS
from sluicemq.management.api_error import BrokerRefused
from sluicemq.management.broker_link import BrokerLink
from sluicemq.management.cluster_inventory import ClusterInventory, merged
from sluicemq.management.inventory import CROWD_FETCHES, CROWD_LASTS_S, CROWD_S, Inventory, Record

from .bench import CountingLink, Moment, run


def row_of(kind: str, **values: object) -> list[object]:
    """A record as it comes over the link: 0 where nothing is said."""
    return [values.get(name, 0) for name in RECORDS[kind]]


def test_a_short_list_is_fetched_anew_but_for_a_crowd() -> None:
    async def work(moment: Moment) -> None:
        link = CountingLink({"records": [row_of(CONNECTIONS, name="c")]})
        inventory = Inventory(link)

        async def ask() -> None:
            moment.now_s += 0.001
            await inventory.all(CONNECTIONS)

        for _ in range(CROWD_FETCHES):
            await ask()
        assert len(link.asked) == CROWD_FETCHES
        for _ in range(200):
            await ask()
        assert len(link.asked) - CROWD_FETCHES <= 200 * 0.001 / CROWD_LASTS_S
        inventory.changed()
        before = len(link.asked)
        await ask()
        assert len(link.asked) == before + 1  # never older than the last change made here
        moment.now_s += CROWD_S
        await ask()
        await ask()
        assert len(link.asked) == before + 3

    run(work)


def test_a_long_list_may_be_as_old_as_it_is_long() -> None:
    async def work(moment: Moment) -> None:
        rows = [row_of(QUEUES, name=f"q{number}") for number in range(1000)]
        inventory = Inventory(link := CountingLink({"records": rows}))
        await inventory.all(QUEUES)
        moment.now_s += 0.7
        await inventory.all(QUEUES)
        assert len(link.asked) == 1
        moment.now_s += 0.2
        await inventory.all(QUEUES)
        assert len(link.asked) == 2

    run(work)


def queue(name: str, node: str, messages: int, kind: str = "classic", leader: str = "") -> Record:
    row: Record = {"vhost": "/", "name": name, "node": node, "type": kind, "leader": leader}
    return row | {"messages": messages}


def test_a_queue_is_as_its_home_says() -> None:
    own = [queue("a", "n1", 1), queue("b", "n2", 7), queue("c", "n1", 5, "quorum", "n2")]
    other = [queue("b", "n2", 8), queue("c", "n2", 6, "quorum", "n2"), queue("new", "n2", 0)]
    found = {row["name"]: row["messages"] for row in merged(QUEUES, {"": own, "n2": other})}
    assert found == {"a": 1, "b": 8, "c": 6, "new": 0}
    inventory = ClusterInventory(BrokerLink(0))
    inventory.name = "n1"
    assert [row["name"] for row in own if inventory.is_at_home(row)] == ["a"]


def test_counters_of_what_all_nodes_have_are_summed() -> None:
    own = {"vhost": "/", "name": "e", "publish_in": 1, "publish_out": 2}
    other = {"vhost": "/", "name": "e", "publish_in": 3, "publish_out": 4}
    gone = {"vhost": "/", "name": "gone", "publish_in": 9, "publish_out": 9}
    [row] = merged(EXCHANGES, {"": [own], "n2": [other, gone], "n3": []})
    assert (row["publish_in"], row["publish_out"]) == (4, 6)
    assert own["publish_in"] == 1  # what was fetched is not changed


@pytest.mark.parametrize(("code", "shown"), [(69, []), (75, ["c"])])
def test_a_node_that_is_down_adds_nothing_and_a_silent_one_what_it_told_last(
    code: int, shown: list[str]
) -> None:
    async def work(moment: Moment) -> None:
        inventory = ClusterInventory(BrokerLink(0))
        far = CountingLink({"of_node": [row_of(CONNECTIONS, name="c")]})
        inventory.others = {"n2": Inventory(far, "n2")}
        [row] = await inventory.of_other("n2", CONNECTIONS)
        assert (row["name"], row["node"]) == ("c", "n2")
        far.refusal = BrokerRefused("no", code)
        moment.now_s += 1
        found = await inventory.of_other("n2", CONNECTIONS)
        assert [row["name"] for row in found] == shown
        asked = len(far.asked)
        await inventory.of_other("n2", CONNECTIONS)
        assert len(far.asked) == asked + (code == 69)  # a silent one is left alone for a while

    run(work)
