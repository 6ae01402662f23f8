"""The broker publishes itself: dead letters, and messages whose time has come."""
