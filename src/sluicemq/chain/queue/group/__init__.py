"""The parts of a queue that belong to its Raft group, whatever its state: the member's log and
mail, snapshots, and changes of members.
"""
