"""What exists on this node, and who changes it.

Virtual hosts and what is declared in them, users, policies, imported definitions; and the limits of
memory and disk that hold for all of them.
"""
