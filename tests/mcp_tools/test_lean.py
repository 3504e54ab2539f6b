"""The lean tools against a real engine."""

import asyncio
import re
import shlex
import socket
import sys

import pytest

from outlive.config import Settings
from outlive.core.command import Command
from outlive.core.errors import StoreCorrupt
from outlive.core.lifecycle import Cause
from outlive.core.process import Owner
from outlive.engine import Engine, ProcessFilter
from outlive.frontends.mcp.tools import Toolbox, UnknownTool
from outlive.store.output_log import OutputLog
from tests.keeper.house import House
from tests.mcp_tools.calling import (
    a_caller,
    answer,
    live_process,
    newest_process,
    refuses,
    say,
    seen,
    short_id,
)
from tests.support.processes import Gate, Marker, wait_dead, wait_for

_LEAN = ["run", "read", "wait", "send", "stop", "control", "list"]


@pytest.mark.promise("S4.13")
@pytest.mark.parametrize(
    ("tool_set", "lean", "count"), [("lean", 7, 7), ("documents", 0, 8), ("terminals", 0, 7), ("all", 7, 22)]
)
async def test_the_setting_chooses_the_tools(engine: Engine, tool_set: str, lean: int, count: int) -> None:
    toolbox = Toolbox(engine, Settings(mcp_tools=tool_set))
    names = [tool["name"] for tool in toolbox.definitions(a_caller())]
    assert len(names) == count
    assert [name for name in names if name in _LEAN] == _LEAN[:lean]
    if tool_set == "lean":
        with pytest.raises(UnknownTool):
            await toolbox.start_background({"cmd": "true"}, a_caller())


@pytest.mark.promise("S4.13", "S4.13.answers")
async def test_run_answers_with_a_header_and_the_output(toolbox: Toolbox) -> None:
    """A complete answer is its exit code and its output: nothing that the caller knows or has no use for."""
    text = await say(toolbox, "run", a_caller(), command="echo out; echo err >&2; exit 3", cwd="/tmp")
    assert text == "[exit 3]\nout\nerr"
    assert await say(toolbox, "run", a_caller(), command="true") == "[exit 0]"
    text = await say(toolbox, "run", a_caller(), argv=["printf", "%s|", "a b", "c"])
    assert text == "[exit 0]\na b|c|"
    script = "import sys; print('it\\'s', \"fine\"); sys.exit(2)"
    text = await say(toolbox, "run", a_caller(), script=script, interpreter=sys.executable)
    assert text == "[exit 2]\nit's fine"


@pytest.mark.promise("S4.13.answers")
async def test_what_is_left_out_is_read_exactly_once(toolbox: Toolbox) -> None:
    caller = a_caller()
    wanted = [str(n) for n in range(1, 2001)]
    text = await say(toolbox, "run", caller, command="seq 2000", budget=600)
    shown: list[str] = []
    todo = [text]
    assert text.startswith("[p1 exit 0]\n")  # the id is named where the next call needs it
    while todo:
        lines = todo.pop().splitlines()[1:]
        for place, line in enumerate(lines):
            call = re.fullmatch(
                r'\[\.\.\. \d+ bytes omitted: read\(id="(.*)", cursor="(.*)"\) \.\.\.\]', line
            )
            if call is None:
                shown.append(line)
                continue
            todo.append("\n" + "\n".join(lines[place + 1 :]))
            more = await say(toolbox, "read", caller, id=call[1], cursor=call[2], budget=3000)
            todo.append(more)
            break
    assert shown == wanted


@pytest.mark.thorough
@pytest.mark.promise("S4.13.answers")
async def test_a_flood_shows_its_ends(toolbox: Toolbox) -> None:
    caller = a_caller()
    text = await say(toolbox, "run", caller, command="seq 300000", budget=500)
    assert len(text) < 900
    assert "\n1\n2\n3\n" in text
    assert text.endswith("\n299999\n300000")
    name = short_id(text)
    text = await say(toolbox, "read", caller, id=name, tail=2)
    assert text == "[exit 0]\n299999\n300000"
    text = await say(toolbox, "read", caller, id=name, grep="250000|299999", context=1)
    assert text.splitlines()[1:] == ["249999", "250000", "250001", "299998", "299999", "300000"]
    assert "[no line matches]" in await say(toolbox, "read", caller, id=name, grep="nowhere")


@pytest.mark.promise("S4.13.plain")
async def test_noise_is_collapsed_unless_raw(toolbox: Toolbox) -> None:
    caller = a_caller()
    command = r"printf '\033[31mred\033[0m\n1%%\r50%%\r100%%\n'"
    assert await say(toolbox, "run", caller, command=command) == "[exit 0]\nred\n100%"
    text = await say(toolbox, "run", caller, command=command, raw=True)
    assert text == "[exit 0]\n\x1b[31mred\x1b[0m\n1%\r50%\r100%"


@pytest.mark.promise("S4.13", "W.wait-tools")
async def test_a_running_command_is_read_waited_for_and_stopped(toolbox: Toolbox, engine: Engine) -> None:
    caller = a_caller()
    text = await say(toolbox, "run", caller, command="echo one; read x < /dev/zero & sleep 100", wait_s=0)
    name = short_id(text)
    assert re.match(r"\[p1 running, 0\.\d s\]", text)
    process = await live_process(engine, caller)
    await seen(process, "one\n")
    shown = text + await say(toolbox, "read", caller, id=name)
    assert shown.count("one\n") + shown.endswith("one") == 1
    assert (await say(toolbox, "read", caller, id=name)).endswith("]\n[nothing new]")
    assert (await say(toolbox, "read", caller, id=name, cursor="0")).endswith("]\none")
    assert " running, " in await say(toolbox, "wait", caller, ids=[name], wait_s=0.1)
    assert await say(toolbox, "control", caller, id=name, action="pause") == "[p1 paused]"
    assert "[p1 running, " in await say(toolbox, "control", caller, id=name, action="resume")
    listed = await say(toolbox, "list", caller)
    assert listed.startswith("[p1 running, ")
    assert "echo one" in listed
    assert listed.count("\n") == 0
    assert await say(toolbox, "stop", caller, ids=[name], grace=5) == "[p1 stopped by you]"
    record = (await engine.queries.find(process.process_id)).record
    assert (record.cause, record.exit_signal, record.descendants) == (Cause.CANCEL, 15, 0)
    assert await say(toolbox, "list", caller) == "[nothing is running; all=true includes ended ones]"
    assert name in await say(toolbox, "list", caller, all=True)
    text = await say(toolbox, "wait", caller, ids=[name, process.record.command_id, process.process_id])
    assert text.splitlines()[::2] == ["[p1 stopped by you]"] * 3


@pytest.mark.promise("S4.13")
async def test_stop_and_the_action_cancel_end_whole_trees(
    toolbox: Toolbox, engine: Engine, marker: Marker
) -> None:
    """Several at once, one that ignores TERM among them, and one that has ended already."""
    caller = a_caller()
    ended = await say(toolbox, "run", caller, command="exit 7", wait_s=5)
    assert ended == "[exit 7]"
    lines = [f"{marker.sleep} & {marker.sleep}", f"trap '' TERM; {marker.sleep} & echo up; wait; wait"]
    for line in lines:
        await say(toolbox, "run", caller, command=line, wait_s=0)
    pids = await wait_for(marker, 3)
    text = await say(toolbox, "stop", caller, ids=["p1", "p2", "p3"], grace=0.3)
    assert re.fullmatch(r"\[p1 exit 7\]\n\[p2 stopped by you\]\n\[p3 stopped by you[^\]]*\](\nup)?", text), (
        text
    )
    await wait_dead(*pids)
    await say(toolbox, "run", caller, command=marker.sleep, wait_s=0)
    await wait_for(marker, 1)
    assert await say(toolbox, "control", caller, id="p4", action="cancel") == "[p4 stopped by you]"
    assert marker.pids() == []


@pytest.mark.promise("S4.13")
async def test_a_wrong_id_among_several_stops_the_others(toolbox: Toolbox, marker: Marker) -> None:
    caller = a_caller()
    for _ in range(2):
        await say(toolbox, "run", caller, command=marker.sleep, wait_s=0)
    pids = await wait_for(marker, 2)
    text = await say(toolbox, "stop", caller, ids=["p1", "p7", "p2"], grace=0)
    first, unknown, last = text.splitlines()
    assert (first, last) == ("[p1 stopped by you]", "[p2 stopped by you]")
    assert "'p7'" in unknown
    await wait_dead(*pids)
    outcome = await answer(toolbox, "stop", caller, {"ids": ["p8", "p9"]})
    assert outcome.is_error
    assert [name in outcome.text for name in ("p8", "p9")] == [True, True]


@pytest.mark.promise("S4.13")
async def test_a_list_shows_ports_and_what_a_script_does(toolbox: Toolbox, shared_house: House) -> None:
    """A path of the state folder names no script that a model knows again, and is no business of its."""
    caller = a_caller()
    server = f"{shlex.quote(sys.executable)} -u -m http.server 0 --bind 127.0.0.1"
    text = await say(toolbox, "run", caller, command=server, wait_for="Serving HTTP")
    listens = re.search(r"listens on \d+", text)
    assert listens is not None
    script = "#!/bin/bash\n# of the night\n\nexport KEY=ghp_Qr5tUv7wXy9zAb1cDe3fGh5iJk7lMn9oPq1r; sleep 300\n"
    await say(toolbox, "run", caller, script=script, wait_s=0)
    rows = (await say(toolbox, "list", caller)).splitlines()
    assert rows[0].startswith("[p2 running, ")
    assert "/bin/bash script: export KEY=ghp_*" in rows[0]
    assert "ghp_Qr5" not in rows[0]
    assert str(shared_house.state_dir) not in rows[0]
    assert listens[0] in rows[1]
    await say(toolbox, "stop", caller, ids=["p1", "p2"], grace=0)


@pytest.mark.thorough
@pytest.mark.promise("S4.13")
async def test_a_text_without_enter_says_so_where_the_line_is_still_waited_for(toolbox: Toolbox) -> None:
    """Models forget the newline, and wait for an answer that cannot come."""
    caller = a_caller()
    note = "[no Enter was sent: end text with \\n]"
    line = "read -p 'Name? ' x; echo hello $x; read -rs -p 'Password: ' y; echo; echo ${#y}"
    await say(toolbox, "run", caller, command=line, pty=True)
    text = await say(toolbox, "send", caller, id="p1", text="Ada", wait_s=5)
    assert text.splitlines()[0] == "[p1 waiting for input]"
    assert text.splitlines()[-1] == note
    text = await say(toolbox, "send", caller, id="p1", keys=["enter"], wait_s=5)
    assert "hello Ada" in text
    assert note not in text
    assert (await say(toolbox, "send", caller, id="p1", text="1234", wait_s=5)).endswith(note)
    text = await say(toolbox, "send", caller, id="p1", text="5\n", wait_s=5)
    assert text.startswith("[exit 0]")
    assert text.endswith("\n5")
    # A program that reads single characters has done something: nothing is missing.
    line = "while read -rsn1 x; do echo; echo key $x; done"
    await say(toolbox, "run", caller, command=line, pty=True)
    assert note not in await say(toolbox, "send", caller, id="p2", text="q", wait_s=5)
    await say(toolbox, "stop", caller, ids=["p2"], grace=0)


@pytest.mark.promise("S4.13")
async def test_wait_for_any_answers_with_the_first(toolbox: Toolbox) -> None:
    caller = a_caller()
    names = [
        short_id(await say(toolbox, "run", caller, command=command, wait_s=0))
        for command in ("sleep 100", "sleep 0.3; exit 4")
    ]
    assert names == ["p1", "p2"]
    text = await say(toolbox, "wait", caller, ids=names, mode="any")
    assert "[p1 running, " in text
    assert "[p2 exit 4]" in text
    await say(toolbox, "stop", caller, ids=["p1"])


@pytest.mark.promise("S4.13")
async def test_input_is_sent_and_its_answer_shown(toolbox: Toolbox) -> None:
    caller = a_caller()
    text = await say(toolbox, "run", caller, command="exec cat", stdin="pipe", wait_for={"idle_s": 0.2})
    assert text.startswith("[p1 waiting for input]\n[")
    assert 'send(id="p1"' in text
    text = await say(toolbox, "send", caller, id="p1", text="hello\n", wait_s=5)
    assert text.splitlines()[:2] == ["[p1 waiting for input]", "hello"]
    text = await say(
        toolbox, "send", caller, id="p1", eof=True, text="bye\n", cursor="2.0", budget=100, wait_s=5
    )
    assert text == "[exit 0]\nllo\nbye"
    assert (await say(toolbox, "wait", caller, ids=["p1"])).startswith("[p1 exit 0]\n[its output was shown")
    outcome = await answer(toolbox, "send", caller, {"id": "p1", "text": "late"})
    assert outcome.is_error


@pytest.mark.promise("S4.13")
async def test_keys_reach_a_terminal(toolbox: Toolbox) -> None:
    caller = a_caller()
    text = await say(toolbox, "run", caller, command="exec cat", pty=True, wait_for={"idle_s": 0.2})
    name = short_id(text)
    text = await say(toolbox, "send", caller, id=name, text="hi", keys=["enter"], wait_s=5)
    assert text.splitlines()[1:3] == ["hi", "hi"]
    text = await say(toolbox, "send", caller, id=name, keys=["ctrl-c"], wait_s=5)
    assert "[p1 killed by SIGINT]" in text + await say(toolbox, "wait", caller, ids=[name])


@pytest.mark.promise("S4.13")
async def test_run_can_wait_for_a_text_or_a_port(toolbox: Toolbox) -> None:
    caller = a_caller()
    line = "printf 'serv'; sleep 0.2; echo 'er is ready'; sleep 100"
    text = await say(toolbox, "run", caller, command=line, wait_for={"text": "server is ready"})
    assert re.fullmatch(r"\[p1 running, \d\.\d s, 'server is ready' came\]\nserver is ready", text), text
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    program = f"import socket, time; s = socket.create_server(('127.0.0.1', {port})); time.sleep(100)"
    text = await say(toolbox, "run", caller, argv=[sys.executable, "-c", program], wait_for={"port": port})
    assert re.fullmatch(rf"\[p2 running, \d\.\d s, port {port} is open, listens on {port}\]", text), text
    await say(toolbox, "stop", caller, ids=["p1", "p2"])


@pytest.mark.promise("S4.13", "S4.13.keys")
async def test_a_key_starts_nothing_twice_and_says_when_it_ran(toolbox: Toolbox, engine: Engine) -> None:
    caller, line = a_caller(), "echo $$; sleep 0.2"
    texts = await asyncio.gather(*(say(toolbox, "run", caller, command=line, key="k") for _ in range(3)))
    assert len({text.partition("\n")[2] for text in texts}) == 1
    headers = sorted(text.partition("\n")[0] for text in texts)
    assert headers[2] == "[exit 0]"
    for header in headers[:2]:
        assert re.fullmatch(r"\[exit 0, ran 0\.\d s ago with this key, not again\]", header), header
    assert len(await engine.queries.list(ProcessFilter(principal=caller.principal))) == 1
    number = texts[0].partition("\n")[2]
    for other, key in ((caller, "other"), (a_caller(), "k")):
        assert number not in await say(toolbox, "run", other, command=line, key=key)
    again = await say(Toolbox(engine, Settings()), "run", caller, command=line, key="k")
    assert again.endswith(f"\n{number}")
    assert " ago with this key, not again]" in again


@pytest.mark.promise("S4.13.keys")
async def test_the_result_of_a_key_that_still_runs_says_so(toolbox: Toolbox, gate: Gate) -> None:
    caller = a_caller()
    await say(toolbox, "run", caller, command=gate.wait, key="k", wait_s=0)
    text = await say(toolbox, "run", caller, command=gate.wait, key="k", wait_s=0)
    assert "started before with this key, not again]" in text
    gate.open()
    assert await say(toolbox, "wait", caller, ids=["p1"]) == "[p1 exit 0]"


@pytest.mark.promise("S4.13.keys")
@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"command": "true"}, {"command": "false"}),
        ({"command": "true"}, {"argv": ["true", "x"]}),
        ({"command": "true"}, {"script": "true"}),
        ({"script": "true"}, {"script": "true "}),
        ({"script": "true"}, {"script": "true", "interpreter": "/bin/sh"}),
        ({"argv": ["echo", "a"]}, {"argv": ["echo", "b"]}),
    ],
)
async def test_a_key_of_another_command_is_refused_and_named(
    toolbox: Toolbox, engine: Engine, first: dict[str, object], second: dict[str, object]
) -> None:
    caller = a_caller()
    await say(toolbox, "run", caller, **first, key="build")
    outcome = await answer(toolbox, "run", caller, {**second, "key": "build"})
    assert outcome.is_error
    assert "The key 'build' belongs to another command: " in outcome.text
    assert "Hint: " in outcome.text
    assert " p1" in outcome.text
    assert len(await engine.queries.list(ProcessFilter(principal=caller.principal))) == 1
    assert "with this key, not again]" in await say(toolbox, "run", caller, **first, key="build")


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
        ("run", {"command": "sudo ls", "profile": "guarded"}, "Sudo commands are not allowed"),
        ("run", {"argv": ["sudo", "ls"], "profile": "guarded"}, "allow_sudo"),
        ("run", {"script": "sudo ls", "profile": "guarded"}, "allow_sudo"),
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
    text = await say(toolbox, "run", mine, command="exec sleep 100", wait_s=0)
    started = await newest_process(engine, mine)
    for caller, name in (
        (mine, process.process_id),
        (a_caller(), short_id(text)),
        (a_caller(), started.process_id),
        (a_caller(), started.record.command_id),
    ):
        assert (await answer(toolbox, "read", caller, {"id": name})).is_error
    control = {"id": short_id(text), "action": "signal"}
    assert (await answer(toolbox, "control", mine, {**control, "signal": "NOPE"})).is_error
    await say(toolbox, "control", mine, **control, signal="int")
    assert await say(toolbox, "wait", mine, ids=[short_id(text)]) == "[p2 killed by SIGINT]"
    await engine.controls.cancel(process)


async def test_one_more_than_a_groups_limit_is_queued_until_there_is_room(
    toolbox: Toolbox, engine: Engine
) -> None:
    caller = a_caller()
    group = {"group": "lean", "group_limit": 1}
    first = short_id(await say(toolbox, "run", caller, command="sleep 1000", wait_s=0, **group))
    second = await say(toolbox, "run", caller, command="echo turn", wait_s=0, **group)
    assert second == "[p2 waits for its turn in its group]"
    await say(toolbox, "stop", caller, ids=[first], grace=0)
    assert "turn" in await say(toolbox, "wait", caller, ids=[short_id(second)]) + await say(
        toolbox, "read", caller, id=short_id(second)
    )


@pytest.mark.parametrize("tool", ["read", "run", "execute_linux_shell_command"])
async def test_output_that_the_disk_does_not_give_is_an_answer_of_the_tool(
    toolbox: Toolbox, monkeypatch: pytest.MonkeyPatch, tool: str
) -> None:
    """S4.13.answers: an error says what to do, whatever part of the call it comes from."""
    caller = a_caller()
    await answer(toolbox, "run", caller, {"command": "echo x"})
    words = {"id": "p1"}
    if tool != "read":
        words = {"command" if tool == "run" else "cmd": "echo x"}

    def refuse(*_: object, **__: object) -> None:
        raise StoreCorrupt("store_corrupt", "The disk does not give the output.")

    for name in ("read", "look"):
        monkeypatch.setattr(OutputLog, name, refuse)
    outcome = await answer(toolbox, tool, caller, words)
    assert outcome.is_error
    assert outcome.text.startswith("The disk does not give the output.\nHint: ")


@pytest.mark.promise("S1.8")
async def test_sudo_runs_in_the_profile_open_unless_the_operator_says_no(engine: Engine) -> None:
    """`doas`, `su -` and `ssh host sudo` run; a person types the password, which no model sees."""
    caller = a_caller()
    toolbox = Toolbox(engine, Settings())
    sudo = {"PATH": "/nowhere"}  # which sudo there is matters to no test
    for way in ({"command": "sudo ls"}, {"script": "sudo ls"}):
        text = await say(toolbox, "run", caller, **way, env=sudo)
        assert "sudo: " in text
    refused = Toolbox(engine, Settings(allow_sudo=False))
    await refuses(refused, "run", {"command": "sudo ls"}, named="allow_sudo")
    outcome = await answer(toolbox, "command_execute", caller, {"command": "sudo ls"})
    assert "Sudo commands are not allowed" in outcome.text


@pytest.mark.promise("S4.13")
async def test_a_list_says_that_it_is_cut_and_when_each_has_ended(toolbox: Toolbox) -> None:
    caller = a_caller()
    for _ in range(3):
        await say(toolbox, "run", caller, command="true")
    rows = (await say(toolbox, "list", caller, all=True, limit=2)).splitlines()
    assert rows[0] == "[the newest 2; limit=10 shows more]"
    assert all(re.fullmatch(r"\[p\d exit 0, \d\.\d s ago\] 'true'", row) for row in rows[1:]), rows
    assert len((await say(toolbox, "list", caller, all=True, limit=3)).splitlines()) == 3
