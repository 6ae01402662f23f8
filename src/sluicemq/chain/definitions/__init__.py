"""What is declared in a cluster: one Raft group of all nodes."""
