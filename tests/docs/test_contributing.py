"""docs/contributing: each walk is applied to a copy of this checkout, and what it adds is there and works."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from outlive.core.layout import Layout
from outlive.kernel.locks import holder_of
from tests.docs.consoles import Console
from tests.docs.pages import ROOT, page, section
from tests.house.sources import tracked_files
from tests.support.processes import end, wait_state_folder_empty
from tests.support.run_mark import marked
from tests.support.server import run_outlive

_PAGE = page("docs/contributing/README.md")
_BLOCK = re.compile(r"^```(diff|python|sh)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Copy:
    """A copy of the tracked files, with this environment's packages and a state folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.root, self.state = folder / "copy", folder / "state"
        for path in tracked_files():
            target = self.root / path.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)

        # Compiled by `make setup`: without it the first start would compile it.
        compiled = Path("src", "outlive", "native", "bin")
        if (ROOT / compiled).is_dir():
            shutil.copytree(ROOT / compiled, self.root / compiled)

    def walk(self, heading: str) -> dict[str, str]:
        """Apply a section's blocks one by one; return what each line of its `sh` blocks has said."""
        said = {}
        for kind, name, text in _BLOCK.findall(section(_PAGE, heading)):
            if kind == "sh":
                said.update({line: self.run(line) for line in text.splitlines()})
            elif kind == "python":
                assert not (self.root / name).exists(), f"{name} is there already"
                (self.root / name).parent.mkdir(exist_ok=True)
                (self.root / name).write_text(text, encoding="utf-8")
            else:
                self.patch(name, text.splitlines())
        return said

    def patch(self, name: str, lines: list[str]) -> None:
        """Change a file as a block says; the lines that the block expects stand there once."""
        text = (self.root / name).read_text(encoding="utf-8")
        old = "".join(f"{line[1:]}\n" for line in lines if line[0] in " -")
        new = "".join(f"{line[1:]}\n" for line in lines if line[0] in " +")
        if not old:
            text += new
        else:
            assert f"\n{text}".count(f"\n{old}") == 1, f"{name}: docs/contributing expects this once:\n{old}"
            text = f"\n{text}".replace(f"\n{old}", f"\n{new}")[1:]
        (self.root / name).write_text(text, encoding="utf-8")

    def run(self, line: str) -> str:
        """Run a line as in the copy's folder and return what it has said; it must succeed."""
        ran = Console(self.root).run(
            line,
            PYTHONPATH=f"{self.root / 'src'}:{self.root}",
            OUTLIVE_STATE_DIR=str(self.state),
            COLUMNS="200",
            **marked(),
        )
        assert ran.returncode == 0, f"{line}\n{ran.stdout}{ran.stderr}"
        return ran.stdout + ran.stderr


@pytest.fixture
def copy(tmp_path: Path) -> Iterator[Copy]:
    made = Copy(tmp_path)
    yield made
    if pid := holder_of(Layout(str(made.state)).server_lock):
        end(pid)
    if made.state.exists():
        run_outlive("keeper", "stop", "--kill", state_dir=made.state)
        assert wait_state_folder_empty(made.state) == {}


@pytest.mark.thorough
def test_a_new_verb_is_in_the_help_and_runs(copy: Copy) -> None:
    said = copy.walk("## Add a verb")
    assert re.search(r"Others +.*count", said["outlive --help"])
    assert "Print how many processes run." in said["outlive count --help"]
    assert "--group" in said["outlive count --help"]
    assert '{"running":0}' in said["outlive count --json"].replace(" ", "")


@pytest.mark.thorough
def test_a_new_setting_is_in_the_flags_the_reference_and_what_is_shown(copy: Copy) -> None:
    said = copy.walk("## Add a setting")
    assert "--motto" in said["outlive serve --help"]
    shown = said["OUTLIVE_MOTTO='be kind' outlive config show --origin"]
    assert re.search(r"motto.*be kind.*OUTLIVE_MOTTO", shown)
    for name in ("docs/settings.md", "docs/jsonrpc.md"):
        assert "`--motto TEXT`" in (copy.root / name).read_text(encoding="utf-8"), name


@pytest.mark.thorough
def test_a_new_operation_answers_and_is_in_the_reference(copy: Copy) -> None:
    said = copy.walk("## Add an operation")
    assert "1 passed" in said["python -m pytest -q -n 0 -p no:cacheprovider tests/jsonrpc/test_count.py"]
    text = (copy.root / "docs/messages.md").read_text(encoding="utf-8")
    assert "Say how many processes of the caller run." in section(text, "### `count`")
