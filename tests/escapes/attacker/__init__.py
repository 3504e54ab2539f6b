"""The program that is run inside: `run.py`. Standard library only, and nothing of outlive."""
