"""The command tools against a real engine: results, refusals, times, output, history."""

import asyncio
import os
import re
import signal
import stat
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from outlive.config import Settings
from outlive.core.controls import SignalProcess
from outlive.engine import Engine
from outlive.frontends.mcp.tools import Toolbox, UnknownTool
from tests.engine.engines import an_engine, settled
from tests.keeper.house import House
from tests.mcp_tools.calling import KEYS, a_caller, answer, ask, live_process, seen


@pytest.mark.promise("S1.2", "S1.3", "W.local-time")
async def test_a_result_has_exactly_the_thirteen_keys(toolbox: Toolbox) -> None:
    before = datetime.now()  # noqa: DTZ005 -- the document's times are local and naive
    result = await ask(
        toolbox, "command_execute", a_caller(), command="echo out; echo err >&2", timeout=9, cwd="/tmp"
    )
    assert list(result) == KEYS
    assert re.fullmatch(r"cmd_\d{10}_\d+", result.pop("id"))
    started = datetime.fromisoformat(result["start_time"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}", result.pop("start_time"))
    assert abs((started - before).total_seconds()) < 20
    assert 0 <= result.pop("duration") < 20
    assert result == {
        "command": "echo out; echo err >&2",
        "success": True,
        "stdout": "out\n",
        "stderr": "err\n",
        "return_code": 0,
        "error": None,
        "completed": True,
        "timeout": 9,
        "shell": True,
        "cwd": "/tmp",
    }


@pytest.mark.promise("S1.2.error", "S1.8")
async def test_a_command_that_fails_is_a_result(toolbox: Toolbox) -> None:
    result = await ask(toolbox, "command_execute", a_caller(), command="exit 3")
    assert (result["success"], result["completed"], result["return_code"]) == (False, True, 3)
    assert (result["error"], result["cwd"], result["timeout"]) == (None, None, 60)


@pytest.mark.promise("S1.2")
async def test_without_a_shell_the_words_are_the_command(toolbox: Toolbox) -> None:
    caller = a_caller()
    result = await ask(toolbox, "command_execute", caller, command="echo 'a  b' $HOME", shell=False)
    assert (result["stdout"], result["shell"]) == ("a  b $HOME\n", False)
    assert result["command"] == "echo 'a  b' $HOME"
    refused = await ask(toolbox, "command_execute", caller, command="no-such-program-here x", shell=False)
    assert list(refused) == ["success", "error", "command"]


@pytest.mark.promise("S1.2.signal")
async def test_a_kill_shows_as_minus_the_signal(toolbox: Toolbox, engine: Engine) -> None:
    caller = a_caller()
    call = asyncio.create_task(ask(toolbox, "command_execute", caller, command="exec sleep 100"))
    process = await live_process(engine, caller)
    await engine.controls.control(process, SignalProcess(signal=signal.SIGKILL))
    result = await call
    assert (result["return_code"], result["success"], result["completed"]) == (-9, False, False)
    assert result["error"] == "Command was ended by signal 9 (SIGKILL)"


@pytest.mark.promise("S1.4", "S1.4.file")
async def test_a_script_lives_in_a_private_file(toolbox: Toolbox, shared_house: House) -> None:
    caller = a_caller()
    result = await ask(
        toolbox,
        "command_execute_script",
        caller,
        script_content="import sys\nprint(sys.argv[0], 'ü')\n",
        interpreter="python3",
    )
    path = Path(result["script_path"])
    assert list(result) == [*KEYS, "script_path", "interpreter"]
    assert (result["interpreter"], result["command"]) == ("python3", f"python3 {path}")
    assert (result["stdout"], result["shell"]) == (f"{path} ü\n", True)
    assert _mode(path) == 0o700
    assert any(_mode(folder) & 0o077 == 0 for folder in path.parents)
    assert path.is_relative_to(shared_house.state_dir)
    status = await ask(toolbox, "command_get_status", caller, command_id=result["id"])
    assert (status["status"]["command"], status["status"]["shell"]) == (result["command"], True)


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.promise("S1.4")
@pytest.mark.parametrize("content", ["", "exit 4", "# " + "x" * 300_000 + "\nexit 5"])
async def test_scripts_have_any_length(toolbox: Toolbox, content: str) -> None:
    result = await ask(toolbox, "command_execute_script", a_caller(), script_content=content)
    assert result["return_code"] == int(content[-1:] or "0")
    assert result["interpreter"] == "/bin/bash"


@pytest.mark.promise("S1.5", "S1.5.running", "S1.10", "S1.10.background", "W.wait-tools")
async def test_a_command_in_the_background_can_be_asked_for(toolbox: Toolbox, engine: Engine) -> None:
    caller = a_caller()
    for arguments in ({"background": True}, {"wait_s": 0}, {"wait_s": 0.05}):
        started = await ask(toolbox, "command_execute", caller, command="echo here; sleep 100", **arguments)
        assert (started["completed"], started["error"], started["return_code"]) == (False, None, None)
        assert (started["success"], started["running"]) == (None, True)
        assert str(started["id"]) in str(started["message"])
        process = await live_process(engine, caller)
        await seen(process, "here\n")
        status = await ask(toolbox, "command_get_status", caller, command_id=started["id"])
        assert status["found"] is True
        assert list(status["status"]) == [*KEYS, "running"]
        assert status["status"]["running"] is True
        assert status["status"]["stdout"] == "here\n"
        assert status["status"]["success"] is status["status"]["completed"] is False
        assert status["status"]["return_code"] is status["status"]["error"] is None
        assert status["status"]["duration"] > 0
        await engine.controls.cancel(process, note="Ended by the test.")
        await settled(engine, process)
        status = await ask(toolbox, "command_get_status", caller, command_id=started["id"])
        ended = status["status"]
        assert list(ended) == KEYS
        assert (ended["completed"], ended["error"], ended["return_code"]) == (
            False,
            "Ended by the test.",
            -15,
        )


@pytest.mark.promise("S1.5.ids", "S4.3.official", "S1.10")
async def test_the_texts_of_background_and_long_commands_lead_to_their_output(
    toolbox: Toolbox, engine: Engine
) -> None:
    """By the id that they name, and by the pid while it is the caller's."""
    for name, more in (
        ("execute_background_linux_shell_command", {}),
        ("execute_linux_shell_command", {"background": True}),
    ):
        caller = a_caller()
        started = await answer(toolbox, name, caller, {"cmd": "echo here; exec sleep 100", **more})
        process = await live_process(engine, caller)
        await seen(process, "here\n")
        assert f"command_get_status with command_id {process.process_id}" in started.text
        pid = process.record.pid
        assert pid is not None
        words: tuple[str | int, ...] = (process.process_id, str(pid), pid)
        for word in words:
            found = await ask(toolbox, "command_get_status", caller, command_id=word)
            assert (found["status"]["stdout"], found["status"]["running"]) == ("here\n", True)
            other = await ask(toolbox, "command_get_status", a_caller(), command_id=word)
            assert other == {"found": False, "error": f"Command with ID {word} not found"}
        await engine.controls.cancel(process)
        await settled(engine, process)
        ended = await ask(toolbox, "command_get_status", caller, command_id=process.process_id)
        assert (ended["status"]["stdout"], ended["status"]["return_code"]) == ("here\n", -15)
        assert (await ask(toolbox, "command_get_status", caller, command_id=pid))["found"] is False


@pytest.mark.promise("S1.5", "S1.7")
async def test_an_unknown_id_is_not_found(toolbox: Toolbox) -> None:
    mine, other = a_caller(), a_caller()
    known = await ask(toolbox, "command_execute", mine, command="true")
    assert (await ask(toolbox, "command_get_status", mine, command_id=known["id"]))["found"] is True
    for caller, command_id in ((mine, "cmd_1_1"), (other, known["id"])):
        status = await ask(toolbox, "command_get_status", caller, command_id=command_id)
        assert status == {"found": False, "error": f"Command with ID {command_id} not found"}


@pytest.mark.promise("S1.6")
async def test_the_history_is_newest_first(toolbox: Toolbox) -> None:
    caller = a_caller()
    results = [
        await ask(toolbox, "command_execute", caller, command=f"echo {n}", cwd="/tmp" if n else None)
        for n in range(3)
    ]
    history = await ask(toolbox, "command_list_history", caller)
    keys = ("id", "command", "start_time", "cwd")
    assert history == {"count": 3, "history": [{key: one[key] for key in keys} for one in reversed(results)]}
    assert (await ask(toolbox, "command_list_history", caller, limit=1))["count"] == 1
    assert (await ask(toolbox, "command_list_history", a_caller())) == {"count": 0, "history": []}


@pytest.mark.promise("S1.3", "S4.12.restart")
async def test_ids_and_history_survive_a_restart(shared_house: House) -> None:
    caller = a_caller()
    ids: list[str] = []
    for turn in range(2):
        async with an_engine(shared_house.state_dir) as engine:
            toolbox = Toolbox(engine, Settings())
            result = await ask(toolbox, "command_execute", caller, command=f"echo {turn}")
            ids.append(result["id"])
            history = await ask(toolbox, "command_list_history", caller)
            assert [row["id"] for row in history["history"]] == ids[::-1]
            status = await ask(toolbox, "command_get_status", caller, command_id=ids[0])
            assert status["status"]["stdout"] == "0\n"
    assert len(set(ids)) == 2


@pytest.mark.promise("S1.7", "S1.8")
@pytest.mark.parametrize(
    ("settings", "command", "text"),
    [
        ({"tools_disabled": True}, "ls", "Command execution is disabled"),
        ({}, "echo a | sudo ls", "Sudo commands are not allowed"),
        ({"blocked_patterns": ("rm *",)}, "echo a; rm x", "Command matches blocked pattern: rm *"),
        ({"allowed_patterns": ("ls*",)}, "echo a", "Command does not match any allowed pattern"),
        ({"allowed_patterns": ("ls*",)}, "ls $(echo a)", "Command does not match any allowed pattern"),
    ],
)
async def test_a_refusal_has_its_literal_text(
    engine: Engine, settings: dict[str, object], command: str, text: str
) -> None:
    toolbox = Toolbox(engine, Settings(**settings))  # type: ignore[arg-type] # settings by name
    refused = await ask(toolbox, "command_execute", a_caller(), command=command)
    assert refused == {"success": False, "error": text, "command": command}
    shell = await answer(toolbox, "execute_linux_shell_command", a_caller(), {"cmd": command})
    assert shell.is_error
    assert shell.text.startswith(text)


@pytest.mark.promise("S1.7", "S1.8")
@pytest.mark.parametrize(
    ("settings", "arguments", "text"),
    [
        ({"tools_disabled": True}, {}, "Command execution is disabled"),
        ({"scripts_disabled": True}, {}, "Script execution is disabled"),
        ({}, {"interpreter": "/no/such/one"}, "Interpreter not found: /no/such/one"),
        ({}, {"script_content": "sudo ls"}, "Sudo commands are not allowed"),
    ],
)
async def test_a_script_can_be_refused(
    engine: Engine, settings: dict[str, object], arguments: dict[str, Any], text: str
) -> None:
    toolbox = Toolbox(engine, Settings(**settings))  # type: ignore[arg-type] # settings by name
    asked: dict[str, Any] = {"script_content": "echo a", **arguments}
    refused = await ask(toolbox, "command_execute_script", a_caller(), **asked)
    assert refused == {"success": False, "error": text}


@pytest.mark.promise("S1.8.output")
async def test_too_much_output_keeps_head_and_tail(engine: Engine) -> None:
    toolbox = Toolbox(engine, Settings(max_output_bytes=20))
    caller = a_caller()
    result = await ask(toolbox, "command_execute", caller, command="seq 100; seq 200 >&2")
    assert result["stdout"] == "1\n2\n3\n4\n5\n\n[... 272 bytes omitted ...]\n98\n99\n100\n"
    assert result["stderr"].endswith(" bytes omitted ...]\n\n199\n200\n") or "omitted" in result["stderr"]
    assert len(result["stdout"]) < 60
    exact = await ask(toolbox, "command_execute", caller, command="printf %020d 1")
    assert exact["stdout"] == f"{1:020d}"


@pytest.mark.promise("S1.8.clip", "S1.8.output")
async def test_an_official_client_is_shown_thirty_thousand_bytes_unless_it_asks_for_more(
    toolbox: Toolbox, engine: Engine
) -> None:
    caller, line = a_caller(), "seq 30000; seq 30000 >&2"
    short = await ask(toolbox, "command_execute", caller, command=line)
    whole = await ask(toolbox, "command_execute", caller, command=line, max_output=1 << 20)
    clipped_script = await ask(toolbox, "command_execute_script", caller, script_content=line)
    status = await ask(toolbox, "command_get_status", caller, command_id=short["id"])
    whole_status = await ask(
        toolbox, "command_get_status", caller, command_id=short["id"], max_output=200_000
    )
    numbers = "".join(f"{number}\n" for number in range(1, 30001))
    for stream in ("stdout", "stderr"):
        parts = re.split(r"\n\[\.\.\. \d+ bytes omitted; more: (.*) \.\.\.\]\n", short[stream])
        assert parts[1] == f"command_get_status with command_id {short['id']}, max_output 1048576"
        assert len(parts[0] + parts[2]) in range(29_900, 30_001)
        assert (parts[0][:2], parts[2][-7:]) == ("1\n", "\n30000\n")
        assert status["status"][stream] == short[stream]
        assert clipped_script[stream].replace(clipped_script["id"], short["id"]) == short[stream]
        assert whole[stream] == whole_status["status"][stream] == numbers
    bounded = Toolbox(engine, Settings(max_output_bytes=20))
    asked = await ask(bounded, "command_execute", caller, command="seq 100", max_output=1000)
    assert "\n[... 272 bytes omitted ...]\n" in asked["stdout"]  # no call shows more


@pytest.mark.promise("S1.8.clip", "S1.8")
async def test_a_raw_caller_is_shown_all_that_the_setting_allows(toolbox: Toolbox) -> None:
    raw = replace(a_caller(), is_raw=True)
    numbers = "".join(f"{number}\n" for number in range(1, 30001))
    result = await ask(toolbox, "command_execute", raw, command="seq 30000")
    assert result["stdout"] == numbers
    status = await ask(toolbox, "command_get_status", raw, command_id=result["id"])
    assert status["status"]["stdout"] == numbers
    shell = await answer(toolbox, "execute_linux_shell_command", raw, {"cmd": "seq 30000"})
    assert shell.text == numbers.rstrip()
    fewer = await answer(toolbox, "execute_linux_shell_command", raw, {"cmd": "seq 30000", "max_output": 20})
    assert "max_output 1048576 ...]" in fewer.text


@pytest.mark.promise("S1.9")
async def test_a_timeout_ends_the_whole_tree(toolbox: Toolbox, tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    line = f"echo before; setsid sleep 100 & echo $! > {pid_file}; trap '' TERM; sleep 100; sleep 100"
    result = await ask(toolbox, "command_execute", a_caller(), command=line, timeout=1, grace=0.3)
    assert result["error"] == "Command timed out after 1 seconds"
    assert (result["completed"], result["success"], result["stdout"]) == (False, False, "before\n")
    assert result["return_code"] == -9
    assert 1 <= result["duration"] < 10
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid_file.read_text()), 0)


@pytest.mark.thorough
@pytest.mark.promise("S1.9")
async def test_a_timeout_is_told_while_the_grace_runs(toolbox: Toolbox, engine: Engine) -> None:
    caller = a_caller()
    line = "trap '' TERM; while :; do sleep 0.1; done"
    result = await ask(toolbox, "command_execute", caller, command=line, timeout=1, wait_s=2, grace=60)
    assert result["error"] == "Command timed out after 1 seconds"
    assert (result["completed"], result["return_code"]) == (False, None)
    await engine.controls.cancel(await live_process(engine, caller), grace_s=0)


@pytest.mark.promise("S1.2")
@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({}, "command"),
        ({"command": 3}, "command"),
        ({"command": "ls", "timeout": "long"}, "timeout"),
        ({"command": "ls", "timeout": 0}, "timeout"),
        ({"command": "ls", "env": {"A": 1}}, "env"),
        ({"command": " "}, "empty"),
        ({"command": "'", "shell": False}, "command"),
        ({"command": " ", "shell": False}, "empty"),
        ({"command": "ls", "cwd": "/no/such/folder"}, "/no/such/folder"),
    ],
)
async def test_wrong_arguments_are_named(toolbox: Toolbox, arguments: dict[str, Any], named: str) -> None:
    refused = await ask(toolbox, "command_execute", a_caller(), **arguments)
    assert refused["success"] is False
    assert named in refused["error"]


async def test_wrong_arguments_of_the_questions_are_named(toolbox: Toolbox) -> None:
    """S1.5, S1.6."""
    outcome = await answer(toolbox, "command_get_status", a_caller(), {})
    assert outcome.is_error
    assert "command_id" in outcome.text
    for name, named in (("command_list_history", "limit"), ("command_execute_script", "script_content")):
        outcome = await answer(toolbox, name, a_caller(), {"limit": 0})
        assert outcome.is_error
        assert named in outcome.text


@pytest.mark.promise("S1.1", "S1.2", "S4.2")
async def test_the_documents_tools_are_described(toolbox: Toolbox) -> None:
    tools = {str(tool["name"]): tool for tool in toolbox.definitions(a_caller())}
    documents = [
        "command_execute",
        "command_execute_script",
        "command_get_status",
        "command_list_history",
        "execute_linux_shell_command",
        "execute_background_linux_shell_command",
        "terminate_process",
        "list_processes",
    ]
    assert [name for name in tools if name in documents] == documents
    for tool in tools.values():
        assert tool["title"]
        assert tool["description"]
        assert tool["inputSchema"]["type"] == "object"  # type: ignore[index] # checked by running
        assert tool["annotations"]["readOnlyHint"] in {True, False}  # type: ignore[index] # the same
    for name in documents[:4]:
        assert tools[name]["outputSchema"]["type"] == "object"  # type: ignore[index] # the same
    with pytest.raises(UnknownTool, match="nothing"):
        await toolbox.call("nothing", {}, a_caller())
