"""What a proposal is to Raft.

It is not compiled, because classes in Python have its form.
"""

from __future__ import annotations

from typing import Protocol


class EntryData(Protocol):
    """A proposal, in the form in which the proposer keeps it: bytes, or an object that becomes
    bytes whenever it is written, so that memory need not hold it twice. Raft never looks into it.

    Its length is that of its bytes, and neither changes before the entry is committed. Entries read
    from a disk have bytes.
    """

    def __len__(self) -> int: ...

    def __bytes__(self) -> bytes: ...
