"""Everything that is declared: one pure machine, the changes that go into it, who is told of them.

    changes.py      what can be asked for, as immutable values
    codec.py        these as JSON, for the journal and for a log
    state.py        the machine: `apply(change)` decides, from its state and the change alone
    agreement.py    propose -> agreed -> apply -> tell
    tables.py       the durable part as files have it, read without a verdict

Nothing in here is an actor or knows one.
"""
