"""The members of a group: voters, and learners, which are sent the log and do not vote yet.

A member's id is used once: a new member has a higher id than all before it, so that no removed
member, whose log may be gone, can come back. Configurations change by one member at a time, so that
any majority of the old one and any majority of the new one have a voter in common.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from sluicemq.errors import Refused


@dataclass(frozen=True, slots=True)
class Configuration:
    """The members of a group from some entry on."""

    voters: tuple[int, ...] = ()
    learners: tuple[int, ...] = ()
    removed_max: int = 0
    """The highest id of a former member, or of one that was ruled out."""

    def __post_init__(self) -> None:
        assert tuple(sorted({*self.voters})) == self.voters, self.voters
        assert tuple(sorted({*self.learners})) == self.learners, self.learners
        assert not {*self.voters} & {*self.learners}, "a learner is no voter"

    @property
    def members(self) -> tuple[int, ...]:
        """All members: these are sent the log."""
        return (*self.voters, *self.learners)

    @property
    def newest(self) -> int:
        """The highest id of a present or former member, or of one that was ruled out."""
        return max((self.removed_max, *self.members))

    @property
    def majority(self) -> int:
        """The number of voters that decide."""
        return len(self.voters) // 2 + 1

    def has_majority(self, members: Iterable[int]) -> bool:
        """Whether the voters among these members decide. Nobody decides in a group
        without voters.
        """
        return len({*members}.intersection(self.voters)) >= self.majority

    def agreed(self, value_of: Callable[[int], int]) -> int:
        """The highest number that a majority of the voters has reached; 0 without voters."""
        values = sorted(map(value_of, self.voters))
        return values[(len(values) - 1) // 2] if values else 0

    def with_learner(self, member: int) -> Configuration:
        """This configuration with one more learner. Raises Refused if it is in the group already,
        or may have been before."""
        if member in self.members:
            raise Refused(f"member {member} is in the group already")
        if member <= self.newest:
            raise Refused(f"member {member} may have been in the group before")
        return replace(self, learners=(*sorted((*self.learners, member)),))

    def with_promoted(self, member: int) -> Configuration:
        """This configuration with that learner as a voter. Raises Refused if it is not
        a learner.
        """
        if member not in self.learners:
            raise Refused(f"member {member} is not a learner of the group")
        learners = (*(each for each in self.learners if each != member),)
        return replace(self, voters=(*sorted((*self.voters, member)),), learners=learners)

    def ruling_out(self, member: int) -> Configuration:
        """This configuration, to which neither that member nor one with a lower id can be added any
        more. Raises Refused if it is in the group."""
        if member in self.members:
            raise Refused(f"member {member} is in the group")
        return replace(self, removed_max=max(self.removed_max, member))

    def without(self, member: int) -> Configuration:
        """This configuration without that member. Raises Refused if it is not in the group, or is
        the only voter."""
        if member not in self.members:
            raise Refused(f"member {member} is not in the group")
        if self.voters == (member,):
            raise Refused(f"member {member} is the only voter of the group")
        return Configuration(
            (*(each for each in self.voters if each != member),),
            (*(each for each in self.learners if each != member),),
            max(self.removed_max, member),
        )

    def steps_to_sole(self, survivor: int) -> list[Configuration]:
        """Return the configurations, one member apart, that lead from this one to a group of this
        member alone; none if it already is. Raises Refused if it is not in the group."""
        steps: list[Configuration] = []
        now = self
        if survivor not in self.voters:
            now = self.with_promoted(survivor)
            steps.append(now)
        for member in self.members:
            if member != survivor:
                now = now.without(member)
                steps.append(now)
        return steps

    def steps_to_newcomer(self, newcomer: int) -> list[Configuration]:
        """Return the configurations, one member apart, that lead from this one to a group of one
        new member alone. Raises Refused if it may have been in the group before."""
        if not self.voters:
            return [Configuration((newcomer,), (), self.newest)]
        learning = self.with_learner(newcomer)
        steps = [learning, learning.with_promoted(newcomer)]
        for member in self.members:
            steps.append(steps[-1].without(member))
        return steps

    def is_one_step_from(self, other: Configuration) -> bool:
        """Whether at most one voter differs, so that majorities overlap."""
        return len({*self.voters} ^ {*other.voters}) <= 1

    def has_no_former(self, before: Configuration) -> bool:
        """Whether no member that joined since `before` may have been in the group earlier, and
        every member that left is counted as removed."""
        newest = before.newest
        new = {*self.members} - {*before.members}
        gone = {*before.members} - {*self.members}
        return all(name > newest for name in new) and self.removed_max >= max(
            (before.removed_max, *gone)
        )

    def encoded(self) -> bytes:
        """As an entry's data: `1,2,3/4` has three voters and a learner; in `1,2/4/3` the highest id
        of a removed member is 3."""
        text = "/".join(",".join(map(str, ids)) for ids in (self.voters, self.learners))
        return (f"{text}/{self.removed_max}" if self.removed_max else text).encode()

    def __str__(self) -> str:
        """As a text for users."""
        learners = f", learning {' '.join(map(str, self.learners))}" if self.learners else ""
        return f"{' '.join(map(str, self.voters)) or 'nobody'}{learners}"


def decoded(data: bytes) -> Configuration:
    """The configuration that `encoded` turned into these bytes."""
    voters, learners, *removed = data.decode().split("/")
    [removed_max] = map(int, removed or ("0",))
    return Configuration(ids_in(voters), ids_in(learners), removed_max)


def ids_in(text: str) -> tuple[int, ...]:
    """The ids in a text, which are separated by commas."""
    return (*(int(each) for each in text.split(",") if each),)
