"""zsh, fish and shells without a start file of ours: the same promises in their own words."""

import asyncio
import itertools
import os

import pytest

from outlive.core.errors import InvalidRequest, InvalidState, StartFailed
from outlive.engine import Engine
from outlive.engine.terminals import NewTerminal
from outlive.engine.terminals.execution import find_terminal_shell
from tests.engine.engines import ME
from tests.terminals.shells import Desk, needs

_EXIT_7 = {"zsh": "(exit 7)", "dash": "(exit 7)", "fish": "sh -c 'exit 7'"}
_LOOP = {
    "zsh": "for i in 1 2\ndo\n\techo $i\ndone",
    "dash": "for i in 1 2\ndo\n\techo $i\ndone",
    "fish": "for i in 1 2\n\techo $i\nend",
}


@pytest.mark.promise("S3.6", "S3.7")
@pytest.mark.parametrize("shell", ["zsh", "fish", "dash"])
async def test_output_and_exit_codes_are_the_same_in_every_shell(desk: Desk, shell: str) -> None:
    terminal = await desk.open(needs(shell))
    for command, output, code in (
        ("echo hi", "hi\n", 0),
        (_EXIT_7[shell], "", 7),
        ("echo a\necho b; false", "a\nb\n", 1),
        (_LOOP[shell], "1\n2\n", 0),
        ("seq 1 30000", "".join(f"{number}\n" for number in range(1, 30_001)), 0),
        ("echo 'é ü 😀\tx!'", "é ü 😀\tx!\n", 0),
        ("printf abc", "abc", 0),
        (r"printf '\033]133;D;3\007$ \033]133;B\007'; sleep 0.2; sh -c 'exit 4'", "$ ", 4),
        ("no_such_program_here 2>/dev/null", None, 127),
    ):
        gave = await desk.run(terminal, command)
        assert (gave.exit_code, gave.is_complete) == (code, True), (command, gave)
        assert output is None or gave.output == output, command
    assert "printf abc" in (await desk.read(terminal, "screen")).text


@pytest.mark.parametrize("shell", ["zsh", "fish", "dash"])
async def test_what_a_shell_cannot_read_is_said_and_leaves_it_ready(desk: Desk, shell: str) -> None:
    terminal = await desk.open(needs(shell))
    async with asyncio.timeout(10):
        if shell == "dash":  # it is given all of it at once, and finds out itself
            gave = await desk.run(terminal, 'echo "abc')
            assert "nterminated" in gave.output
            assert gave.exit_code == 2
        else:
            with pytest.raises(InvalidRequest) as refused:
                await desk.run(terminal, 'echo "abc')
            assert refused.value.code == "command_incomplete"
        gave = await desk.run(terminal, "echo )")
    assert gave.exit_code not in {0, None}
    assert gave.output.strip()
    assert (await desk.run(terminal, "echo fine")).output == "fine\n"


@pytest.mark.parametrize(
    ("shell", "noting"),
    [("bash", "PROMPT_COMMAND+=('seen=$?')"), ("zsh", "note() { seen=$? }; precmd_functions+=(note)")],
)
async def test_what_the_user_runs_before_each_prompt_sees_the_commands_exit_code(
    desk: Desk, shell: str, noting: str
) -> None:
    terminal = await desk.open(needs(shell))
    await desk.run(terminal, noting)
    await desk.run(terminal, "(exit 5)")
    assert (await desk.run(terminal, "echo $seen")).output == "5\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "dash"])
async def test_a_shell_that_ends_at_errors_goes_on_after_what_is_none(desk: Desk, shell: str) -> None:
    """`set -e`: a condition that fails ends no shell (POSIX, sh, set), and a command that fails does."""
    terminal = await desk.open(needs(shell))
    await desk.run(terminal, "set -e")
    gave = await desk.run(terminal, "false && echo no")
    assert (gave.is_closed, gave.exit_code) == (False, 1)
    assert (await desk.run(terminal, "echo $-; if false; then :; fi")).output.count("e") == 1
    gave = await desk.run(terminal, "false")
    assert gave.is_closed


@pytest.mark.parametrize("shell", ["zsh", "fish", "dash"])
async def test_a_shell_ends_with_its_own_code(desk: Desk, shell: str) -> None:
    terminal = await desk.open(needs(shell))
    gave = await desk.run(terminal, "exit 7")
    assert (gave.is_closed, gave.exit_code) == (True, 7)


@pytest.mark.parametrize("shell", ["zsh", "fish"])
async def test_a_long_command_is_typed_whole(desk: Desk, shell: str) -> None:
    terminal = await desk.open(needs(shell))
    word = "word " * 4_000
    gave = await desk.run(terminal, f"echo '{word}'")
    assert (gave.output, gave.exit_code) == (f"{word}\n", 0)


async def test_the_users_zsh_files_are_read_from_where_they_lie(desk: Desk, engine: Engine) -> None:
    zsh = needs("zsh")
    home = engine.environment["HOME"]
    for name, line in (
        (".zshenv", f"export ZDOTDIR={home}/own"),
        ("own/.zshrc", "alias greet='echo hello'\nPROMPT='mine> '\nHISTFILE=/dev/null"),
    ):
        await asyncio.to_thread(_write, f"{home}/{name}", line)
    terminal = await desk.open(zsh)
    assert (await desk.run(terminal, "greet")).output == "hello\n"
    assert (await desk.run(terminal, "echo $ZDOTDIR")).output == f"{home}/own\n"
    assert "mine> " in (await desk.read(terminal)).text
    nested = await desk.run(terminal, "zsh -ic 'echo \"<$ZDOTDIR ${OUTLIVE_TERMINAL_KEY-unset}>\"'")
    assert nested.output == f"<{home}/own unset>\n"


async def test_the_users_fish_prompt_is_kept(desk: Desk, engine: Engine) -> None:
    fish = needs("fish")
    home = engine.environment["HOME"]
    await asyncio.to_thread(
        _write, f"{home}/.config/fish/config.fish", 'function fish_prompt; echo "[$status] mine> "; end'
    )
    terminal = await desk.open(fish)
    await desk.run(terminal, "sh -c 'exit 5'")
    assert "[5] mine> " in (await desk.read(terminal)).text


def _write(path: str, text: str) -> None:
    import pathlib  # noqa: PLC0415

    file = pathlib.Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{text}\n")


def test_the_shell_is_the_users_unless_that_is_none() -> None:
    def named(wanted: str | None, **environment: str) -> str:
        path = os.environ["PATH"]
        shell = find_terminal_shell(
            wanted, {"PATH": path, **environment}, "0123456789abcdef", fallback="/bin/bash", is_bare=False
        )
        return shell.argv[0].rpartition("/")[2]

    assert named(None, SHELL="/bin/sh") == "sh"
    assert named(None) == "bash"
    assert named(None, SHELL="/no/such/shell") == "bash"
    assert named(None, SHELL="/bin/false") == "bash"
    assert named("sh", SHELL="/bin/bash") == "sh"


async def test_a_shell_that_is_not_there_is_said(desk: Desk) -> None:
    with pytest.raises(StartFailed) as refused:
        await desk.host.create(NewTerminal(shell="no_such_shell"), ME)  # noqa: S604 -- a name
    assert refused.value.code == "not_found"


async def test_a_shell_that_ends_at_once_is_no_terminal(desk: Desk) -> None:
    with pytest.raises(StartFailed) as refused:
        await desk.host.create(NewTerminal(shell="true"), ME)  # noqa: S604 -- a name
    assert refused.value.code == "start_failed"
    assert not await desk.host.terminals(ME)


async def test_a_users_start_file_that_asks_is_handed_over_busy(
    desk: Desk, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("outlive.engine.terminals.host._READY_S", 0.3)
    await asyncio.to_thread(_write, f"{engine.environment['HOME']}/.bashrc", "read -p 'Which one? ' ANSWER")
    info = await desk.host.create(NewTerminal(), ME)
    assert info.state == "busy"
    await desk.until(info.terminal_id, lambda text: text.waiting == "input")
    await desk.type(info.terminal_id, "this\n")
    await desk.until(info.terminal_id, lambda text: text.state == "ready")
    assert (await desk.run(info.terminal_id, "echo $ANSWER")).output == "this\n"


@pytest.mark.parametrize(
    ("shell", "how"),
    [
        *itertools.product(("bash", "zsh", "fish"), ("another shell in its place", "other prompts")),
        ("bash", "much output of a job"),  # behind which zsh and fish show their prompts again
    ],
)
async def test_marks_that_are_gone_are_said_and_set_anew(desk: Desk, shell: str, how: str) -> None:
    bare = {"bash": "bash --norc", "zsh": "zsh -f", "fish": "fish --no-config"}[shell]
    loses = {
        "another shell in its place": f"exec {bare}",
        "other prompts": {
            "bash": "unset PROMPT_COMMAND PS0; PS1='$ '",
            "zsh": "precmd_functions=() preexec_functions=() PROMPT='$ '",
            "fish": "functions -e fish_prompt __outlive_ended __outlive_begun",
        }[shell],
        "much output of a job": "sh -c 'sleep 0.3; seq 20000' &",
    }[how]
    terminal = await desk.open(needs(shell))
    await desk.run(terminal, loses, wait_s=0.2)
    await desk.until(terminal, lambda text: text.state == "unknown")
    (info,) = await desk.host.terminals(ME)
    assert info.state == "unknown"
    for _ in range(2):
        gave = await desk.run(terminal, "echo yes; sh -c 'exit 5'")
        assert (gave.output, gave.exit_code) == ("yes\n", 5)
    assert (await desk.read(terminal)).state == "ready"


async def test_another_shell_in_its_place_is_said_and_not_typed_to(desk: Desk) -> None:
    needs("zsh")
    terminal = await desk.open("bash")
    await desk.run(terminal, "exec zsh -f", wait_s=0.2)
    await desk.until(terminal, lambda text: text.state == "unknown")
    with pytest.raises(InvalidState, match="another shell than bash"):
        await desk.run(terminal, "echo no")
    assert "echo no" not in (await desk.read(terminal)).text
