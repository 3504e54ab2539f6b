"""Tests of notices: webhook, desktop, and what is owed after a crash."""
