"""Starting commands: what they see, what is remembered of them, what is refused."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from outlive.config import all_options, resolve
from outlive.core.command import Command
from outlive.core.cursor import BEGINNING, Cursor
from outlive.core.errors import CommandRefused, InvalidRequest, OutliveError, ProcessNotFound, StartFailed
from outlive.core.identity import RANDOM_BYTES, ProcessId, new_process_id
from outlive.core.lifecycle import Cause, State
from outlive.core.process import Owner
from outlive.engine import Engine, ProcessFilter
from outlive.engine.settings import engine_settings
from outlive.policy.patterns import AllowedCommands
from outlive.policy.redaction import Redactor
from tests.engine.engines import ME, an_engine, output_of, run, settled
from tests.keeper.house import House


async def test_a_command_runs_and_is_remembered(engine: Engine) -> None:
    owner = Owner(principal="me", connection_id="c9", request_id="7")
    process = await run(engine, "echo out; echo err >&2; exit 3", owner=owner, tags={"a": "1"}, group="g")
    assert await output_of(process) == (b"out\n", b"err\n")
    record = process.record
    assert (record.state, record.exit_code, record.exit_signal, record.error) == (State.EXITED, 3, None, None)
    assert (record.is_complete, record.is_closed, record.cursor) == (True, True, Cursor(4, 4))
    assert record.ended_at is not None
    assert record.started_at is not None
    assert record.created_at <= record.started_at <= record.ended_at
    await settled(engine, process)
    again = await engine.queries.find(process.process_id)
    assert again is not process
    assert again.record == record
    assert await engine.queries.read(again, BEGINNING) == await engine.queries.read(process, BEGINNING)
    wanted = ProcessFilter(tags={"a": "1"}, group="g", connection_id="c9", request_id="7")
    assert (await engine.queries.find_by(wanted)).process_id == process.process_id


async def test_a_line_of_megabytes_runs_from_a_script_file(engine: Engine) -> None:
    """A command of any length: a 3 MB line must not meet E2BIG."""
    process = await run(engine, "echo begin; : " + "y" * 3_000_000 + "\necho end")
    assert await output_of(process) == (b"begin\nend\n", b"")
    assert len(process.record.command) < 2000
    assert process.record.command.startswith("echo begin")


async def test_a_line_that_looks_like_an_option_is_a_command(engine: Engine) -> None:
    process = await run(engine, "-x")
    assert process.record.exit_code == 127


async def test_a_script_lies_in_its_processs_folder(engine: Engine) -> None:
    """S1.4: a file that only its owner may read, write and execute, kept with the record."""
    process = await engine.starts.start(Command(argv=("/bin/sh", "-e"), script="echo $0 ü\n"), owner=ME)
    await engine.queries.wait(process)
    path = Path(f"{process.folder}/script")
    assert await output_of(process) == (f"{path} ü\n".encode(), b"")
    assert process.record.command == f"/bin/sh -e {path}"
    assert os.stat(path).st_mode & 0o777 == 0o700
    for wrong in (Command(script="x"), Command(line="x", script="x"), Command(argv=("sh",), script="\0")):
        with pytest.raises(InvalidRequest):
            await engine.starts.start(wrong, owner=ME)
    titled = await engine.starts.start(Command(argv=("/bin/sh",), script="", title="mine"), owner=ME)
    await engine.queries.wait(titled)
    assert (titled.record.command, titled.record.exit_code) == ("mine", 0)


async def test_argv_is_found_in_the_path_of_the_command(engine: Engine, tmp_path: Path) -> None:
    program = tmp_path / "hello-there"
    program.write_text('#!/bin/sh\necho "$0|$*"\n')
    program.chmod(0o755)
    for argv, cwd in ((("hello-there", "a b"), None), (("./hello-there", "a b"), str(tmp_path))):
        process = await engine.starts.start(
            Command(argv=argv, cwd=cwd, env={"PATH": str(tmp_path)}), owner=ME
        )
        await engine.queries.wait(process)
        assert (await output_of(process))[0].endswith(b"hello-there|a b\n")
        assert process.record.shell is None


async def test_a_command_sees_a_clean_environment(shared_house: House) -> None:
    """No secret of the server's environment reaches a process."""
    environment = {
        "PATH": os.environ["PATH"],
        "MCP_API_KEY": "secret",
        "OUTLIVE_ADMIN_TOKEN": "secret",
        "KEPT": "1",
        "REMOVED": "1",
    }
    async with an_engine(shared_house.state_dir, environment=environment) as engine:
        process = await run(engine, "env", env={"REMOVED": None, "ADDED": "ü", "OUTLIVE_PROCESS_ID": "fake"})
        lines = set((await output_of(process))[0].decode().splitlines())
    assert "secret" not in str(lines)
    assert {"KEPT=1", "ADDED=ü", f"OUTLIVE_PROCESS_ID={process.process_id}"} <= lines
    assert f"OUTLIVE_STATE_DIR={shared_house.state_dir}" in lines
    assert "REMOVED=1" not in lines


_OF_THE_SERVER = (
    *(name for option in all_options() for name in option.env),
    "RAY_AUTH_TOKEN",
    "RAY_TLS_SERVER_KEY",
    "OTEL_EXPORTER_OTLP_HEADERS",
    "OTEL_SERVICE_NAME",
    "OUTLIVE_NODE_TOKEN_FAR",
)


@pytest.mark.parametrize(
    "members",
    [
        {"line": "env"},
        {"argv": ("env",)},
        {"line": "env", "env": {"ADDED": "1"}},
        {"line": "env", "stdio": "pty"},
        {"line": "env", "profile": "guarded"},
        {"line": "true | env | tail -n 1000", "keeps_unfiltered": True},
        {"line": "env", "caller_env": {"PATH": os.environ["PATH"]}},  # MCP's relay, services
    ],
)
async def test_no_variable_of_the_servers_own_settings_reaches_a_command(
    shared_house: House, members: dict[str, Any]
) -> None:
    """Whatever an option reads is dropped, whatever it is called; the folder is given anew."""
    resolution = resolve({}, {"HOME": "/"}, working_folder="/", files=())
    settings = engine_settings(
        resolution.settings,
        str(shared_house.state_dir),
        environment={**os.environ, "KEPT": "1", **dict.fromkeys(_OF_THE_SERVER, "the-servers")},
        working_folder="/",
        redactor=Redactor(),
    )
    async with an_engine(shared_house.state_dir, environment=settings.environment) as engine:
        process = await engine.starts.start(Command(**members), owner=ME)
        await engine.queries.wait(process)
        lines = set((await output_of(process))[0].decode().split())
        assert "the-servers" not in str(lines)
        assert f"OUTLIVE_STATE_DIR={shared_house.state_dir}" in lines
        assert f"OUTLIVE_PROCESS_ID={process.process_id}" in lines
        assert ("KEPT=1" in lines) == ("caller_env" not in members and "profile" not in members)
        # What a caller sends along is the caller's, whatever it is called.
        sent = {"RAY_AUTH_TOKEN": "the-callers", "OUTLIVE_NOTIFY_WEBHOOK": "the-callers"}
        where = "caller_env" if "caller_env" in members else "env"
        mine = {**members, where: {**members.get(where, {}), **sent}}
        process = await engine.starts.start(Command(**mine), owner=ME)
        await engine.queries.wait(process)
        lines = set((await output_of(process))[0].decode().split())
        assert {f"{name}=the-callers" for name in sent} <= lines


async def test_a_terminal_has_a_size_and_a_kind(engine: Engine) -> None:
    process = await run(engine, "stty size; echo $TERM", stdio="pty", rows=40, cols=100)
    assert await output_of(process) == (b"40 100\r\nxterm-256color\r\n", b"")


async def test_relative_folders_begin_in_the_default_one(shared_house: House, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    async with an_engine(shared_house.state_dir, cwd=str(tmp_path)) as engine:
        assert await output_of(await run(engine, "pwd", cwd="sub")) == (f"{tmp_path}/sub\n".encode(), b"")
        assert await output_of(await run(engine, "pwd")) == (f"{tmp_path}\n".encode(), b"")


@pytest.mark.parametrize(
    ("command", "slug"),
    [
        (Command(line="  "), "invalid_params"),
        (Command(), "invalid_params"),
        (Command(line="x", argv=("x",)), "invalid_params"),
        (Command(argv=()), "invalid_params"),
        (Command(argv=("",)), "invalid_params"),
        (Command(line="a\0b"), "invalid_params"),
        (Command(argv=("a", "\ud800")), "invalid_params"),
        (Command(line="x", env={"A=B": "c"}), "invalid_params"),
        (Command(line="x", env={"A": "\0"}), "invalid_params"),
        (Command(argv=("x", "a" * 131_072)), "argument_too_long"),
        (Command(argv=("x", "ü" * 65_536)), "argument_too_long"),
        (Command(line="x", env={"A": "b" * 131_070}), "argument_too_long"),
        (Command(line="x", cwd="/nowhere"), "cwd_missing"),
        (Command(line="x", cwd="/etc/passwd"), "cwd_missing"),
        (Command(argv=("no-such-program",)), "not_found"),
        (Command(argv=("/no/such/program",)), "not_found"),
        (Command(argv=("/etc/passwd",)), "permission_denied"),
        (Command(argv=("/etc",)), "permission_denied"),
    ],
)
async def test_what_cannot_run_is_refused_before_the_keeper_is_asked(
    engine: Engine, command: Command, slug: str
) -> None:
    before = set(engine.queries.live())
    with pytest.raises(OutliveError) as caught:
        await engine.starts.start(command, owner=ME)
    assert caught.value.code == slug
    assert caught.value.hint
    assert set(engine.queries.live()) <= before


async def test_the_longest_word_the_system_takes_runs(engine: Engine) -> None:
    process = await engine.starts.start(Command(argv=("printf", "%s", "a" * 131_071)), owner=ME)
    await engine.queries.wait(process)
    assert process.status.stdout_bytes == 131_071


async def test_a_start_that_the_kernel_refuses_is_remembered_as_failed(
    engine: Engine, tmp_path: Path
) -> None:
    """A file without an interpreter line passes every check but execve's."""
    program = tmp_path / "nonsense"
    program.write_bytes(b"\x7fELFnonsense")
    program.chmod(0o755)
    with pytest.raises(StartFailed) as caught:
        await engine.starts.start(Command(argv=(str(program),)), owner=ME)
    assert caught.value.code == "start_failed"
    [record] = await engine.queries.list(limit=1)
    assert (record.state, record.error, record.exit_code) == (
        State.FAILED_TO_START,
        caught.value.message,
        None,
    )
    assert (record.is_complete, record.is_closed) == (True, True)


async def test_a_start_repeated_with_the_same_id_starts_nothing_twice(engine: Engine) -> None:
    process_id = new_process_id(1_700_000_000 * 10**9, os.urandom(RANDOM_BYTES))
    first = await engine.starts.start(Command(line="sleep 0.1; echo x"), owner=ME, process_id=process_id)
    assert await engine.starts.start(Command(line="echo y"), owner=ME, process_id=process_id) is first
    await engine.queries.wait(first)
    assert await output_of(first) == (b"x\n", b"")
    with pytest.raises(InvalidRequest):
        await engine.starts.start(Command(line="x"), owner=ME, process_id=ProcessId("../../etc"))


async def test_command_ids_are_unique_across_restarts(own_house: House) -> None:
    """S1.3: `cmd_<unix seconds>_<counter>`, unique for ever."""
    names = []
    for _ in range(2):
        async with an_engine(own_house.state_dir) as engine:
            processes = [await engine.starts.start(Command(line="true"), owner=ME) for _ in range(3)]
            names += [process.record.command_id for process in processes]
            found = await engine.queries.find_by(ProcessFilter(command_id=names[-1]))
            assert found.process_id == processes[-1].process_id
    assert len(set(names)) == 6
    numbers = [int(str(name).split("_")[2]) for name in names]
    assert numbers == sorted(numbers)


async def test_a_cancelled_start_leaves_a_process_that_its_connection_finds(engine: Engine) -> None:
    owner = Owner(principal="me", connection_id="gone")
    task = asyncio.create_task(engine.starts.start(Command(line="echo x; sleep 1000"), owner=owner))
    while not engine.connections.live_of("gone"):  # noqa: ASYNC110 - until the keeper was asked
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    [process] = engine.connections.live_of("gone")
    await engine.controls.cancel(process)
    async with asyncio.timeout(15):
        await engine.queries.wait(process)
    assert process.record.cause is Cause.CANCEL


async def test_nobody_is_found_under_a_foreign_name(engine: Engine) -> None:
    for name in ("", "../registry.db", new_process_id(1, bytes(RANDOM_BYTES))):
        with pytest.raises(ProcessNotFound):
            await engine.queries.find(name)
    with pytest.raises(ProcessNotFound):
        await engine.queries.find_by(ProcessFilter(command_id="cmd_0_0"))


async def test_many_short_commands_at_once(engine: Engine) -> None:
    owner = Owner(principal="me", connection_id="many")
    processes = await asyncio.gather(
        *[run(engine, f"echo {number}; exit {number % 256}", owner=owner) for number in range(120)]
    )
    for number, process in enumerate(processes):
        assert process.record.exit_code == number % 256
        assert await output_of(process) == (b"%d\n" % number, b"")
    await asyncio.gather(*[settled(engine, process) for process in processes])
    ended = await engine.queries.list(ProcessFilter(connection_id="many"), limit=1000)
    assert [one.process_id for one in reversed(ended)] == sorted(process.process_id for process in processes)
    page = await engine.queries.list(ProcessFilter(connection_id="many"), limit=100)
    rest = await engine.queries.list(
        ProcessFilter(connection_id="many", before=page[-1].process_id), limit=100
    )
    assert len(page) + len(rest) == 120


async def test_the_operators_list_holds_for_every_door(shared_house: House) -> None:
    """S0.12: asked by whomever."""
    async with an_engine(shared_house.state_dir, allowed_commands=AllowedCommands.parse("echo")) as strict:
        with pytest.raises(CommandRefused) as refused:
            await strict.starts.start(Command(line="echo x; id"), owner=ME)
        assert refused.value.code == "command_not_allowed"
        assert await output_of(await run(strict, "echo x")) == (b"x\n", b"")


async def test_a_profile_that_is_not_there_is_refused(engine: Engine) -> None:
    """Running without the sandbox that was asked for would be a lie."""
    with pytest.raises(InvalidRequest, match="locked"):
        await engine.starts.start(Command(line="echo x", profile="locked"), owner=ME)
