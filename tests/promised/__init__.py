"""What each door promises: a module a door, ids and sentences; tests/promises.py puts them together."""
