"""What is fuzzed: one module a target, all of them in `all_targets.py`."""
