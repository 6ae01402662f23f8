"""Tests of flow control."""
