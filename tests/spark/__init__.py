"""Tests on a real Spark session, local[2] with 2 GiB, one for the whole run."""
