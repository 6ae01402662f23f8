"""Spark: the pipeline that turns the lab's raw measurements into answers."""
