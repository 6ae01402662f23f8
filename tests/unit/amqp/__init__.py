"""Tests of the codec, module by module."""
