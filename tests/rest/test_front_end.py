"""A front end that knows the documented back end only, and nothing of outlive, does its work with it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.fixtures import ServerFactory

_PROGRAM = Path(__file__).with_name("front_end.py")
_PAGE = "http://localhost:5173"
_PATIENCE_S = 120


@pytest.mark.promise("S4.7.front-end", "S4.7.untyped", "S4.7.terminate", "S4.7.list", "S4.7.sync")
@pytest.mark.parametrize("page", ["", _PAGE])
def test_a_front_end_of_the_document_starts_lists_and_terminates(serve: ServerFactory, page: str) -> None:
    """By `fetch` without a Content-Type: from a program, and from a page whose origin the operator lets
    in.
    """
    server = serve(*(("--allow-origin", page) if page else ()))
    words = [sys.executable, "-I", str(_PROGRAM), server.rest_url, *([page] if page else [])]
    done = subprocess.run(words, capture_output=True, text=True, timeout=_PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "started": ["running", True],
        "listed": ["running"],
        "described": ["running", None, "from the front end\n"],
        "terminated": [True, True, "SIGTERM"],
        "listed after": [],
        "short": [False, 3, "short\n"],
        "shown": [
            "out\n\n\nSTDERR:\nerr",
            "Command completed with return code 4",
            "fine",
            "Command completed with return code 0",
        ],
    }
