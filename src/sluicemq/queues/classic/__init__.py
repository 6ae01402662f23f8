"""The classic queue: its machine, the places of its messages, and its limits."""
