"""The way from an exchange and a routing key to queues: exchange types, bindings, and their
topology.
"""
