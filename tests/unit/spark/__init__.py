"""Tests of the pipeline's pure parts: no Java, no Spark session."""
