"""Calls as models send them, from the arguments to what the command did."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from outlive.engine import Engine, ProcessFilter
from outlive.frontends.mcp.tools import Caller, Toolbox
from outlive.frontends.mcp.tools.calls import Project
from tests.mcp_tools.calling import a_caller, answer, newest_process, say
from tests.support.processes import Gate, Marker, wait_dead, wait_for


@pytest.mark.promise("S4.13.lenient")
@pytest.mark.parametrize(
    ("sent", "pattern"),
    [
        ({"cmd": "echo hi"}, r"\[exit 0\]\nhi"),
        ({"command": "echo hi", "description": "Says hi", "title": "x"}, r"\[exit 0\]\nhi"),
        ({"command": ["printf", "%s|", "a b", "$HOME"]}, r"\[exit 0\]\na b\|\$HOME\|"),
        ({"command": "pwd", "workdir": "/usr"}, r"\[exit 0\]\n/usr"),
        ({"command": "pwd", "working_directory": "/usr", "cwd": None}, r"\[exit 0\]\n/usr"),
        (
            {"command": "echo $A $B $C", "env": {"A": 3000, "B": True, "C": 1.5}},
            r"\[exit 0\]\n3000 true 1\.5",
        ),
        ({"command": "echo hi", "timeout": "5"}, r"\[exit 0\]\nhi"),
        ({"command": "echo hi", "timeout": "90s", "wait_s": "20"}, r"\[exit 0\]\nhi"),
        ({"command": "echo hi", "timeout": "2d"}, r"\[exit 0\]\nhi"),
        ({"command": "echo hi", "timeout": 0}, r"\[exit 0\]\nhi"),
        (
            {"command": "sleep 300", "timeout": "500ms"},
            r"\[timed out after 0\.5 s, killed\][^\n]*(\nTerminated)?",
        ),
        ({"command": "seq 300", "budget": "150"}, r"\[p1 exit 0\]\n1\n(.|\n)* bytes omitted: (.|\n)*\n300"),
        ({"command": r"printf '\033[1mx'", "raw": "true"}, "\\[exit 0\\]\n\x1b\\[1mx"),
        ({"command": "test -t 1 && echo tty", "tty": True}, r"\[exit 0\]\ntty"),
        ({"code": "import os; print(7)", "interpreter": "python3"}, r"\[exit 0\]\n7"),
        ({"command": "echo up; sleep 300", "wait_for": "up"}, r"\[p1 running, [^\]]+\]\nup"),
        ({"command": "echo up 42; sleep 300", "until": {"text": "42"}}, r"\[p1 running, [^\]]+\]\nup 42"),
        ({"command": "echo up; sleep 300", "wait_for": {"idle_s": "0.2"}}, r"\[p1 running, [^\]]+\]\nup"),
        ({"command": "sleep 300", "run_in_background": True}, r"\[p1 running, [^\]]+\](\n.*)?"),
        ({"command": "sleep 300", "background": "true"}, r"\[p1 running, [^\]]+\](\n.*)?"),
        ({"command": "echo hi", "is_background": False}, r"\[exit 0\]\nhi"),
    ],
)
async def test_a_run_is_understood(toolbox: Toolbox, sent: dict[str, object], pattern: str) -> None:
    caller = a_caller()
    text = await say(toolbox, "run", caller, **sent)
    assert re.fullmatch(pattern, text), text
    if " running, " in text:
        await say(toolbox, "stop", caller, ids=["p1"])


@pytest.mark.promise("S4.13.lenient")
@pytest.mark.parametrize(
    ("sent", "seconds"), [("5", 5), ("90s", 90), ("2d", 172_800), (3600, 3600), ("0", None)]
)
async def test_a_time_limit_is_what_was_meant(
    toolbox: Toolbox, engine: Engine, sent: object, seconds: float | None
) -> None:
    caller = a_caller()
    await say(toolbox, "run", caller, command="true", timeout=sent)
    assert (await newest_process(engine, caller)).record.timeout_s == seconds


@pytest.mark.promise("S4.13.lenient")
@pytest.mark.parametrize("sent", [120_000, "120000"])
async def test_a_time_limit_in_milliseconds_is_refused_with_the_right_number(
    toolbox: Toolbox, engine: Engine, sent: object
) -> None:
    caller = a_caller()
    outcome = await answer(toolbox, "run", caller, {"command": "true", "timeout": sent})
    assert outcome.is_error
    assert "did you mean 120?" in outcome.text
    assert await engine.queries.list(_of(caller)) == []


@pytest.mark.promise("S4.13.lenient")
@pytest.mark.parametrize("sent", ["p1", 1, "1", ["p1"], [1], "[p1]", "P1", " p1 "])
async def test_an_id_is_found_in_every_form(toolbox: Toolbox, sent: object) -> None:
    caller = a_caller()
    await say(toolbox, "run", caller, command="seq 3", wait_s=5)
    for name in ("ids", "id"):
        assert (await say(toolbox, "wait", caller, **{name: sent})).startswith("[p1 exit 0]")
        assert await say(toolbox, "stop", caller, **{name: sent}) == "[p1 exit 0]"
    if not isinstance(sent, list) and sent != "[p1]":
        for name in ("id", "process_id", "session_id", "bash_id"):
            text = await say(toolbox, "read", caller, **{name: sent, "tail": "2"})
            assert text == "[exit 0]\n2\n3"
        assert await say(toolbox, "read", caller, id=sent, filter="2", context="1") == "[exit 0]\n1\n2\n3"


@pytest.mark.promise("S4.13.lenient")
@pytest.mark.parametrize("action", ["kill", "stop", "terminate", "end", "cancel", "KILL"])
async def test_every_word_for_the_end_ends_the_tree(toolbox: Toolbox, marker: Marker, action: str) -> None:
    caller = a_caller()
    await say(toolbox, "run", caller, command=f"{marker.sleep} & {marker.sleep}", background=True)
    pids = await wait_for(marker, 2)
    assert await say(toolbox, "control", caller, id=1, action=action) == "[p1 stopped by you]"
    await wait_dead(*pids)


@pytest.mark.promise("S4.13.lenient")
@pytest.mark.parametrize("more", [{}, {"signal": None}, {"signal": "sigint"}, {"signal": 2}])
async def test_an_interrupt_is_a_ctrl_c(toolbox: Toolbox, more: dict[str, object]) -> None:
    """A signal that is none is refused, and interrupts nothing."""
    caller = a_caller()
    await say(toolbox, "run", caller, command="exec sleep 300", background=True)
    for wrong in ("", 0, "NOPE"):
        outcome = await answer(toolbox, "control", caller, {"id": 1, "action": "signal", "signal": wrong})
        assert outcome.is_error
    assert "[p1 running, " in await say(toolbox, "wait", caller, ids=1, wait_s=0)
    await say(toolbox, "control", caller, id=1, action="interrupt", **more)
    assert await say(toolbox, "wait", caller, ids=1, wait_s=20) == "[p1 killed by SIGINT]"


@pytest.mark.thorough
@pytest.mark.promise("S4.13.lenient")
async def test_input_has_the_names_of_other_tools(toolbox: Toolbox) -> None:
    caller = a_caller()
    await say(toolbox, "run", caller, command="exec cat", tty="true", wait_for={"idle_s": 1})
    text = await say(toolbox, "send", caller, session_id=1, chars="one\n", wait_s="5")
    assert text.splitlines()[1:3] == ["one", "one"]
    text = await say(toolbox, "send", caller, id="1", input="two", key="enter", wait_s=5)
    assert text.splitlines()[1:3] == ["two", "two"]
    text = await say(toolbox, "send", caller, id=1, keys="ctrl-d", wait_s=5)
    assert text == "[exit 0]"


@pytest.mark.promise("S4.13.lenient")
async def test_several_at_once_and_a_mode(toolbox: Toolbox, gate: Gate) -> None:
    caller = a_caller()
    for line in (gate.wait, "exit 4"):
        await say(toolbox, "run", caller, command=line, background=True)
    text = await say(toolbox, "wait", caller, ids="p1, p2", mode="any", wait_seconds="20")
    assert re.match(r"\[p1 running, [^\]]+\]\n(\[.*\n)?\[p2 exit 4\]", text), text
    gate.open()
    assert await say(toolbox, "wait", caller, ids="p1 2") == "[p1 exit 0]\n[p2 exit 4]"


@pytest.mark.promise("S4.13.lenient")
@pytest.mark.parametrize(
    ("tool", "sent", "words"),
    [
        ("run", {"comand": "ls"}, ["'comand'", "Did you mean 'command'?", "wait_for"]),
        ("run", {"command": "ls", "cmd": "ls"}, ["'cmd'"]),
        ("run", {"cmd": "ls", "bash": "ls"}, ["'bash'"]),
        ("run", {"command": "ls", "timeout": "soon"}, ["timeout"]),
        ("run", {"command": "ls", "wait_for": {"text": "x", "prot": 3}}, ["prot"]),
        ("run", {"command": "ls", "wait_for": "port 99999"}, ["port"]),
        ("run", {"command": 5}, ["command", "make test"]),
        ("run", {"command": "ls", "env": {"A": ["x"]}}, ["env"]),
        ("read", {"id": "p1", "tail": "many"}, ["tail"]),
        ("read", {"id": {"a": 1}}, ["id"]),
        ("wait", {"ids": []}, ["ids"]),
        ("wait", {"ids": [{"id": 1}]}, ["ids"]),
        ("control", {"id": 1, "action": "explode"}, ["action", "pause", "resume", "signal"]),
        ("send", {"id": 1, "keys": ["hyper"]}, ["hyper"]),
    ],
)
async def test_what_is_not_understood_is_refused_with_what_there_is(
    toolbox: Toolbox, engine: Engine, tool: str, sent: dict[str, object], words: list[str]
) -> None:
    caller = a_caller()
    outcome = await answer(toolbox, tool, caller, sent)
    assert outcome.is_error
    assert "Hint: " in outcome.text
    for word in words:
        assert word in outcome.text
    assert await engine.queries.list(_of(caller)) == []


def _of(caller: Caller) -> ProcessFilter:
    return ProcessFilter(principal=caller.principal)


@pytest.mark.promise("S4.13.lenient")
async def test_the_first_lines_and_the_home_folder_are_what_they_are_elsewhere(
    toolbox: Toolbox, tmp_path: Path
) -> None:
    home = str(tmp_path)
    project = Project(root=home, cwd="/", env={"HOME": home, "PATH": "/usr/bin:/bin"})
    caller = replace(a_caller(), project=project)
    text = await say(toolbox, "run", caller, command="pwd; seq 2000", cwd="~")
    assert text.splitlines()[1] == home
    assert await say(toolbox, "read", caller, id="p1", head=3) == f"[exit 0]\n{home}\n1\n2"
    outcome = await answer(toolbox, "run", caller, {"command": "pwd", "cwd": "~/no"})
    assert f"{home}/no" in outcome.text
