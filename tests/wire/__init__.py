"""Tests of whole byte streams: golden sessions at every split, random frames, hostile peers."""
