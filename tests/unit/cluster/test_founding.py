"""Goal: the nodes of a list become one cluster and never two, whatever crashes, breaks or is wiped;
and who cannot become part of it is told why.

Method: random runs of whole groups with every message on its way, bugs planted in them; the
sentences one by one.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sluicemq.cluster import founding
from sluicemq.cluster.founding import (
    BrokenFounding,
    ClusterFounding,
    ClusterKept,
    FoundedCluster,
    FoundingGreeting,
    FoundingProblem,
    FoundingSaid,
    JoinCluster,
    KeepCluster,
    MemberHeard,
    MemberLost,
    SayFounding,
    decode_founding,
)
from sluicemq.cluster.node_file import MetMember

from .founding_group import Broken, run

SEEDS = range(300)
PLANTED_SEEDS = range(3000)
LIST = ["h:1", "h:2", "h:3"]
MEMBERS = [MetMember(number, f"n{number}", f"{number:032x}", 1) for number in (1, 2, 3)]
FOUNDED = FoundedCluster("abc", LIST, MEMBERS)


def machine(number: int, founded: FoundedCluster | None = None) -> ClusterFounding:
    return ClusterFounding(MEMBERS[number - 1], LIST, f"id of {number}", founded)


def greeting(number: int, cluster: str = "", nodes: list[str] = LIST) -> FoundingSaid:
    return FoundingSaid(number, FoundingGreeting(MEMBERS[number - 1], nodes, cluster))


def heard(founder: ClusterFounding, *numbers: int) -> None:
    for number in numbers:
        (said,) = founder.apply(MemberHeard(number))
        assert isinstance(said, SayFounding)


def problem(effects: list[founding.FoundingEffect]) -> str:
    (effect,) = effects
    assert isinstance(effect, FoundingProblem)
    return effect.sentence


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_there_is_one_cluster_or_none(size: int) -> None:
    founded = wiped = 0
    for seed in SEEDS:
        group = run(seed, size)
        founded += len(group.members) == size
        wiped += group.is_known_lost
    assert founded > 5, "hardly ever is there a cluster"
    assert size != 3 or wiped > 5, "hardly ever is a known directory lost"


def by_majority(patch: pytest.MonkeyPatch) -> None:
    """A cluster is founded when most are heard."""

    def waits_for(self: ClusterFounding) -> list[int]:
        is_enough = 2 * (len(self.greetings) + 1) > len(self.nodes)
        return [] if is_enough or self.founded is not None else [2]

    def agree(self: ClusterFounding) -> bool:
        return not any(each.cluster for each in self.greetings.values())

    def look(self: ClusterFounding) -> list[founding.FoundingEffect]:
        if self.own.node == 1 and self.founded is None and not self.waits_for and self._agree():
            self.founded = FoundedCluster(self.new_id, self.nodes, [*self.everybody()])
            return [KeepCluster(self.founded)]
        return self._tell(self.founded) if self.is_member and self.founded is not None else []

    def everybody(self: ClusterFounding) -> list[MetMember]:
        known = {each.member.node: each.member for each in self.greetings.values()}
        known[1] = self.own
        return [
            known.get(each, MetMember(each, f"n{each}", "", 1))
            for each in range(1, len(self.nodes) + 1)
        ]

    patch.setattr(ClusterFounding, "waits_for", property(waits_for))
    patch.setattr(ClusterFounding, "_agree", agree)
    patch.setattr(ClusterFounding, "_look", look)
    patch.setattr(ClusterFounding, "everybody", everybody, raising=False)


def whoever_has_one(patch: pytest.MonkeyPatch) -> None:
    """A cluster is founded though another node says that it has one."""

    def agree(self: ClusterFounding) -> bool:
        return all(each.nodes == self.nodes for each in self.greetings.values())

    patch.setattr(ClusterFounding, "_agree", agree)


def told_before_it_is_durable(patch: pytest.MonkeyPatch) -> None:
    """The founder tells the others while it still writes."""
    original = ClusterFounding._look

    def look(self: ClusterFounding) -> list[founding.FoundingEffect]:
        effects = original(self)
        for effect in [*effects]:
            if isinstance(effect, KeepCluster):
                effects += self._tell(effect.founded)
        return effects

    patch.setattr(ClusterFounding, "_look", look)


def a_member_before_it_is_durable(patch: pytest.MonkeyPatch) -> None:
    """A node takes itself for a member while its cluster is still being written."""
    original = ClusterFounding.apply

    def apply(
        self: ClusterFounding, command: founding.FoundingCommand
    ) -> list[founding.FoundingEffect]:
        if isinstance(command, ClusterKept):
            return []
        effects = original(self, command)
        if any(isinstance(each, KeepCluster) for each in effects):
            effects += original(self, ClusterKept())
        return effects

    patch.setattr(ClusterFounding, "apply", apply)


def by_everybody(patch: pytest.MonkeyPatch) -> None:
    """Each node founds, not the first alone."""
    original = ClusterFounding._look

    def look(self: ClusterFounding) -> list[founding.FoundingEffect]:
        patch.setattr(founding, "FOUNDER", self.own.node)
        try:
            return original(self)
        finally:
            patch.setattr(founding, "FOUNDER", 1)

    def waits_for(self: ClusterFounding) -> list[int]:
        if self.founded is not None:
            return []
        return [
            each
            for each in range(1, len(self.nodes) + 1)
            if each != self.own.node and each not in self.greetings
        ]

    def whole(self: ClusterFounding) -> bool:
        return len(self.greetings) == len(self.nodes) - 1 and not any(
            each.cluster for each in self.greetings.values()
        )

    patch.setattr(ClusterFounding, "_look", look)
    patch.setattr(ClusterFounding, "waits_for", property(waits_for))
    patch.setattr(ClusterFounding, "_agree", whole)


def nobody_looks_at_homes(patch: pytest.MonkeyPatch) -> None:
    """A data directory that is new since joins, too."""

    def tell(self: ClusterFounding, founded: FoundedCluster) -> list[founding.FoundingEffect]:
        return [
            SayFounding(node, founded) for node, each in self.greetings.items() if not each.cluster
        ]

    patch.setattr(ClusterFounding, "_tell", tell)
    patch.setattr(ClusterFounding, "_why_not", lambda *_: "")


@pytest.mark.parametrize(
    "plant",
    [
        by_majority,
        whoever_has_one,
        told_before_it_is_durable,
        a_member_before_it_is_durable,
        by_everybody,
        nobody_looks_at_homes,
    ],
    ids=lambda plant: plant.__name__,
)
def test_a_planted_bug_is_caught(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    with pytest.raises(Broken):
        for seed in PLANTED_SEEDS:
            run(seed, 3)


def test_who_founds_and_who_is_told() -> None:
    founder = machine(1)
    assert founder.waits_for == [2, 3]
    heard(founder, 2, 3)
    assert founder.apply(greeting(3)) == []
    assert founder.waits_for == [2]
    founded = FoundedCluster("id of 1", LIST, MEMBERS)
    assert founder.apply(greeting(2)) == [KeepCluster(founded)]
    assert not founder.is_member
    assert founder.apply(ClusterKept()) == [
        JoinCluster(founded),
        SayFounding(3, founded),
        SayFounding(2, founded),
    ]
    assert founder.waits_for == []
    late = machine(2)
    heard(late, 1)
    assert late.waits_for == [1]
    assert late.apply(FoundingSaid(1, founded)) == [KeepCluster(founded)]
    assert late.apply(FoundingSaid(1, founded)) == []
    greets = FoundingGreeting(MEMBERS[1], LIST, "id of 1")
    assert late.apply(MemberHeard(3)) == [SayFounding(3, greets)], "an id counts at once"
    assert late.apply(ClusterKept()) == [JoinCluster(founded)]


def test_who_comes_later_is_told_once() -> None:
    founder = machine(1, FOUNDED)
    assert founder.is_member
    (said,) = founder.apply(MemberHeard(3))
    assert said == SayFounding(3, FoundingGreeting(MEMBERS[0], LIST, "abc"))
    assert founder.apply(greeting(3)) == [SayFounding(3, FOUNDED)]
    heard(founder, 2)
    assert founder.apply(greeting(2, "abc")) == []


def test_lists_that_differ_found_nothing() -> None:
    founder = machine(1)
    heard(founder, 2, 3)
    founder.apply(greeting(2))
    said = problem(founder.apply(greeting(3, nodes=["h:1", "h:3"])))
    assert said == (
        "node 3 has another list: cluster.nodes has h:1, h:3 there and h:1, h:2, h:3 here; it must"
        " be the same at all nodes"
    )
    assert founder.apply(greeting(3, nodes=["h:1", "h:3"])) == [], "said once"
    assert founder.founded is None


def test_a_founder_that_has_lost_its_data_founds_nothing() -> None:
    founder = machine(1)
    heard(founder, 2, 3)
    founder.apply(greeting(2))
    said = problem(founder.apply(greeting(3, "abc")))
    assert said.startswith("node 3 belongs to the cluster 'abc', and this node, which would have")
    assert founder.founded is None


@pytest.mark.parametrize(
    ("founded", "node", "words"),
    [
        (FOUNDED, 3, "which only node 1 can"),
        (FoundedCluster("", LIST, MEMBERS), 1, "which only node 1 can"),
        (FoundedCluster("abc", LIST[:2], MEMBERS), 1, "it must be the same at all nodes"),
        (FoundedCluster("abc", LIST, MEMBERS[::-1]), 1, "with the nodes [3, 2, 1]"),
        (
            FoundedCluster("abc", LIST, [MEMBERS[0], MetMember(2, "n2", "00", 1), MEMBERS[2]]),
            1,
            "when this node had another data directory, or name",
        ),
    ],
)
def test_what_is_not_joined(founded: FoundedCluster, node: int, words: str) -> None:
    other = machine(2)
    heard(other, 1, 3)
    assert problem(other.apply(FoundingSaid(node, founded))).endswith(words)
    assert other.founded is None


def test_a_member_joins_no_other_cluster() -> None:
    member = machine(2, FOUNDED)
    heard(member, 1)
    said = problem(member.apply(FoundingSaid(1, FoundedCluster("def", LIST, MEMBERS))))
    assert said.endswith("and this node belongs to 'abc'")


def test_who_was_not_heard_says_nothing() -> None:
    founder = machine(1)
    assert founder.apply(greeting(2)) == []
    heard(founder, 2)
    founder.apply(MemberLost(2))
    assert founder.apply(greeting(2)) == []
    assert founder.waits_for == [2, 3]


def test_two_of_one_name_found_nothing() -> None:
    founder = machine(1)
    heard(founder, 2, 3)
    founder.apply(greeting(2))
    same = MetMember(3, "n2", MEMBERS[2].home, 1)
    assert founder.apply(FoundingSaid(3, FoundingGreeting(same, LIST, ""))) == []
    assert founder.founded is None


@pytest.mark.parametrize("payload", [b"", b"{}", b'{"type":"greeting"}', b"\xff", b"[" * 5000])
def test_what_is_no_message_is_refused(payload: bytes) -> None:
    with pytest.raises(BrokenFounding, match="a message of the founding that cannot be read"):
        decode_founding(payload)
