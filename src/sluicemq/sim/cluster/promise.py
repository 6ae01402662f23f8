"""What a run of links must keep, checked as it happens."""

from __future__ import annotations

from sluicemq.errors import SluiceError


class LinkRuleBroken(SluiceError):
    """A promise of the links was not kept."""


def keeps(condition: object, *what: object) -> None:
    """Raise LinkRuleBroken with these words unless the condition holds."""
    if not condition:
        raise LinkRuleBroken(" ".join(map(str, what)))
