"""What exists on this node, and who changes it.

Virtual hosts and everything declared in them, users, policies, imported definitions; and the limits
of memory and disk for all of them.
"""
