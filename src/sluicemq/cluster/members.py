"""The members of the cluster, and the refusal of other nodes.

A member has a number, an address and, once it was met, a name, a data directory (its `home`) and
its last life. A MemberBook keeps these before the member is sent anything, so that a member that
comes back without its data is not taken for the former one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sluicemq.cluster.introduction import Introduction, NodeCard
    from sluicemq.kernel.actor import Actor


class Member:
    """Another node of the cluster, with its number and address."""

    __slots__ = ("home", "host", "incarnation", "listed_name", "name", "number", "port", "start")

    def __init__(
        self, number: int, host: str, port: int, name: str = "", home: bytes = b""
    ) -> None:
        self.number = number
        self.host = host
        self.port = port
        self.listed_name = name
        """The member's name in the list of nodes; "": it has none."""
        self.name = name
        """The member's name; "": it was never met, and has none in the list."""
        self.home = home
        """The mark of its data directory; empty: it was never met."""
        self.incarnation = 0
        """The last life in which it was met; 0: it was never met."""
        self.start = b""
        """The mark of that life's start; empty: it was not met since this node started."""

    def __str__(self) -> str:
        return f"node {self.number} ({self.name})" if self.name else f"node {self.number}"

    @property
    def address(self) -> str:
        """Return the address as it is written in lists of nodes."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def forget(self) -> None:
        """Forget the node that was met: another one may come in its place."""
        self.name, self.home, self.incarnation, self.start = self.listed_name, b"", 0, b""

    def recall(self, name: str, home: bytes, incarnation: int) -> None:
        """Set the identity that was kept. If that is another life than the one in which it was met,
        the mark of its start is not known yet."""
        if (home, incarnation) != (self.home, self.incarnation):
            self.start = b""
        self.name, self.home, self.incarnation = name, home, incarnation


class MemberBook:
    """Keeps the identities of members that were met; this base class keeps nothing."""

    def write(self, members: Iterable[Member], actor: Actor) -> bool:
        """Make the members' identities durable. Returns True when that takes a while: a DiskJob is
        posted to `actor` when it is done."""
        return False

    def recall(self, members: Iterable[Member]) -> None:
        """Set the kept identities in these members."""


class Roster:
    """All members but this node, whose own card is `own`, by their numbers.

    As long as this node belongs to no cluster, it accepts members with new data directories. From
    then on a member must stay the same.
    """

    def __init__(self, own: NodeCard, members: Iterable[Member]) -> None:
        self.own = own
        self.members = {member.number: member for member in members}
        self.removed: dict[bytes, str] = {}
        """The sentence for each removed node, by the mark of its data directory."""
        assert own.node not in self.members, "this node among the others"

    def refusal(self, other: Introduction) -> str:
        """Return the sentence that refuses a node with this introduction; "" if it is a member, as
        far as this node knows."""
        own, card = self.own, other.card
        if card.home in self.removed:
            return self.removed[card.home]
        if own.cluster and card.cluster not in ("", own.cluster):
            return f"it belongs to the cluster {card.cluster!r}, and this is {own.cluster!r}"
        if card.start == own.start:
            return "it is this node itself: an address in the list of nodes leads back to it"
        if card.node == own.node or card.name == own.name:
            return f"it is {card}, and this is {own}: two nodes have one name or number"
        if other.wanted != own.node:
            return f"it looks for node {other.wanted}, and this is {own}: the lists of nodes differ"
        member = self.members.get(card.node)
        if member is None:
            return (
                f"it is {card}, which is no member of this cluster: a new node joins it by"
                " cluster.join"
            )
        return self.not_the_member(member, card)

    def not_the_member(self, member: Member, card: NodeCard) -> str:
        """Return why that card is not that member's; "" if it is."""
        for each in self.members.values():
            if (each.name == card.name) != (each is member) and each.name:
                return f"it calls itself {card.name!r} as {card}, but is known as {each}"
        if member.home and member.home != card.home:
            return (
                f"it calls itself {card.name!r}, but is not the {member} that was here before: its "
                "data directory is another one. A member that has lost its data is a new node, "
                "and no two nodes may have one name: `sluicemq ctl forget_cluster_node` removes "
                "the one that is lost"
            )
        if self.own.cluster and not card.cluster and not member.home:
            return f"it is {card} and belongs to no cluster, and this is {self.own.cluster!r}"
        if card.incarnation < member.incarnation:
            return (
                f"it is {card}, and was in life {member.incarnation} before: its data directory is "
                "an older copy"
            )
        if card.incarnation == member.incarnation and member.start not in (b"", card.start):
            return f"it is {card}, and so was another process: two have one data directory"
        return ""

    def meet(self, card: NodeCard) -> bool:
        """Note the member's present life from its card. Returns whether that is news to be kept."""
        member = self.members[card.node]
        is_new = member.home != card.home or member.incarnation != card.incarnation
        member.name, member.home = card.name, card.home
        member.incarnation, member.start = card.incarnation, card.start
        return is_new
