"""The quorum queue: the commands that its members agree on, and the state that each builds from
them.
"""
