"""examples/extension, one file in a package of its own, installed beside outlive as a user would."""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.extensions.environments import Environment
from tests.house.sources import ROOT


@pytest.fixture(name="toy", scope="module")
def _toy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Environment]:
    environment = Environment(tmp_path_factory.mktemp("toy") / "venv")
    environment.install(ROOT / "examples" / "extension")
    yield environment
    environment.outlive("keeper", "stop", "--kill")


def test_its_operation_is_a_method_a_route_and_a_verb(toy: Environment) -> None:
    assert toy.outlive("echo", "hi there") == "hi there\n"
    code = "from outlive.client import Client, InvalidRequest\nimport json\n"
    code += "with Client() as client: print(json.dumps(client.call('echo', {'text': 'over JSON-RPC'})))"
    assert json.loads(toy.run("-c", code))["text"] == "over JSON-RPC"
    code = (
        "import asyncio\nfrom outlive.frontends.rest.service import ROUTES\n"
        "print([(one.method, one.path, one.scope.name) for one in ROUTES if one.operation == 'echo'])"
    )
    assert toy.run("-c", code) == "[('GET', '/v1/echo', 'READ')]\n"


def test_its_verb_stands_on_the_help_page_under_its_title(toy: Environment) -> None:
    assert "Toys" in (page := toy.outlive("--help"))
    assert "echo" in page
    assert "Print a text by way of the server." in toy.outlive("echo", "--help")


def test_commands_run_in_its_place_and_are_found_again(toy: Environment) -> None:
    own = os.nice(0)
    assert toy.outlive("run", "--backend", "nice", "--", "nice") == f"{max(own, 10)}\n"
    assert toy.outlive("run", "--", "nice") == f"{own}\n"
    toy.outlive("run", "-d", "--backend", "nice", "--name", "long", "--", "sleep", "60")
    toy.outlive("stop-server")
    shown = json.loads(toy.outlive("inspect", "long", "--json"))
    assert shown["processes"][0]["location"]["backend"] == "nice"
    toy.outlive("stop", "long")
    assert "nice" not in toy.outlive("ps")


def test_a_place_without_its_extension_is_none(toy: Environment, tmp_path: Path) -> None:
    """What runs there goes on, and is controlled: the keeper has it."""
    toy.outlive("run", "-d", "--backend", "nice", "--name", "left", "--", "sleep", "60")
    toy.outlive("stop-server")
    plain = Environment(tmp_path / "plain")
    plain.variables["OUTLIVE_STATE_DIR"] = toy.variables["OUTLIVE_STATE_DIR"]
    plain.outlive("run", "--backend", "nice", "--", "true", code=125)
    plain.outlive("echo", "hi", code=2)
    plain.outlive("stop", "left")
    plain.outlive("stop-server")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('reads("echo"', 'reads("execute"', ["serve"]),
        ('"nice": Route', '"local": Route', ["serve"]),
        ('Verb("echo"', 'Verb("run"', ["--help"]),
    ],
    ids=["operation", "place", "verb"],
)
def test_what_there_is_already_is_not_replaced(tmp_path: Path, old: str, new: str, words: list[str]) -> None:
    """A second package that means well, or not: it is said what is wrong, and the server does not start."""
    project = tmp_path / "second"
    shutil.copytree(ROOT / "examples" / "extension", project)
    text = (project / "outlive_toy.py").read_text()
    assert text.count(old) == 1
    (project / "outlive_toy.py").write_text(text.replace(old, new))
    environment = Environment(tmp_path / "venv")
    environment.install(project)
    assert "which there is already" in environment.outlive(*words, code=1)


def test_an_extension_that_cannot_be_loaded_is_named(tmp_path: Path) -> None:
    """Verbs that need none of it work."""
    project = tmp_path / "broken"
    shutil.copytree(ROOT / "examples" / "extension", project)
    (project / "outlive_toy.py").write_text("import a_package_that_nobody_has\n")
    environment = Environment(tmp_path / "venv")
    environment.install(project)
    for words in (["--help"], ["serve"]):
        assert "No module named 'a_package_that_nobody_has'" in environment.outlive(*words, code=1)
    assert environment.outlive("--version").startswith("outlive ")
    environment.outlive("doctor", "--help")
