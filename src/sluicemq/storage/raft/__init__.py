"""The logs of Raft groups on the disk: the journal first, then segments (docs/raft-log.md)."""
