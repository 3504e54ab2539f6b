"""What the page's modules decide without a browser, asked in plain Node."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.house.sources import ROOT
from tests.vscode.installed import skip_or_fail

_ASSETS = ROOT / "src/outlive/frontends/web/assets"


@pytest.mark.promise("U.list", "U.log", "U.approvals", "U.search")
@pytest.mark.parametrize("tests", sorted(one.name for one in (ROOT / "tests/web").glob("pure*.mjs")))
def test_the_pages_pure_modules_decide_as_their_tests_say(tmp_path: Path, tests: str) -> None:
    reason = None if shutil.which("node") else "no Node is installed (Debian: apt-get install nodejs)"
    skip_or_fail(reason, required_by="OUTLIVE_REQUIRE_PROGRAMS")
    # Outside of a browser a file's name does not say that it is a module.
    (tmp_path / "package.json").write_text('{"type": "module"}')
    shutil.copytree(_ASSETS, tmp_path / "page")
    shutil.copyfile(ROOT / "tests/web" / tests, tmp_path / tests)
    done = subprocess.run(
        ["node", "--test", tests], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    written = len(re.findall(r"^test\(", (ROOT / "tests/web" / tests).read_text(), re.MULTILINE))
    assert written > 1
    assert f"# pass {written}\n" in done.stdout
