"""The ways in which a queue's commands are agreed on."""
