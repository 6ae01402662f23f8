"""Publishing by the broker itself: dead letters, and messages whose time has come."""
