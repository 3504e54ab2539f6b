"""Runs commands that outlive their caller.

Owns the version number and nothing else: importing the package must stay free, because the keeper's
processes pay for every module in memory.
"""

__all__ = ["__version__"]

__version__ = "0.1.0"
