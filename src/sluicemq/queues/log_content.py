"""The content of an entry in the log of a queue's members, as the queue keeps it."""

from __future__ import annotations

from sluicemq.compiling import mypyc_attr


@mypyc_attr(allow_interpreted_subclasses=True)
class LogContent:
    """What is in one entry: something that its bytes can be made of, for as long as it is not let
    go. Then they are in a segment of the log."""

    __slots__ = ()

    def __len__(self) -> int:
        raise NotImplementedError

    def __bytes__(self) -> bytes:
        """Return the bytes of the entry, which must be there."""
        raise NotImplementedError

    @property
    def is_there(self) -> bool:
        """Tell whether its bytes can be had."""
        raise NotImplementedError
