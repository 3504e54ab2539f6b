"""A terminal of the engine's with bash: what a command gives, whatever it is."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from outlive.core.command import Command
from outlive.core.errors import CommandRefused, InvalidRequest, InvalidState, ProcessNotFound
from outlive.core.process import Owner
from outlive.engine import Engine
from outlive.engine.terminals import EngineTerminals, NewTerminal
from tests.engine.engines import ME, an_engine
from tests.keeper.house import House
from tests.terminals.shells import Desk, an_environment

_FOREIGN = r"printf '\033]133;D;3\007\033]133;A\007$ \033]133;B\007\033]133;D;9;aid=0123456789abcdef\007'"


@pytest.mark.promise("S3.6", "S3.7", "S3.7.lines")
@pytest.mark.parametrize(
    ("command", "output", "code"),
    [
        ("echo hi", "hi\n", 0),
        ("(exit 7)", "", 7),
        ("false", "", 1),
        ("kill -9 $BASHPID & wait $!", None, 137),
        ("echo a\necho b >&2\n(exit 3)", "a\nb\n", 3),
        ("cat <<'EOF'\n$HOME\n\tx\nEOF", "$HOME\n\tx\n", 0),
        ("for i in 1 2\ndo\n\techo $i\ndone", "1\n2\n", 0),
        ("printf abc", "abc", 0),
        ("echo 'é ü 😀\t!' \"it's\"", "é ü 😀\t! it's\n", 0),
        ("echo one  # two\n# three\necho four", "one\nfour\n", 0),
        (f"{_FOREIGN}; sleep 0.2; (exit 4)", "$ ", 4),
        ("echo $PS1; PS1='new> '; echo 'user@host:~$ '", None, 0),
        (")", "bash: syntax error near unexpected token `)'\n", 2),
        ("echo first\n)", "first\nbash: syntax error near unexpected token `)'\n", 2),
        ("nothing_of_that_name", "bash: nothing_of_that_name: command not found\n", 127),
        ("printf '10%%\\r100%%\\n'", "100%\n", 0),
        ("printf '\\033[31mred\\033[0m\\n'", "red\n", 0),
        ("stty -echo; echo quiet; stty echo", "quiet\n", 0),
        ("\n\necho between\n\n", "between\n", 0),
        ("echo crlf\r\necho end", "crlf\nend\n", 0),
    ],
)
async def test_a_command_gives_its_output_and_its_exit_code(
    desk: Desk, command: str, output: str | None, code: int
) -> None:
    terminal = await desk.open()
    gave = await desk.run(terminal, command)
    assert (gave.exit_code, gave.is_complete, gave.is_closed, gave.waiting) == (code, True, False, "none")
    if output is not None:
        assert gave.output == output
    again = await desk.run(terminal, "echo $?")  # and the prompt is there
    assert (again.output, again.exit_code) == (f"{code}\n", 0)


@pytest.mark.promise("S3.7", "S3.7.lines")
async def test_long_output_and_long_commands_are_whole(desk: Desk) -> None:
    terminal = await desk.open()
    gave = await desk.run(terminal, "seq 1 30000")
    assert gave.output == "".join(f"{number}\n" for number in range(1, 30_001))
    word = "word " * 20_000  # 100 KB
    gave = await desk.run(terminal, f"cat <<'EOF'\n{word}\nEOF")
    assert (gave.output, gave.exit_code) == (f"{word}\n", 0)
    script = "\n".join(f"echo line {number}" for number in range(500))
    gave = await desk.run(terminal, script)
    assert gave.output == "".join(f"line {number}\n" for number in range(500))


async def test_what_is_more_than_the_limit_keeps_head_and_tail(engine: Engine) -> None:
    host = EngineTerminals(engine, max_output_bytes=1000)
    terminal = (await host.create(NewTerminal(), ME)).terminal_id
    gave = await host.execute(terminal, "seq 1 30000", ME, wait_s=20)
    assert gave.output.startswith("1\n2\n")
    assert gave.output.endswith("\n29999\n30000\n")
    assert "bytes omitted" in gave.output
    await host.close(terminal, ME)


async def test_folder_variables_and_jobs_stay_from_one_command_to_the_next(desk: Desk) -> None:
    terminal = await desk.open()
    await desk.run(terminal, 'mkdir -p here && cd here && NAME=value && f() { echo "f $1"; }')
    gave = await desk.run(terminal, 'f "$NAME"; basename "$PWD"')
    assert gave.output == "f value\nhere\n"
    info = (await desk.host.terminals(ME))[0]
    assert info.cwd is not None
    assert info.cwd.endswith("/here")


async def test_what_runs_in_the_background_holds_nothing_up(desk: Desk) -> None:
    terminal = await desk.open()
    async with asyncio.timeout(5):
        gave = await desk.run(terminal, "sleep 100 &")
    assert gave.output.startswith("[1] ")
    assert (await desk.run(terminal, "jobs %1")).output.startswith("[1]+  Running")


@pytest.mark.promise("S3.7")
async def test_a_command_that_ends_the_shell_says_so(desk: Desk) -> None:
    terminal = await desk.open()
    gave = await desk.run(terminal, "echo bye; exit 7")
    assert (gave.is_closed, gave.is_complete, gave.exit_code) == (True, True, 7)
    assert gave.output.startswith("bye\n")
    assert not await desk.host.terminals(ME)
    with pytest.raises(InvalidState) as refused:
        await desk.run(terminal, "echo too late")
    assert refused.value.code == "process_ended"
    text = await desk.read(terminal)  # what it showed can be read all the same
    assert (text.state, text.exit_code) == ("closed", 7)
    assert "bye" in text.text


@pytest.mark.parametrize(
    "command", ['echo "abc', "echo first\nif true; then", "cat <<EOF\nno end", "echo $(("]
)
async def test_an_unfinished_command_is_taken_back_and_said(desk: Desk, command: str) -> None:
    terminal = await desk.open()
    async with asyncio.timeout(10):
        if "<<" in command:  # bash takes the end of what was typed for more to come, like every shell
            command = command.rstrip()
        with pytest.raises(InvalidRequest) as refused:
            await desk.run(terminal, command)
    assert refused.value.code == "command_incomplete"
    gave = await desk.run(terminal, "echo fine")
    assert (gave.output, gave.exit_code) == ("fine\n", 0)


async def test_what_is_typed_already_does_not_become_part_of_a_command(desk: Desk) -> None:
    terminal = await desk.open()
    await desk.type(terminal, "echo DANGER ")
    await desk.until(terminal, lambda text: "DANGER" in text.text)
    gave = await desk.run(terminal, "echo safe")
    assert gave.output == "safe\n"


async def test_a_shell_inside_the_shell_is_a_command_that_runs(desk: Desk) -> None:
    terminal = await desk.open()
    await desk.run(terminal, "export PS1 PS2")  # marks do not leave the shell with its prompts
    gave = await desk.run(terminal, "bash --norc", wait_s=0.5)
    assert not gave.is_complete
    await desk.until(terminal, lambda text: text.waiting == "input")
    with pytest.raises(InvalidState) as refused:
        await desk.run(terminal, "echo no")
    assert refused.value.code == "terminal_busy"
    await desk.type(terminal, "exit 3\n")
    text = await desk.until(terminal, lambda text: text.state == "ready")
    assert text.exit_code == 3


async def test_a_prompt_that_is_made_anew_keeps_its_marks(desk: Desk) -> None:
    terminal = await desk.open()
    for command in (
        "PROMPT_COMMAND='PS1=\"[\\$?] theme> \"'",
        "PROMPT_COMMAND=(\"${PROMPT_COMMAND[@]}\" 'echo noise of the prompt')",
        "PS1='\\w\\n$ '",
        "shopt -u promptvars",
        "set -o vi",
        "set -e; set +e",
        "trap 'true' DEBUG",
    ):
        assert (await desk.run(terminal, command)).is_complete, command
        gave = await desk.run(terminal, "echo yes; (exit 5)", wait_s=10)
        assert (gave.output, gave.exit_code) == ("yes\n", 5), command


async def test_the_users_own_start_file_is_read_first(desk: Desk, engine: Engine) -> None:
    home = engine.environment["HOME"]
    with open(f"{home}/.bashrc", "w") as file:  # noqa: ASYNC230 -- a line
        file.write("alias greet='echo hello'\nPS1='mine> '\nHISTFILE=/dev/null\n")
    terminal = await desk.open()
    assert (await desk.run(terminal, "greet")).output == "hello\n"
    assert "mine> " in (await desk.read(terminal)).text


@pytest.mark.promise("S3.6")
async def test_names_count_on_from_the_first_free_one(desk: Desk) -> None:
    names = [(await desk.opened()).terminal_name for _ in range(2)]
    named = await desk.opened(name="build")
    assert [*names, named.terminal_name] == ["MCP Terminal 1", "MCP Terminal 2", "build"]
    listed = await desk.host.terminals(ME)
    assert [one.terminal_name for one in listed] == ["MCP Terminal 1", "MCP Terminal 2", "build"]
    assert [one.target for one in listed] == ["engine"] * 3


async def test_two_commands_at_once_are_one_and_a_refusal(desk: Desk) -> None:
    terminal = await desk.open()
    first = asyncio.create_task(desk.run(terminal, "sleep 0.5; echo slept"))
    await asyncio.sleep(0)
    both = await asyncio.gather(first, desk.run(terminal, "echo other"), return_exceptions=True)
    refused = [one for one in both if isinstance(one, InvalidState)]
    assert [one.code for one in refused] == ["terminal_busy"]
    assert len(both) == 2


@pytest.mark.promise("S3.7")
async def test_a_command_that_takes_longer_goes_on_and_its_end_is_read(desk: Desk) -> None:
    terminal = await desk.open()
    gave = await desk.run(terminal, "echo begun; sleep 0.7; echo ended; (exit 6)", wait_s=0.1)
    assert (gave.is_complete, gave.exit_code, gave.waiting) == (False, None, "none")
    with pytest.raises(InvalidState) as refused:
        await desk.run(terminal, "echo no")
    assert refused.value.code == "terminal_busy"
    text = await desk.until(terminal, lambda text: text.state == "ready")
    assert text.exit_code == 6
    rest = await desk.read(terminal, cursor=gave.cursor)
    assert (gave.output + rest.text).startswith("begun\nended\n")


async def test_nothing_is_waited_for_and_the_next_command_still_comes_behind(desk: Desk) -> None:
    terminal = await desk.open()
    gave = await desk.run(terminal, "sleep 0.3", wait_s=0)
    assert not gave.is_complete
    await desk.until(terminal, lambda text: text.state == "ready")
    assert (await desk.run(terminal, "echo next")).output == "next\n"


@pytest.mark.parametrize("command", ["", " \n ", "a\x03b", "a\x1b[201~\rb", "a\0b", "\ud800"])
async def test_what_cannot_be_typed_is_refused(desk: Desk, command: str) -> None:
    terminal = await desk.open()
    with pytest.raises(InvalidRequest) as refused:
        await desk.run(terminal, command)
    assert refused.value.code == "invalid_params"


@pytest.mark.promise("S3.6")
async def test_closing_ends_the_shell_and_what_runs_in_it(desk: Desk) -> None:
    terminal = await desk.open()
    await desk.run(terminal, "(trap '' HUP; exec sleep 1000) & nohup sleep 1000 >/dev/null 2>&1 &")
    await desk.run(terminal, "sleep 1000", wait_s=0)
    process = await desk.engine.queries.find(terminal)
    async with asyncio.timeout(10):
        await desk.host.close(terminal, ME)
    assert process.status.is_complete
    assert process.record.descendants == 0
    assert not await desk.host.terminals(ME)


@pytest.mark.promise("S3.6.owner")
async def test_a_terminal_is_its_principals_alone(desk: Desk) -> None:
    terminal = await desk.open()
    other = Owner(principal="other")
    assert not await desk.host.terminals(other)
    for refused in (
        desk.host.execute(terminal, "id", other, wait_s=1),
        desk.host.read(terminal, other, budget=100),
        desk.host.write(terminal, b"id\n", other),
        desk.host.resize(terminal, 10, 10, other),
        desk.host.close(terminal, other),
    ):
        with pytest.raises(ProcessNotFound) as error:
            await refused
        assert error.value.code == "terminal_not_found"


@pytest.mark.promise("S3.8")
async def test_who_lives_in_a_sandbox_does_not_type_into_a_weaker_one(desk: Desk) -> None:
    bounded = await desk.engine.starts.start(
        Command(line="sleep 100", profile="guarded", detached=True), owner=ME
    )
    weak, strong = await desk.open(), await desk.open(profile="guarded")
    for inside in (bounded.process_id, "nobody knows"):
        by = replace(ME, inside=inside)
        for refused in (
            desk.host.execute(weak, "id", by, wait_s=5),
            desk.host.write(weak, b"id\n", by),
        ):
            with pytest.raises(CommandRefused) as error:
                await refused
            assert error.value.code == "profile_too_weak"
        assert (await desk.host.execute(strong, "echo in", by, wait_s=20)).output == "in\n"
    await desk.engine.controls.cancel(bounded, grace_s=0)


async def test_a_process_that_is_no_terminal_is_none(desk: Desk) -> None:
    process = await desk.engine.starts.start(Command(line="sleep 5", stdio="pty", detached=True), owner=ME)
    with pytest.raises(ProcessNotFound):
        await desk.run(process.process_id, "echo")
    await desk.engine.controls.cancel(process, grace_s=0)


async def test_another_engine_knows_the_terminals_and_goes_on(shared_house: House, tmp_path: Path) -> None:
    def opened() -> Engine:
        environment = an_environment(tmp_path)
        return an_engine(shared_house.state_dir, environment=environment, cwd=str(tmp_path))

    async with opened() as earlier:
        info = await Desk(earlier).opened(name="kept")
        await Desk(earlier).run(info.terminal_id, "X=5")
    async with opened() as later:
        found = Desk(later)
        assert replace(info, cwd=None) in [replace(one, cwd=None) for one in await found.host.terminals(ME)]
        assert (await found.run(info.terminal_id, "echo $X; (exit 2)")).output == "5\n"
        assert (await found.read(info.terminal_id)).exit_code == 2
        await found.host.close(info.terminal_id, ME)
