"""The lean tools against a real engine."""

import asyncio
import contextlib
import re
import socket
import sys

import pytest

from outlive.core.command import Command
from outlive.core.errors import StoreCorrupt
from outlive.core.lifecycle import Cause
from outlive.core.process import Owner
from outlive.engine import Engine
from outlive.frontends.mcp.tools import Caller, Toolbox, ToolSettings, UnknownTool
from outlive.store.output_log import OutputLog
from tests.mcp_tools.calling import a_caller, answer, live_process, refuses, seen

_LEAN = ["run", "read", "wait", "send", "control", "list"]


async def _say(toolbox: Toolbox, name: str, caller: Caller, /, **arguments: object) -> str:
    outcome = await answer(toolbox, name, caller, arguments)
    assert not outcome.is_error, outcome.text
    assert outcome.structured is None
    return outcome.text


def _id(text: str) -> str:
    found = re.match(r"\[id=(\w{26}) ", text)
    assert found is not None, text
    return found[1]


def _cursor(text: str) -> str:
    found = re.search(r"cursor=([\d.]+)\]", text)
    assert found is not None, text
    return found[1]


@pytest.mark.promise("S4.13")
@pytest.mark.parametrize(
    ("tool_set", "lean", "count"), [("lean", 6, 6), ("documents", 0, 8), ("terminals", 0, 7), ("all", 6, 21)]
)
async def test_the_setting_chooses_the_tools(engine: Engine, tool_set: str, lean: int, count: int) -> None:
    toolbox = Toolbox(engine, ToolSettings(mcp_tools=tool_set))  # type: ignore[arg-type] # one of four
    names = [tool["name"] for tool in toolbox.definitions(a_caller())]
    assert len(names) == count
    assert [name for name in names if name in _LEAN] == _LEAN[:lean]
    if tool_set == "lean":
        with pytest.raises(UnknownTool):
            await toolbox.start_background({"cmd": "true"}, a_caller())


@pytest.mark.promise("S4.13", "S4.13.answers")
async def test_run_answers_with_a_header_and_the_output(toolbox: Toolbox) -> None:
    text = await _say(toolbox, "run", a_caller(), command="echo out; echo err >&2; exit 3", cwd="/tmp")
    assert re.fullmatch(r"\[id=\w{26} exit=3 \d+\.\ds 8B/2 lines cwd=/tmp cursor=4\.4\]\nout\nerr", text)
    text = await _say(toolbox, "run", a_caller(), argv=["printf", "%s|", "a b", "c"])
    assert text.endswith("\na b|c|")
    script = "import sys; print('it\\'s', \"fine\"); sys.exit(2)"
    text = await _say(toolbox, "run", a_caller(), script=script, interpreter=sys.executable)
    assert " exit=2 " in text
    assert text.endswith("\nit's fine")


@pytest.mark.promise("S4.13.answers")
async def test_what_is_left_out_is_read_exactly_once(toolbox: Toolbox) -> None:
    caller = a_caller()
    wanted = [str(n) for n in range(1, 2001)]
    text = await _say(toolbox, "run", caller, command="seq 2000", budget=600)
    shown: list[str] = []
    todo = [text]
    while todo:
        lines = todo.pop().splitlines()[1:]
        for place, line in enumerate(lines):
            call = re.fullmatch(
                r'\[\.\.\. \d+ bytes omitted: read\(id="(.*)", cursor="(.*)", end="(.*)"\) \.\.\.\]', line
            )
            if call is None:
                shown.append(line)
                continue
            todo.append("\n" + "\n".join(lines[place + 1 :]))
            more = await _say(toolbox, "read", caller, id=call[1], cursor=call[2], end=call[3], budget=3000)
            todo.append(more)
            break
    assert shown == wanted


@pytest.mark.thorough
@pytest.mark.promise("S4.13.answers")
async def test_a_flood_shows_its_ends(toolbox: Toolbox) -> None:
    caller = a_caller()
    text = await _say(toolbox, "run", caller, command="seq 300000", budget=500)
    assert len(text) < 900
    assert "\n1\n2\n3\n" in text
    assert text.endswith("\n299999\n300000")
    text = await _say(toolbox, "read", caller, id=_id(text), tail=2)
    assert text.endswith("]\n299999\n300000")
    text = await _say(toolbox, "read", caller, id=_id(text), grep="250000|299999", context=1)
    assert text.splitlines()[1:] == ["249999", "250000", "250001", "299998", "299999", "300000"]
    assert "[no line matches]" in await _say(toolbox, "read", caller, id=_id(text), grep="nowhere")


@pytest.mark.promise("S4.13.plain")
async def test_noise_is_collapsed_unless_raw(toolbox: Toolbox) -> None:
    caller = a_caller()
    command = r"printf '\033[31mred\033[0m\n1%%\r50%%\r100%%\n'"
    assert (await _say(toolbox, "run", caller, command=command)).endswith("]\nred\n100%")
    text = await _say(toolbox, "run", caller, command=command, raw=True)
    assert text.endswith("]\n\x1b[31mred\x1b[0m\n1%\r50%\r100%")


@pytest.mark.promise("S4.13", "W.wait-tools")
async def test_a_running_command_is_read_waited_for_and_cancelled(toolbox: Toolbox, engine: Engine) -> None:
    caller = a_caller()
    text = await _say(toolbox, "run", caller, command="echo one; read x < /dev/zero & sleep 100", wait_s=0)
    name = _id(text)
    assert " running " in text
    process = await live_process(engine, caller)
    await seen(process, "one\n")
    text = await _say(toolbox, "read", caller, id=name)
    assert text.endswith("]\none")
    assert "[nothing new]" in await _say(toolbox, "read", caller, id=name, cursor=_cursor(text))
    assert " running " in await _say(toolbox, "wait", caller, ids=[name], wait_s=0.1)
    assert " paused " in await _say(toolbox, "control", caller, id=name, action="pause")
    assert " running " in await _say(toolbox, "control", caller, id=name, action="resume")
    listed = await _say(toolbox, "list", caller)
    assert listed.startswith(f"[id={name} running ")
    assert "echo one" in listed
    text = await _say(toolbox, "control", caller, id=name, action="cancel", grace=5)
    assert " signal=15 " in text
    assert "[Cancelled by the client.]" in text
    assert await _say(toolbox, "list", caller) == "[no processes]"
    assert name in await _say(toolbox, "list", caller, all=True)
    assert " signal=15 " in await _say(toolbox, "wait", caller, ids=[name, process.record.command_id])


@pytest.mark.promise("S4.13")
async def test_wait_for_any_answers_with_the_first(toolbox: Toolbox, engine: Engine) -> None:
    caller = a_caller()
    names = [
        _id(await _say(toolbox, "run", caller, command=command, wait_s=0))
        for command in ("sleep 100", "sleep 0.3; exit 4")
    ]
    text = await _say(toolbox, "wait", caller, ids=names, mode="any")
    assert [" running " in text.splitlines()[0], " exit=4 " in text.splitlines()[1]] == [True, True]
    for process in engine.queries.live():
        if process.process_id in names:
            with contextlib.suppress(Exception):
                await engine.controls.cancel(process)


@pytest.mark.promise("S4.13")
async def test_input_is_sent_and_its_answer_shown(toolbox: Toolbox) -> None:
    caller = a_caller()
    text = await _say(toolbox, "run", caller, command="exec cat", stdin="pipe", wait_for={"idle_s": 0.2})
    assert " waiting for input " in text
    name = _id(text)
    text = await _say(toolbox, "send", caller, id=name, text="hello\n", wait_s=5)
    assert text.endswith("]\nhello")
    text = await _say(
        toolbox, "send", caller, id=name, eof=True, text="bye\n", cursor="2.0", budget=100, wait_s=5
    )
    assert text.endswith("]\nllo\nbye")
    assert " exit=0 " in await _say(toolbox, "wait", caller, ids=[name])
    outcome = await answer(toolbox, "send", caller, {"id": name, "text": "late"})
    assert outcome.is_error


@pytest.mark.promise("S4.13")
async def test_keys_reach_a_terminal(toolbox: Toolbox) -> None:
    caller = a_caller()
    text = await _say(toolbox, "run", caller, command="exec cat", pty=True, wait_for={"idle_s": 0.2})
    text = await _say(toolbox, "send", caller, id=_id(text), text="hi", keys=["enter"], wait_s=5)
    assert text.endswith("\nhi\nhi")
    text = await _say(toolbox, "send", caller, id=_id(text), keys=["ctrl-c"], wait_s=5)
    assert " signal=2 " in await _say(toolbox, "wait", caller, ids=[_id(text)])


@pytest.mark.promise("S4.13")
async def test_run_can_wait_for_a_text_or_a_port(toolbox: Toolbox, engine: Engine) -> None:
    caller = a_caller()
    line = "printf 'serv'; sleep 0.2; echo 'er is ready'; sleep 100"
    text = await _say(toolbox, "run", caller, command=line, wait_for={"text": "server is ready"})
    assert text.endswith("\nserver is ready")
    assert " running " in text
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    program = f"import socket, time; s = socket.create_server(('127.0.0.1', {port})); time.sleep(100)"
    text = await _say(toolbox, "run", caller, argv=[sys.executable, "-c", program], wait_for={"port": port})
    assert f" ports={port} " in text
    for process in engine.queries.live():
        if process.record.owner.principal == caller.principal:
            await engine.controls.cancel(process)


@pytest.mark.promise("S4.13")
async def test_a_key_starts_nothing_twice(toolbox: Toolbox, engine: Engine) -> None:
    caller = a_caller()
    texts = await asyncio.gather(
        *(_say(toolbox, "run", caller, command="echo $$; sleep 0.2", key="k") for _ in range(3))
    )
    assert len({_id(text) for text in texts}) == 1
    assert len(set(texts)) <= 3
    assert _id(await _say(toolbox, "run", caller, command="echo $$", key="other")) != _id(texts[0])
    assert _id(await _say(toolbox, "run", a_caller(), command="echo $$", key="k")) != _id(texts[0])
    again = Toolbox(engine, ToolSettings())
    assert _id(await _say(again, "run", caller, command="echo $$", key="k")) == _id(texts[0])


async def test_a_cancelled_run_ends_what_it_started(toolbox: Toolbox, engine: Engine) -> None:
    """S4.6."""
    caller = a_caller()
    for extra in ({}, {"wait_for": {"text": "never"}}):
        call = asyncio.create_task(answer(toolbox, "run", caller, {"command": "exec sleep 100", **extra}))
        process = await live_process(engine, caller)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        async with asyncio.timeout(10):
            await engine.queries.wait(process)
        assert process.record.cause is Cause.CANCEL
        caller = a_caller()


@pytest.mark.parametrize(
    ("name", "arguments", "named"),
    [
        ("run", {}, "exactly one"),
        ("run", {"command": "ls", "argv": ["ls"]}, "exactly one"),
        ("run", {"command": "ls", "timout": 3}, "timout"),
        ("run", {"command": "sudo ls"}, "Sudo commands are not allowed"),
        ("run", {"argv": ["sudo", "ls"]}, "Sudo commands are not allowed"),
        ("run", {"script": "sudo ls"}, "Sudo commands are not allowed"),
        ("read", {"id": "nobody"}, "nobody"),
        ("read", {"id": "0" * 26}, "0" * 26),
        ("wait", {"ids": []}, "ids"),
        ("send", {"id": "x"}, "text, keys or eof"),
        ("send", {"id": "x", "keys": ["hyper"]}, "hyper"),
        ("control", {"id": "x", "action": "explode"}, "action"),
        ("list", {"limit": 0}, "limit"),
    ],
)
async def test_wrong_arguments_are_named(
    toolbox: Toolbox, name: str, arguments: dict[str, object], named: str
) -> None:
    """S4.13."""
    await refuses(toolbox, name, arguments, named=named)


async def test_nobody_sees_what_is_private(toolbox: Toolbox, engine: Engine) -> None:
    """S4.5.scope: nor can a signal without a name be sent."""
    mine = a_caller()
    process = await engine.starts.start(
        Command(line="sleep 100"), owner=Owner(principal=mine.principal, connection_id="elsewhere")
    )
    text = await _say(toolbox, "run", mine, command="exec sleep 100", wait_s=0)
    for caller, name in ((mine, process.process_id), (a_caller(), _id(text))):
        assert (await answer(toolbox, "read", caller, {"id": name})).is_error
    control = {"id": _id(text), "action": "signal"}
    assert (await answer(toolbox, "control", mine, {**control, "signal": "NOPE"})).is_error
    await _say(toolbox, "control", mine, **control, signal="int")
    assert " signal=2 " in await _say(toolbox, "wait", mine, ids=[_id(text)])
    await engine.controls.cancel(process)


async def test_one_more_than_a_groups_limit_is_queued_until_there_is_room(
    toolbox: Toolbox, engine: Engine
) -> None:
    caller = a_caller()
    group = {"group": "lean", "group_limit": 1}
    first = _id(await _say(toolbox, "run", caller, command="sleep 1000", wait_s=0, **group))
    second = await _say(toolbox, "run", caller, command="echo turn", wait_s=0, **group)
    assert "queued" in second
    await _say(toolbox, "control", caller, id=first, action="cancel", grace=0)
    assert "turn" in await _say(toolbox, "wait", caller, ids=[_id(second)]) + await _say(
        toolbox, "read", caller, id=_id(second)
    )


@pytest.mark.parametrize("tool", ["read", "run", "execute_linux_shell_command"])
async def test_output_that_the_disk_does_not_give_is_an_answer_of_the_tool(
    toolbox: Toolbox, monkeypatch: pytest.MonkeyPatch, tool: str
) -> None:
    """S4.13.answers: an error says what to do, whatever part of the call it comes from."""
    caller = a_caller()
    words = {"id": (await answer(toolbox, "run", caller, {"command": "echo x"})).text.split()[0][4:]}
    if tool != "read":
        words = {"command" if tool == "run" else "cmd": "echo x"}

    def refuse(*_: object, **__: object) -> None:
        raise StoreCorrupt("store_corrupt", "The disk does not give the output.")

    for name in ("read", "look"):
        monkeypatch.setattr(OutputLog, name, refuse)
    outcome = await answer(toolbox, tool, caller, words)
    assert outcome.is_error
    assert outcome.text.startswith("The disk does not give the output.\nHint: ")
