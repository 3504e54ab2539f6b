"""Tests of the benchmark of agents: that its numbers mean what they say."""
