"""Where outlive's own code is, which no command may change. Imports next to nothing: helpers wait for it."""

import os
import site
import sys

PACKAGE = os.path.realpath(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def own_code() -> list[str]:
    """Return the paths from which this process and its successors take code, whether they exist or not."""
    found = [PACKAGE, *sys.path, sys.executable]
    if sys.prefix != sys.base_prefix:
        found.append(sys.prefix)  # a virtual environment, whole: its scripts and its settings count, too
    if sys.pycache_prefix is not None:
        found.append(sys.pycache_prefix)
    if site.ENABLE_USER_SITE:
        found.append(site.getusersitepackages())
    return [path for path in dict.fromkeys(found) if path.startswith("/")]
