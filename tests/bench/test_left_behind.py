"""What counts as left behind."""

import os
import subprocess
import time
import uuid

from bench.agents.left_behind import MARK, end_marked, left_behind


def test_a_process_that_stays_is_named_and_ended_but_a_server_s_own_is_not() -> None:
    mark = uuid.uuid4().hex
    process = subprocess.Popen(["sleep", "600"], env={**os.environ, MARK: mark})
    try:
        # Files are closed at an exec before the kernel shows the new environment: Popen may return in
        # between.
        deadline = time.monotonic() + 10
        while not (found := left_behind(mark, own=(), own_words=())) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert found == ["sleep 600"]
        assert left_behind(mark, own={process.pid}, own_words=()) == []
        assert left_behind(mark, own=(), own_words=("sleep",)) == []
        assert left_behind(uuid.uuid4().hex, own=(), own_words=()) == []
    finally:
        end_marked(mark)
        assert process.wait(5) == -9
