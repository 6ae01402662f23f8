"""Who may what: users, permissions, limits."""
