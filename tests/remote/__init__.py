"""Tests of other servers as backends."""
