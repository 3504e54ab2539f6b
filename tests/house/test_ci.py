"""`.ci/run`: parts run beside each other, what fails is named at once, and nothing is left of a run that ends
in any way.
"""

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from tests.house.sources import ROOT

_CI = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
# Its own functions and traps, with other parts behind them.
_HELPERS = _CI[_CI.index("step() {") : _CI.index("# suite TARGET")]
_NEVER = "echo NOT REACHED"


def _script(body: str, folder: Path, helpers: str = _HELPERS) -> list[str]:
    """Return the words that run a body; its own folder is made in `folder`."""
    begin = f"set -euo pipefail\nexec </dev/null\nTMPDIR={folder}"
    return ["bash", "-c", f"{begin}\n{helpers}\n{body}\n{_NEVER.replace('NOT ', '')}"]


def _run(body: str, folder: Path) -> subprocess.CompletedProcess[str]:
    words = _script(body.replace("FOLDER", str(folder)), folder)
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)


def _left(folder: Path) -> list[Path]:
    return list(folder.glob("outlive-ci.*"))


def test_parts_run_beside_each_other_and_are_shown_one_by_one(tmp_path: Path) -> None:
    """Each waits for what the other one writes."""
    meets = "touch FOLDER/{}; until [ -e FOLDER/{} ]; do sleep 0.05; done; echo said {}"
    body = f"""
        beside "the first" bash -c '{meets.format("one", "two", 1)}'
        part "the second" bash -c '{meets.format("two", "one", 2)}'
        join "the first"
    """
    ran = _run(body, tmp_path)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert re.search(r"said 2\n.*=== the first.*said 1\nREACHED", ran.stdout, re.DOTALL)
    assert not _left(tmp_path)


def test_a_part_that_fails_beside_another_one_is_named_at_once(tmp_path: Path) -> None:
    body = f"""
        beside "the first" bash -c 'echo the reason; touch FOLDER/one; exit 3'
        part "the second" bash -c 'until [ -e FOLDER/one ]; do sleep 0.05; done; sleep 0.5; echo two'
        join "the first"
        {_NEVER}
    """
    ran = _run(body, tmp_path)
    assert ran.returncode == 1
    assert re.search(r"=== FAILED: the first.*two\n.*the reason\n.*=== RED", ran.stdout, re.DOTALL)
    assert "REACHED" not in ran.stdout


def test_a_part_that_fails_ends_the_run_and_what_runs_beside_it(tmp_path: Path) -> None:
    body = f"""
        beside "the first" bash -c 'echo $$ >FOLDER/pid; exec sleep 600'
        failing() {{ until [ -s FOLDER/pid ]; do sleep 0.05; done; false; {_NEVER}; }}
        part "the second" failing
        {_NEVER}
    """
    ran = _run(body, tmp_path)
    assert ran.returncode == 1
    assert "REACHED" not in ran.stdout
    assert re.search(r"=== FAILED: the second.*=== stopped: the first.*=== RED", ran.stdout, re.DOTALL)
    assert not Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}").exists()
    assert not _left(tmp_path)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["INT", "TERM"])
def test_a_run_that_is_stopped_leaves_nothing(tmp_path: Path, number: int) -> None:
    body = f"""
        part "long" bash -c 'echo $$ >{tmp_path}/pid; echo begun; exec sleep 600'
        {_NEVER}
    """
    words = _script(body, tmp_path)
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, start_new_session=True) as run:
        assert run.stdout is not None
        while "begun" not in run.stdout.readline():
            assert run.poll() is None
        os.kill(run.pid, number)
        said, _ = run.communicate(timeout=60)
    assert run.returncode == 128 + number
    assert re.search(r"=== stopped: long.*=== RED", said, re.DOTALL)
    assert "REACHED" not in said
    assert not Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}").exists()
    assert not _left(tmp_path)


def test_a_run_that_hangs_is_ended_and_shows_what_its_parts_had_said(tmp_path: Path) -> None:
    body = f"""
        beside "the first" bash -c 'echo as far as here; exec sleep 600'
        part "the second" sleep 600
        {_NEVER}
    """
    words = _script(body, tmp_path, _HELPERS.replace("LIMIT_S=3600", "LIMIT_S=1"))
    ran = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 124
    assert re.search(
        r"not done after 1 s.*=== the first had said\nas far as here\n.*=== RED", ran.stdout, re.DOTALL
    )
    assert not _left(tmp_path)


def test_each_part_that_was_begun_is_waited_for() -> None:
    """A part that no line joins could fail unseen."""
    begun = set(re.findall(r'^ *beside "([^"]+)"', _CI, re.MULTILINE))
    joined = {
        name
        for names in re.findall(r"^ *join ((?:\"[^\"]+\"[ \\\n]*)+)", _CI, re.MULTILINE)
        for name in re.findall(r'"([^"]+)"', names)
    }
    assert begun == joined
    assert len(begun) >= 5


def test_every_suite_of_the_makefile_is_run() -> None:
    """Taken together the suites leave no mark but `rare` out, which `test-all` runs.

    `test-most` is `test` and `test-thorough`, `test-floors` those of some folders, and `test-root` those that
    an ordinary user skips, and the walls once more.
    """
    whole = re.search(r"^test-all: ([^#]+)##", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert whole is not None
    assert "test-rare" in whole[1].split()
    targets = set(re.findall(r"\bsuite (test-[\w-]+)", _CI))
    assert targets == {
        *("test-most", "test-floors", "test-docker", "test-ray"),
        *("test-vscode", "test-storms", "test-alone", "test-root", "test-root-slow"),
    }


def test_every_test_that_needs_what_is_fetched_is_run_behind_it() -> None:
    """The first suite begins before: there such a test would be skipped, and no line would say so."""
    named = re.search(r'^fetched="([^"]+)"$', _CI, re.MULTILINE)
    demands = re.search(r"^export ((?:OUTLIVE_REQUIRE_\w+=1 ?){3,})$", _CI, re.MULTILINE)
    assert named is not None
    assert demands is not None
    order = [_CI.index(" suite test-most "), _CI.index('join "check'), demands.start()]
    assert order == sorted(order)
    folders = named[1].split()
    variables = [word.partition("=")[0] for word in demands[1].split()]
    needing = [
        path.relative_to(ROOT).as_posix()
        for path in sorted((ROOT / "tests").rglob("*.py"))
        if any(variable in path.read_text(encoding="utf-8") for variable in variables)
    ]
    assert len(needing) >= len(variables)
    assert [one for one in needing if not one.startswith(tuple(f"{folder}/" for folder in folders))] == []
