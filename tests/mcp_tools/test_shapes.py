"""Answers against their own output schemas, times against another time zone, script files against their
record.
"""

import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped] # it has no stubs

from outlive.config import Settings
from outlive.engine import Engine
from outlive.frontends.mcp.tools import Toolbox, runner
from outlive.store.retention import Retention
from tests.engine.engines import an_engine
from tests.keeper.house import House
from tests.mcp_tools.calling import KEYS, a_caller, answer, ask, live_process, short_id
from tests.support.processes import poll_until


def _schema(toolbox: Toolbox, name: str, key: str = "outputSchema") -> Mapping[str, Any]:
    (tool,) = [tool for tool in toolbox.definitions(a_caller()) if tool["name"] == name]
    schema = tool[key]
    assert isinstance(schema, dict)
    Draft202012Validator.check_schema(schema)
    return schema


def _fits(schema: Mapping[str, Any], answered: Mapping[str, object]) -> bool:
    return bool(Draft202012Validator(schema).is_valid(answered))


@pytest.mark.promise("S1.2", "S1.4", "S1.5", "S1.6", "S1.7")
async def test_every_answer_fits_the_output_schema_and_nothing_else_does(
    toolbox: Toolbox, engine: Engine
) -> None:
    caller = a_caller()
    line = _schema(toolbox, "command_execute")
    result = await ask(toolbox, "command_execute", caller, command="exit 1")
    running = await ask(toolbox, "command_execute", caller, command="exec sleep 100", background=True)
    refused = await ask(toolbox, "command_execute", caller, command="sudo ls")
    assert [_fits(line, one) for one in (result, running, refused)] == [True] * 3
    for key in KEYS:
        assert not _fits(line, {name: one for name, one in result.items() if name != key}), key
    assert not _fits(line, {**result, "more": 1})
    assert not _fits(line, {**result, "return_code": "1"})

    script = _schema(toolbox, "command_execute_script")
    ran = await ask(toolbox, "command_execute_script", caller, script_content="exit 1")
    refused = await ask(toolbox, "command_execute_script", caller, script_content="sudo ls")
    assert (_fits(script, ran), _fits(script, refused), _fits(script, result)) == (True, True, False)

    status = _schema(toolbox, "command_get_status")
    for command_id in (result["id"], running["id"], "cmd_1_1"):
        answered = await ask(toolbox, "command_get_status", caller, command_id=command_id)
        assert _fits(status, answered)
        assert set(answered) == ({"found", "status"} if answered["found"] else {"found", "error"})
    history = await ask(toolbox, "command_list_history", caller)
    assert _fits(_schema(toolbox, "command_list_history"), history)
    listed = await answer(toolbox, "list_processes", caller, {})
    assert listed.structured is not None
    assert listed.structured["count"] == 1
    assert _fits(_schema(toolbox, "list_processes"), listed.structured)
    # Those that have ended may still be among the live ones, until they are filed.
    (process,) = [
        one
        for one in engine.queries.live()
        if one.record.owner.principal == caller.principal and not one.status.is_ended
    ]
    await engine.controls.cancel(process)


@pytest.fixture
def far_east(monkeypatch: pytest.MonkeyPatch) -> Iterator[timedelta]:
    """A local time that differs from UTC by 13:45 h, wherever the tests run (tzset(3))."""
    monkeypatch.setenv("TZ", "FAR-13:45")
    time.tzset()
    yield timedelta(hours=13, minutes=45)
    monkeypatch.undo()
    time.tzset()


@pytest.mark.promise("W.local-time", "S4.5")
async def test_times_are_shown_as_local_ones(toolbox: Toolbox, engine: Engine, far_east: timedelta) -> None:
    caller = a_caller()
    result = await ask(
        toolbox, "command_execute", caller, command="exec sleep 100", background=True, timeout=50
    )
    process = await live_process(engine, caller)
    now = datetime.now(UTC)
    assert process.record.started_at is not None
    assert abs(process.record.started_at - now) < timedelta(minutes=1)  # UTC inside
    listed = await answer(toolbox, "list_processes", caller, {})
    assert listed.structured is not None
    rows: Any = listed.structured["processes"]
    shown = listed.text.partition("  Started: ")[2]
    for text in (result["start_time"], rows[0]["started_at"], shown):
        moment = datetime.fromisoformat(text)
        assert moment.tzinfo is None
        assert abs(moment - (now + far_east).replace(tzinfo=None)) < timedelta(minutes=1)
    await engine.controls.cancel(process)


@pytest.mark.thorough
@pytest.mark.promise("S1.4.file")
async def test_a_script_file_lives_as_long_as_its_record(shared_house: House) -> None:
    """It survives the next server, and goes with the record when that is pruned."""
    caller = a_caller()
    async with an_engine(shared_house.state_dir) as engine:
        result = await ask(
            Toolbox(engine, Settings()), "command_execute_script", caller, script_content="echo x"
        )
    path = Path(result["script_path"])
    async with an_engine(shared_house.state_dir) as engine:
        toolbox = Toolbox(engine, Settings())
        assert (await ask(toolbox, "command_get_status", caller, command_id=result["id"]))["found"] is True
        await poll_until(path.exists)
    rule = Retention(max_age_s=None, max_count=0, max_bytes=None)
    async with an_engine(shared_house.state_dir, retention=rule, retention_interval_s=0.05) as engine:
        toolbox = Toolbox(engine, Settings())
        await poll_until(lambda: not path.parent.exists())
        status = await ask(toolbox, "command_get_status", caller, command_id=result["id"])
        assert status == {"found": False, "error": f"Command with ID {result['id']} not found"}


@pytest.mark.promise("S4.12.history")
async def test_output_timeouts_tags_and_groups_are_remembered(toolbox: Toolbox) -> None:
    """Of a process that has ended, asked for by nothing but its tags."""
    caller = a_caller()
    arguments = {"tags": {"job": "nightly"}, "group": "g", "timeout": 0.3, "wait_s": 0}
    await answer(
        toolbox,
        "execute_linux_shell_command",
        caller,
        {"cmd": "seq 3; sleep 100", **arguments},
    )
    await answer(toolbox, "execute_linux_shell_command", caller, {"cmd": "true", "tags": {"job": "other"}})
    find = {"all": True, "tags": {"job": "nightly"}}
    row = (await answer(toolbox, "list", caller, find)).text
    assert row.count("\n") == 0
    name = short_id(row)
    text = (await answer(toolbox, "wait", caller, {"ids": [name]})).text
    assert text == "[p1 timed out after 0.3 s, killed]\n1\n2\n3"
    text = (await answer(toolbox, "read", caller, {"id": name, "cursor": "0"})).text
    assert text == "[timed out after 0.3 s, killed]\n1\n2\n3"


@pytest.mark.promise("S1.8", "S1.10", "M.progress", "S4.6", "S4.13")
def test_the_defaults_are_the_promised_ones() -> None:
    settings = Settings()
    assert (settings.tools_disabled, settings.scripts_disabled, settings.allow_sudo) == (False, False, None)
    assert (settings.allowed_patterns, settings.blocked_patterns) == (("*",), ())
    assert (settings.command_timeout_s, settings.max_output_bytes) == (60, 1 << 20)
    assert (settings.wait_s, settings.termination_timeout_s, settings.mcp_tools) == (45, 30, "all")
    assert runner._HEARTBEAT_S <= 60
