"""Who may do what: users, permissions, limits."""
