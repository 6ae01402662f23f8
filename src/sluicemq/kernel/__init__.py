"""The smallest building blocks: the interfaces of the World, actors with inboxes, a run queue."""
