"""The classic queue: its machine, where its messages are, and what its limits demand."""
