"""Clients that mean harm, and what others notice of them; `bench/attacks.py` runs them."""
