"""What a queue on which the members of a Raft group agree has on one node, whatever its state is:
the member's log and mail, snapshots, and the members that come and go."""
