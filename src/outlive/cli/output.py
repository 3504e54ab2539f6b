"""What the command line prints: errors with their hint on stderr, JSON in one line, plain tables."""

import contextlib
import json
import sys
from collections.abc import Mapping

from outlive.core.errors import OutliveError

__all__ = ["say", "show", "show_error", "show_json"]


def show(text: str) -> None:
    """Print a line of the answer on stdout."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def show_json(document: Mapping[str, object]) -> None:
    """Print exactly one line of JSON on stdout."""
    show(json.dumps(document))


def say(text: str) -> None:
    """Print a line for people on stderr; that nobody reads it any more stops nothing."""
    # Python has no stderr where it was started without one.
    with contextlib.suppress(BrokenPipeError, AttributeError):
        sys.stderr.write(text + "\n")
        sys.stderr.flush()


def show_error(error: OutliveError) -> None:
    """Print what is wrong, and what to do next, on stderr."""
    say(f"outlive: {error.message}")
    if error.hint:
        say(f"  {error.hint}")
