"""Tests of notices: webhook, program, and what is owed after a crash."""
