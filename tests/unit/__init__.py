"""Tests of one module each; the folders mirror src/sluicemq."""
