"""`scripts/release.sh` and `scripts/image.sh`: what they refuse before they make anything, and the files that
they are made of.

What a release makes is tried by the release itself; its wheels by `test_wheel`, its image by
`tests/extensions/docker/test_image.py`.
"""

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from outlive.keeper.common.spawn import EXTERNAL_VARIABLE
from tests.house.sources import ROOT

_SCRIPTS = ROOT / "scripts"


def _call(name: str, *words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [_SCRIPTS / name, *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(("name", "words"), [("release.sh", ("--upload",)), ("image.sh", ("one",))])
def test_words_that_a_script_does_not_know_make_nothing(name: str, words: tuple[str, ...]) -> None:
    answer = _call(name, *words)
    assert answer.returncode == 64
    assert name in answer.stderr


def test_a_release_is_made_into_an_empty_folder_only(tmp_path: Path) -> None:
    """What is left of an earlier one would be published with it."""
    (tmp_path / "outlive-0.0.1.tar.gz").touch()
    answer = _call("release.sh", "--into", tmp_path)
    assert answer.returncode == 1
    assert "is not empty" in answer.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["outlive-0.0.1.tar.gz"]


def test_no_script_of_a_release_uploads_anything() -> None:
    """Publishing is a person's act: what would do it is printed only."""
    for name in ("release.sh", "image.sh", "wheels.py"):
        text = (_SCRIPTS / name).read_text(encoding="utf-8")
        commands = "".join(
            line for line in text.partition("cat <<WORDS")[0].splitlines() if "echo" not in line
        )
        assert re.findall(r"twine upload|docker push|mcp-publisher|git push|gh release", commands) == [], name


def test_the_image_and_its_containers_use_one_folder_and_no_rights() -> None:
    dockerfile = (_SCRIPTS / "image" / "Dockerfile").read_text(encoding="utf-8")
    (folder,) = re.findall(r"^VOLUME (\S+)$", dockerfile, re.MULTILINE)
    assert f"OUTLIVE_STATE_DIR={folder}" in dockerfile
    assert f"connect('{folder}/server.sock')" in dockerfile
    assert re.findall(r"^USER (\S+)$", dockerfile, re.MULTILINE) == ["10001"]
    services = yaml.safe_load((_SCRIPTS / "image" / "compose.yaml").read_text())["services"]
    assert {name: service["volumes"] for name, service in services.items()} == {
        "keeper": [f"state:{folder}"],
        "server": [f"state:{folder}"],
    }
    assert services["server"]["environment"] == {EXTERNAL_VARIABLE: "1"}, "it starts no keeper of its own"
    assert services["server"]["pid"] == "service:keeper"
