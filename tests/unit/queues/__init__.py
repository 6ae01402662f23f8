"""The queue machines against a naive model of them."""
