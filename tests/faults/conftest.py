"""Fixtures of the faults: the containers' runner, and a Docker daemon of a test's own."""
