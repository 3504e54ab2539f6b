"""Tests of what lies beside the core, a folder for each extension."""
