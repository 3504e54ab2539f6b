"""Tests of the page, in a real Chromium."""
