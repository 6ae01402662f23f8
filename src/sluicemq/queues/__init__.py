"""Queue machines: pure state that commands change and that answers with effects."""
