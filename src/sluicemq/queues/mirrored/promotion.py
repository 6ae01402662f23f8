"""The choice of the member of a mirrored queue that goes on alone when no majority can be reached
for long and a policy wants that: the one with the newest log, though it may lack confirmed
messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sluicemq.metadata.events import DeclaredQueue
from sluicemq.metadata.queue_members import is_alone
from sluicemq.raft.raft import Raft

NODE_DOWN: Final = "nodedown"
"""The state of a member that cannot be asked, or says nothing any more."""
TIMEOUT: Final = "timeout"
"""The state of a member whose node is up, but does not answer."""


def status_of(raft: Raft) -> dict[str, Any]:
    """Return this member's status, for comparison with the others."""
    log = raft.member.log
    return {
        "raft_state": NODE_DOWN if raft.is_amnesiac else "leader" if raft.is_leader else "follower",
        "member": raft.member.name,
        "voters": [*log.configuration.voters],
        "last_term": log.last_term,
        "log_index": log.last_index,
    }


def heir_of(found: Mapping[int, Mapping[str, Any]], own: int = 0) -> int:
    """Return the node whose member should go on alone, from the answers of the nodes with members;
    0: none, because a member leads or could be elected, or a node that is up does not tell what it
    has. Of several that have most it is `own`, which asks: the others may not know that there is no
    master, for one that leads no more tells nobody."""
    members = {node: each for node, each in found.items() if each["raft_state"] != NODE_DOWN}
    reached = {each.get("member") for each in members.values()}
    for each in members.values():
        voters = each.get("voters")
        if voters is None or each["raft_state"] != "follower":
            return 0
        if voters and len(reached.intersection(voters)) > len(voters) // 2:
            return 0
    return max(members, key=lambda node: (*newest(members[node]), node == own, -node), default=0)


def may_be_led(found: Mapping[int, Mapping[str, Any]], leaders: Mapping[int, int]) -> bool:
    """Tell, from the answers of all nodes of the cluster, whether one that is out of reach may have
    the master: another node names it, or is up and does not answer. `leaders` has whom those name
    that have answered. Of these each knows best whether it leads itself."""
    named = {*leaders.values()} - {0}
    return not named <= leaders.keys() or any(
        each["raft_state"] == TIMEOUT for each in found.values()
    )


def newest(member: Mapping[str, Any]) -> tuple[int, int]:
    """Return a key that is greater for the newer of two logs. The newer log has all committed
    entries of the other. The key decides rather than a mirror's own in-sync set, because the mirror
    may not have heard that it was dropped."""
    return member["last_term"], member["log_index"]


def was_promoted(declared: DeclaredQueue, name: int, raft: Raft) -> bool:
    """Tell whether the member of this node should go on alone by the new id `name`. Only a
    promotion declares a member alone that is not in the group by its own log: otherwise members
    leave only when those that have joined can do without them."""
    is_new = name not in raft.configuration.members
    return is_alone(declared) and name in declared.members and is_new and not raft.is_amnesiac


def term_of_promotion(name: int) -> int:
    """Return a term above all terms of the promoted member's former group: with each promotion ids
    grow by more than the number of elections."""
    return name
