"""Definitions: one pure machine, the changes that go into it, and how they are told.

    changes.py      what can be asked for, as immutable values
    codec.py        changes as JSON, for the journal and for a log
    state.py        the machine: `apply(change)` decides, from its state and the change alone
    agreement.py    propose -> agreed -> apply -> tell
    tables.py       the durable part as files have it, read without a verdict

Nothing in here is an actor or knows one.
"""
