"""No verb can forget to make texts of others harmless: the command line prints by one door, and what passes
that as it is is a program's own output.
"""

import ast

from tests.house.sources import ROOT, python_sources

_CLI = ROOT / "src" / "outlive" / "cli"
_DOOR = {
    "output.py",
    "progress.py",  # stands for the streams while its bar is below what the door prints
}
_WRITES = {
    ("sys", "stdout"),
    ("sys", "stderr"),
    ("sys", "__stdout__"),
    ("sys", "__stderr__"),
    ("os", "write"),
}
# `os.write` to a pipe and to a terminal of its own.
_PROBES = {("machine/probes.py", "os.write")}
_RAW = {
    "foreground/delivery.py",
    "logs/log_view.py",
    "verbs/input.py",  # two words of ours, to the terminal that is asked at
    "verbs/terminal.py",  # `read --form raw`
}


def test_nothing_of_the_command_line_is_printed_but_by_its_door() -> None:
    found = set()
    for source in python_sources("src/outlive/cli"):
        place = source.path.relative_to(_CLI).as_posix()
        for node in source.nodes if place not in _DOOR else ():
            match node:
                case ast.Name(id="print" | "getpass"):
                    found.add((place, node.id))
                case ast.Attribute(value=ast.Name(id=module), attr=name) if (module, name) in _WRITES:
                    found.add((place, f"{module}.{name}"))
                case ast.ImportFrom(module="sys" | "getpass"):
                    found.add((place, str(node.module)))
    assert found == _PROBES


def test_output_as_it_is_belongs_to_programs() -> None:
    found = set()
    for source in python_sources("src/outlive/cli"):
        names = {one.name for node in source.nodes if isinstance(node, ast.ImportFrom) for one in node.names}
        if names & {"deliver", "deliver_lines"}:
            found.add(source.path.relative_to(_CLI).as_posix())
    assert found == _RAW
