"""queue ---write---> MESSAGE STORE: group commit of the journal, and checkpoints."""
