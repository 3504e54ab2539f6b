"""Workspaces with a real shell: what goes on, what does not, and that the command itself notices nothing."""

import asyncio
import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outlive.config import Settings
from outlive.engine import Engine, ProcessFilter
from outlive.frontends.mcp.tools import Caller, Outcome, Toolbox, workspaces
from outlive.protocols.mcp.results import parse_state
from tests.engine.engines import an_engine, output_of
from tests.keeper.house import House
from tests.mcp_tools.calling import a_caller, answer, ask
from tests.support.processes import Gate

_PRELUDE = Path(workspaces.__file__).with_name("workspace.bash")

# Everything in which a shell could tell that somebody listens at its end.
_LINES = (
    "echo out; echo err >&2",
    "exit 3",
    "set -e; false; echo never",
    "if",
    'echo "',
    "echo )",
    "cat <<X\nhere\nX",
    "cat <<X\nhere without end",
    "echo a # a comment",
    "echo a \\",
    "trap 'echo bye' EXIT; exit 4",
    "trap 'echo heard' TERM; kill -TERM $$; echo on",
    "trap 'echo err' ERR; false",
    "trap 'echo debug' DEBUG; true",
    "kill -TERM $$",
    "kill -PIPE $$",
    "kill -KILL $$",
    "exec echo replaced",
    "set -x; echo traced",
    "set -u; echo $nope",
    "set -o posix; cd /usr",
    "set -f; set -C; IFS=o; cd /usr",
    "readonly A=1; A=2; echo after",
    "printf() { echo mine; }; builtin() { echo mine; }; compgen() { echo mine; }; printf x",
    "exec 1>&- 2>&-; cd /",
    "(cd /; exit 5); echo $?",
    "echo $0 $# $- $LINENO $SHLVL $?; echo line $LINENO",
    "env | grep -v -e ^_= -e ^OUTLIVE_PROCESS_ID= | sort",
    "declare -F; alias; declare -p BASH_ENV OUTLIVE_BASH_ENV; set -o; shopt",
    "bash -c 'trap; env | grep BASH_ENV'",
    "false | true; echo ${PIPESTATUS[@]}",
    "sleep 0 & wait; jobs",
    "return 3",
    "shopt -s extdebug; trap 'exit 9' ERR; false",
    "no-such-program",
    "cd /no/such/folder",
)


async def _run(toolbox: Toolbox, caller: Caller, line: str, **arguments: object) -> str:
    outcome = await answer(toolbox, "run", caller, {"command": line, "workspace": "w", **arguments})
    assert not outcome.is_error, outcome.text
    return outcome.text


async def _output(toolbox: Toolbox, caller: Caller, line: str, **arguments: object) -> str:
    return (await _run(toolbox, caller, line, **arguments)).partition("]\n")[2]


@pytest.mark.promise("S4.13.workspace")
@pytest.mark.parametrize("line", _LINES)
async def test_a_command_does_not_notice_its_workspace(toolbox: Toolbox, engine: Engine, line: str) -> None:
    """Bytes of both streams and the end, compared with a run without one."""
    seen = []
    for extra in ({}, {"workspace": "w"}):
        caller = a_caller()
        await answer(toolbox, "run", caller, {"command": line, **extra})
        (record,) = await engine.queries.list(ProcessFilter(principal=caller.principal))
        output = await output_of(await engine.queries.find(record.process_id))
        seen.append((record.exit_code, record.exit_signal, output))
    assert seen[0] == seen[1]


@pytest.mark.promise("S4.13.workspace")
async def test_folder_and_variables_go_on(toolbox: Toolbox, tmp_path: Path) -> None:
    caller = a_caller()
    link = tmp_path / "a link"
    link.symlink_to("/usr/lib")
    value = "two\nlines = 'and' \"quotes\" \\ $HOME ü"
    await _run(
        toolbox,
        caller,
        f"cd '{link}'; export NOTE; unset HOME; x=1; f() {{ :; }}; alias g=ls",
        env={"NOTE": value},
    )
    line = (
        'pwd; echo "$OLDPWD"; printf %s "$NOTE"; echo; echo "${HOME-unset} ${x-unset}"; declare -F f; alias g'
    )
    shown = await _output(toolbox, caller, line + " 2>/dev/null; true", raw=True)
    assert shown == f"{link}\n/\n{value}\nunset unset"
    assert await _output(toolbox, caller, "cd - >/dev/null; pwd; cd - >/dev/null") == "/"
    assert await _output(toolbox, caller, "cd ..; pwd") == str(tmp_path)
    assert await _output(toolbox, caller, "echo $SHLVL") == await _output(toolbox, caller, "echo $SHLVL")
    (tmp_path / "below").mkdir()
    assert await _output(toolbox, caller, "pwd", cwd="below") == f"{tmp_path}/below"


@pytest.mark.promise("S4.13.workspace")
async def test_a_folder_that_was_removed_is_named_and_another_one_goes_on(
    toolbox: Toolbox, tmp_path: Path
) -> None:
    caller = a_caller()
    gone = tmp_path / "gone"
    gone.mkdir()
    await _run(toolbox, caller, f"cd '{gone}'; export A=1")
    gone.rmdir()
    for arguments in ({}, {"cwd": "below"}):
        outcome = await answer(toolbox, "run", caller, {"cmd": "pwd", "workspace": "w", **arguments})
        assert outcome.is_error
        assert f"The workspace 'w' is in {gone}, which was removed." in outcome.text
        assert "Pass an absolute cwd" in outcome.text
    assert await _output(toolbox, caller, "pwd; echo $A", cwd=str(tmp_path)) == f"{tmp_path}\n1"
    assert await _output(toolbox, caller, "pwd") == str(tmp_path)


@pytest.mark.promise("S4.13.workspace")
async def test_argv_scripts_and_the_command_tools_go_on_there_too(toolbox: Toolbox) -> None:
    caller = a_caller()
    result = await ask(toolbox, "command_execute", caller, command="cd /usr/lib; export A=1", workspace="w")
    assert (result["success"], result["cwd"]) == (True, None)
    await _run(toolbox, caller, f"# {'x' * 200_000}\nexport A=2")  # long enough to become a file
    await _run(toolbox, caller, "export A=1")
    for arguments in ({"argv": ["sh", "-c", "pwd; echo $A; cd /"]}, {"script": "pwd; echo $A; cd /"}):
        outcome = await answer(toolbox, "run", caller, {**arguments, "workspace": "w"})
        assert outcome.text == "[exit 0, workspace w unchanged]\n/usr/lib\n1"
    result = await ask(toolbox, "command_execute", caller, command="pwd; echo $A", workspace="w")
    assert (result["stdout"], result["cwd"]) == ("/usr/lib\n1\n", "/usr/lib")


@pytest.mark.promise("S4.13.workspace")
@pytest.mark.parametrize(
    "line",
    [
        "cd /usr; false",
        "cd /usr; exit 3",
        "cd /usr; set -e; false",
        "cd /usr; exec true",
        "cd /usr; kill -KILL $$",
        "cd /usr; kill -TERM $$",
        "cd /usr; trap : EXIT",
        "cd /usr; if",
        "(cd /usr)",
    ],
)
async def test_what_does_not_end_well_leaves_the_workspace_as_it_was(toolbox: Toolbox, line: str) -> None:
    caller = a_caller()
    text = await _run(toolbox, caller, "cd /usr/lib; export A=1")
    assert text == "[exit 0, workspace w:/usr/lib]"
    text = await _run(toolbox, caller, line)
    assert re.search(r", workspace w(:/usr/lib| unchanged)\]$", text.splitlines()[0]), text
    assert await _output(toolbox, caller, "pwd; echo $A") == "/usr/lib\n1"


@pytest.mark.promise("S4.13.workspace")
async def test_what_was_ended_leaves_the_workspace_as_it_was(toolbox: Toolbox) -> None:
    """By a timeout and by name, also when the shell says goodbye with 0."""
    caller = a_caller()
    await _run(toolbox, caller, "cd /usr/lib")
    line = "cd /usr; trap 'exit 0' TERM; while :; do sleep 0.02; done"
    text = await _run(toolbox, caller, line, timeout=0.5)
    assert text.splitlines()[0] == "[timed out after 0.5 s, killed, workspace w unchanged]"
    text = await _run(toolbox, caller, f"{line[:-4]}echo on; done", wait_for={"text": "on"})
    assert re.match(r"\[p3 running, \d\.\d s, 'on' came, workspace w\]\n", text), text
    ended = await answer(toolbox, "stop", caller, {"ids": ["p3"]})
    assert ended.text.splitlines()[0] == "[p3 stopped by you]"
    assert await _output(toolbox, caller, "pwd") == "/usr/lib"


@pytest.mark.promise("S4.13.workspace")
async def test_of_two_at_once_the_last_to_end_wins_whole(toolbox: Toolbox, gate: Gate) -> None:
    caller = a_caller()
    slow = asyncio.create_task(_run(toolbox, caller, f"echo begun; cd /usr; export A=slow; {gate.wait}"))
    await _run(toolbox, caller, "cd /etc; export A=quick B=quick", wait_for={"idle_s": 30})
    assert await _output(toolbox, caller, "pwd; echo $A $B") == "/etc\nquick quick"
    gate.open()
    await slow
    assert await _output(toolbox, caller, "pwd; echo $A ${B-unset}") == "/usr\nslow unset"


@pytest.mark.promise("S4.13.workspace")
async def test_names_and_principals_are_apart(toolbox: Toolbox) -> None:
    mine = a_caller()
    await _run(toolbox, mine, "cd /usr/lib")
    assert await _output(toolbox, mine, "pwd", workspace="other") == "/"
    assert await _output(toolbox, a_caller(), "pwd") == "/"
    assert await _output(toolbox, mine, "pwd", workspace="w") == "/usr/lib"
    for wrong in ("", "x" * 101, "a b", "x\n", "x]", "a/b"):
        assert (await answer(toolbox, "run", mine, {"command": "pwd", "workspace": wrong})).is_error


@pytest.mark.promise("S4.13.workspace")
async def test_a_folder_that_is_gone_is_said(toolbox: Toolbox, tmp_path: Path) -> None:
    caller = a_caller()
    await _run(toolbox, caller, f"mkdir {tmp_path}/x; cd {tmp_path}/x; rmdir {tmp_path}/x")
    outcome: Outcome = await answer(toolbox, "run", caller, {"command": "pwd", "workspace": "w"})
    assert outcome.is_error
    assert f"{tmp_path}/x" in outcome.text
    assert await _output(toolbox, caller, "pwd", cwd="/usr") == "/usr"


@pytest.mark.thorough
@pytest.mark.promise("S4.13.workspace")
async def test_output_cannot_damage_the_state(toolbox: Toolbox, engine: Engine) -> None:
    """Neither a flood nor what looks like the state; a file in its place that is none counts for nothing."""
    caller = a_caller()
    await _run(
        toolbox,
        caller,
        "cd /usr/lib; yes | head -c 3000000; printf '/etc\\n\\0end'; printf '/etc\\n\\0end' >&2",
    )
    assert await _output(toolbox, caller, "pwd") == "/usr/lib"
    path = "$OUTLIVE_STATE_DIR/processes/$OUTLIVE_PROCESS_ID/workspace"
    text = await _run(toolbox, caller, f"echo junk > {path}; trap : EXIT")
    assert text == "[exit 0, workspace w unchanged]"
    assert await _output(toolbox, caller, "pwd") == "/usr/lib"


@pytest.mark.promise("S4.13.workspace")
async def test_the_users_own_startup_file_is_read(toolbox: Toolbox, tmp_path: Path) -> None:
    """BASH_ENV is what the workspace uses itself: it is given back, to the shell and to those below it."""
    caller = a_caller()
    (tmp_path / "env").write_text("echo started\n")
    await _run(toolbox, caller, "true", env={"BASH_ENV": f"{tmp_path}/env"})
    assert await _output(toolbox, caller, "bash -c 'echo in'") == "started\nstarted\nin"


@pytest.mark.promise("S4.13.workspace")
async def test_many_failures_do_not_hide_the_state(shared_house: House) -> None:
    """More than one page of them, and a server in between."""
    caller = a_caller()
    async with an_engine(shared_house.state_dir) as engine:
        await _run(Toolbox(engine, Settings()), caller, "cd /usr/lib")
    async with an_engine(shared_house.state_dir) as engine:
        toolbox = Toolbox(engine, Settings())
        for _ in range(11):
            await asyncio.gather(*(_run(toolbox, caller, "cd /; exit 1") for _ in range(10)))
        assert await _output(toolbox, caller, "pwd") == "/usr/lib"


@pytest.mark.promise("S4.13.workspace")
@settings(deadline=None, max_examples=40)
@given(
    variables=st.dictionaries(
        st.from_regex(r"\AV[A-Za-z0-9_]{0,8}\Z"),
        st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=40),
        max_size=5,
    ),
    folder=st.text(
        st.characters(exclude_characters="\0/", exclude_categories=["Cs"]), min_size=1, max_size=40
    ),
)
def test_a_shell_writes_what_it_is(
    tmp_path_factory: pytest.TempPathFactory, variables: dict[str, str], folder: str
) -> None:
    """Any values and any folder's name, a trailing newline included."""
    root = tmp_path_factory.mktemp("shell")
    (root / "processes" / "p").mkdir(parents=True)
    cwd = root / f"d{folder}"
    cwd.mkdir()
    environment = {"OUTLIVE_STATE_DIR": str(root), "OUTLIVE_PROCESS_ID": "p", "BASH_ENV": str(_PRELUDE)}
    environment |= {
        "PATH": os.environ["PATH"],
        "FOLDER": str(cwd),
        "OUTLIVE_CARRIED": "",
        "OUTLIVE_REMOVED": "",
    }
    environment["GIVEN"] = "by the caller"
    values = root / "values"
    values.write_text("".join(f"export {name}={shlex.quote(value)}\n" for name, value in variables.items()))
    line = f'. {shlex.quote(str(values))}; cd "$FOLDER"; unset FOLDER'
    subprocess.run(["bash", "-c", line], env=environment, cwd="/", check=True)
    state = parse_state((root / "processes" / "p" / "workspace").read_bytes())
    assert state is not None
    assert state.cwd == str(cwd)
    # Only what differs from what the shell began with: what the caller has given is not written down.
    assert state.variables == {**variables, "FOLDER": None, "OLDPWD": "/"}
