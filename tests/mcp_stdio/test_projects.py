"""Several hosts on one server, each by a relay of its own: each works in its own project, and its environment
is on no disk.
"""

import contextlib
import re
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.mcp_http.raw_caller import RawCaller
from tests.mcp_stdio.hosting import Host, hosting, modern
from tests.support.fixtures import ServerFactory
from tests.support.processes import Gate
from tests.support.server import OutliveServer, run_outlive

_LEAN = ("--mcp-tools", "lean")


@contextlib.contextmanager
def _host(state_dir: Path, folder: Path, *options: str, **env: str) -> Iterator[Host]:
    """Start a host that works in `folder`, past its handshake."""
    folder.mkdir(parents=True, exist_ok=True)
    with hosting(state_dir, env, folder=folder, options=options) as host:
        host.begin()
        yield host


@dataclass(frozen=True, slots=True)
class _Pair:
    """Two hosts in folders of their own, on one server."""

    one: Host
    two: Host
    one_folder: Path
    two_folder: Path


@pytest.fixture
def pair(server: OutliveServer, tmp_path: Path) -> Iterator[_Pair]:
    """Two hosts that know nothing of each other; each has a variable that only it has."""
    one, two = tmp_path / "one", tmp_path / "two"
    with (
        _host(server.state_dir, one, *_LEAN, ONLY_ONE="1 ü", WHICH="one") as first,
        _host(server.state_dir, two, ONLY_TWO="2", WHICH="two") as second,
    ):
        yield _Pair(first, second, one, two)


def _tools(host: Host) -> set[str]:
    host.send("tools/list", "list")
    return {tool["name"] for tool in host.answer("list")["result"]["tools"]}


@pytest.mark.promise("S4.13.project")
def test_each_host_has_its_own_folder_environment_and_tools(pair: _Pair) -> None:
    line = 'pwd; echo "${ONLY_ONE-unset} ${ONLY_TWO-unset} $WHICH"'
    assert pair.one.ask("run", command=line) == f"[exit 0]\n{pair.one_folder}\n1 ü unset one"
    assert pair.two.ask("run", command=line) == f"[exit 0]\n{pair.two_folder}\nunset 2 two"
    # The documents' tools and revision 2026-07-28, which has no sessions, alike.
    assert pair.two.ask("execute_linux_shell_command", cmd=line) == f"{pair.two_folder}\nunset 2 two"
    pair.one.send("tools/call", "m", **modern(name="run", arguments={"command": line}))
    assert pair.one.text("m") == f"[exit 0]\n{pair.one_folder}\n1 ü unset one"
    # What a call says itself counts.
    said = {"cwd": "/usr", "env": {"WHICH": "call"}}
    assert pair.one.ask("run", command=line, **said) == "[exit 0]\n/usr\n1 ü unset call"
    assert _tools(pair.one) == {"run", "read", "wait", "send", "stop", "control", "list"}
    assert {"run", "command_execute", "terminal_create"} <= _tools(pair.two)
    pair.one.call("other", "execute_linux_shell_command", cmd="echo no")
    assert "There is no tool" in pair.one.answer("other")["error"]["message"]


@pytest.mark.promise("S4.13.project", "S4.13.keys", "S4.13.workspace")
def test_keys_workspaces_short_ids_and_lists_are_a_projects_own(pair: _Pair, gate: Gate) -> None:
    for host, name in ((pair.one, "one"), (pair.two, "two")):
        assert host.ask("run", command="echo $WHICH", key="build") == f"[exit 0]\n{name}"
        text = host.ask("run", command=f"export BROUGHT={name}; cd /usr/lib", workspace="main")
        assert text == "[exit 0, workspace main:/usr/lib]"
        assert host.ask("run", command=gate.wait, wait_s=0).startswith("[p3 running, ")
    for host, name in ((pair.one, "one"), (pair.two, "two")):
        again = host.ask("run", command="echo $WHICH", key="build")
        assert re.fullmatch(rf"\[exit 0, ran \d+(\.\d)? s ago with this key, not again\]\n{name}", again)
        assert f"\n/usr/lib\n{name} {name}" in host.ask(
            "run", command='pwd; echo "$BROUGHT $WHICH"', workspace="main"
        )
        assert host.ask("read", id="p1", cursor="0") == f"[exit 0]\n{name}"
        listed = host.ask("list", all=True).splitlines()
        assert [row.split()[0] for row in listed] == ["[p4", "[p3", "[p2", "[p1"]
    pair.two.ask("run", command="export BROUGHT=changed; cd /", workspace="main")
    assert "\n/usr/lib\none" in pair.one.ask("run", command="pwd; echo $BROUGHT", workspace="main")
    assert "has the id 'p9'" in pair.one.ask("read", id="p9")
    # The documents' list is the principal's.
    assert pair.two.ask("list_processes").count(gate.wait) >= 2
    assert pair.one.ask("stop", ids=["p3"]) == "[p3 stopped by you]"
    assert pair.two.ask("list").startswith("[p3 running, ")
    assert pair.two.ask("stop", ids=["p3"]) == "[p3 stopped by you]"


@pytest.mark.promise("S4.13.project")
def test_two_folders_of_one_repository_are_one_project(server: OutliveServer, tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    (repository / ".git").mkdir(parents=True)
    with (
        _host(server.state_dir, repository / "a", *_LEAN, WHICH="a") as one,
        _host(server.state_dir, repository / "b" / "deep", *_LEAN, WHICH="b") as two,
        _host(server.state_dir, tmp_path / "beside", *_LEAN, WHICH="c") as other,
    ):
        assert one.ask("run", command="pwd; echo $WHICH", key="k") == f"[exit 0]\n{repository}/a\na"
        assert f"\n{repository}/a\na" in two.ask("run", command="pwd; echo $WHICH", key="k")
        assert two.ask("run", command="pwd; echo $WHICH") == f"[exit 0]\n{repository}/b/deep\nb"
        assert two.ask("read", id="p1", cursor="0") == f"[exit 0]\n{repository}/a\na"
        assert one.ask("read", id="p2") == f"[exit 0]\n{repository}/b/deep\nb"
        assert other.ask("list", all=True).startswith("[no processes; ")
        # A workspace carries what it has brought, not the environment of the host that used it last.
        one.ask("run", command="export BROUGHT=x; cd ..", workspace="w")
        text = two.ask("run", command='pwd; echo "$BROUGHT $WHICH"', workspace="w")
        assert text == f"[exit 0, workspace w:{repository}]\n{repository}\nx b"


@pytest.mark.promise("S4.13.shown", "S4.13.project")
def test_two_hosts_in_one_project_are_each_shown_everything_also_without_sessions(
    server: OutliveServer, tmp_path: Path
) -> None:
    """In 2026-07-28 nothing but the relay tells them apart; both send the same folder and environment."""
    folder = tmp_path / "project"

    def read(host: Host) -> str:
        host.send("tools/call", "read", **modern(name="read", arguments={"id": "p1"}))
        return host.text("read")

    with _host(server.state_dir, folder, *_LEAN) as one, _host(server.state_dir, folder, *_LEAN) as two:
        one.send("tools/call", "run", **modern(name="run", arguments={"command": "echo once"}))
        assert one.text("run") == "[exit 0]\nonce"
        assert "shown before" in read(one)
        assert read(two).endswith("\nonce")
        assert "shown before" in read(two)


@pytest.mark.promise("S4.13.project")
def test_the_relays_own_options_choose_folder_and_tools(server: OutliveServer, tmp_path: Path) -> None:
    (tmp_path / "chosen").mkdir()
    options = (*_LEAN, "--cwd", str(tmp_path / "chosen"))
    with _host(server.state_dir, tmp_path / "own", *options) as host:
        assert host.ask("run", command="pwd") == f"[exit 0]\n{tmp_path}/chosen"


@pytest.mark.thorough
@pytest.mark.promise("S4.13.project")
def test_after_a_kill_of_the_server_the_relay_sends_the_project_again_and_no_short_id_comes_twice(
    own_server: OutliveServer, tmp_path: Path
) -> None:
    """Killed right after the answer of a start: what the server had not yet committed is not given out
    again.
    """
    folder = tmp_path / "project"
    names = []
    with _host(own_server.state_dir, folder, *_LEAN, WHICH="mine") as host:
        host.ask("run", command="export BROUGHT=x; cd /usr/lib", workspace="w")
        for turn in range(4):
            text = host.ask("run", command=f"echo {turn} >>log; pwd; echo $WHICH", key=f"k{turn}")
            assert text == f"[exit 0]\n{folder}\nmine"
            started = host.ask("run", command="sleep 300", wait_s=0)
            own_server.restart()
            found = re.match(r"\[(p\d+) running, ", started)
            assert found is not None, started
            names.append(found[1])
            again = host.ask("run", command=f"echo {turn} >>log; pwd; echo $WHICH", key=f"k{turn}")
            assert "with this key, not again]" in again
        assert (folder / "log").read_text() == "0\n1\n2\n3\n"
        assert names == ["p3", "p5", "p7", "p9"]
        listed = host.ask("list", all=True)
        assert len(re.findall(r"^\[p\d+ ", listed, re.MULTILINE)) == len(listed.splitlines()) == 9
        assert "\n/usr/lib\nx mine" in host.ask("run", command='pwd; echo "$BROUGHT $WHICH"', workspace="w")
        assert host.ask("stop", ids=names, grace=0) == "\n".join(f"[{name} stopped by you]" for name in names)


def _found_in(folder: Path, needles: list[bytes]) -> list[str]:
    """Return the files below a folder in which one of the needles stands."""
    found = []
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            data = path.read_bytes()
            found += [
                f"{path.relative_to(folder)}: {needle.decode()}" for needle in needles if needle in data
            ]
    return found


@pytest.mark.thorough
@pytest.mark.promise("S4.13.project")
def test_the_environment_of_a_host_stands_in_no_file(
    serve: ServerFactory, gate: Gate, tmp_path: Path
) -> None:
    """Neither while commands run nor after their end, in no log, and not after a kill of the server
    either.
    """
    server = serve("--log-level", "debug")
    value, name = f"value-{uuid.uuid4().hex}", f"NAME_{uuid.uuid4().hex}"
    needles = [value.encode(), name.encode()]
    line = f"test ${{#{name}}} = {len(value)} && echo has".replace(name, "X")  # the line itself names nothing
    with _host(server.state_dir, tmp_path / "project", *_LEAN, **{name: value, "X": value}) as host:
        assert _found_in(server.state_dir, needles) == []
        for more in (
            {"command": line},
            {"script": line},
            {"argv": ["sh", "-c", line]},
            {"command": line, "pty": True},
            {"command": line, "workspace": "w"},
            {"command": f"export OTHER=1; {line}", "workspace": "w"},
            {"script": line, "workspace": "w"},
            {"command": line, "key": "k"},
            {"command": line, "env": {"OTHER": "2"}, "env_secrets": {"MORE": "quite-secret"}},
        ):
            assert host.ask("run", **more).endswith("\nhas"), more
        group = {"group": "g", "group_limit": 1}
        waits = f"{gate.wait}; {line}"
        assert host.ask("run", command=waits, wait_s=0, **group).startswith("[p10 running, ")
        assert host.ask("run", command=waits, wait_s=0, **group).startswith("[p11 waits for its turn")
        assert _found_in(server.state_dir, needles) == []
        gate.open()
        assert host.ask("wait", ids=["p10", "p11"]) == "[p10 exit 0]\nhas\n[p11 exit 0]\nhas"
        gate.path.unlink()
        host.ask("run", command=waits, wait_s=0, workspace="w")
        server.kill()
        assert _found_in(server.state_dir, needles) == []
        server.start()
        assert host.ask("run", command=line).endswith("\nhas")
        gate.open()
        assert host.ask("wait", ids=["p12"]).endswith("\nhas")
        assert host.ask("run", command=line, workspace="w").endswith("\nhas")
        assert _found_in(server.state_dir, needles) == []
        assert "X" in host.ask("run", command="env")  # it is an ordinary variable of the command
        for needle in needles:
            assert needle not in server.stderr_file.read_bytes()
            assert needle.decode() not in run_outlive("audit", state_dir=server.state_dir).stdout
    server.stop()
    found = _found_in(server.state_dir, needles)
    # The output of `env` itself is the command's own.
    assert all(re.match(r"processes/\w+/out: ", one) for one in found), found


@pytest.mark.thorough
@pytest.mark.promise("S4.13.project")
def test_a_hosts_start_up_file_for_bash_is_read_and_stands_in_no_file(
    server: OutliveServer, tmp_path: Path
) -> None:
    """What outlive has bash read before a line takes the variable's place meanwhile."""
    value = f"value-{uuid.uuid4().hex}"
    (tmp_path / value).write_text("BEGUN=yes\n")
    line = f"test ${{#BASH_ENV}} = {len(str(tmp_path / value))} && bash -c 'echo begun $BEGUN'"
    with _host(server.state_dir, tmp_path / "project", *_LEAN, BASH_ENV=str(tmp_path / value)) as host:
        for number, more in enumerate(
            (
                {"command": line},
                {"command": "echo begun $BEGUN | tail -n 1"},
                {"command": f"cd /; {line}", "workspace": "w"},
            )
        ):
            assert "\nbegun yes" in host.ask("run", **more), more
            # Also for a host that has another one, or none.
            assert _found_in(server.state_dir, [value.encode()]) == [], number
    with _host(server.state_dir, tmp_path / "project", *_LEAN) as other:
        assert "\n/\nunset" in other.ask("run", command='pwd; echo "${BASH_ENV-unset}"', workspace="w")


@pytest.mark.thorough
@pytest.mark.promise("S4.13.project")
def test_a_start_that_waits_in_its_group_while_the_server_is_killed_is_told_truly(
    own_server: OutliveServer, gate: Gate, tmp_path: Path
) -> None:
    """Its environment was in memory only: it must not run with another one and say nothing."""
    with _host(own_server.state_dir, tmp_path / "project", *_LEAN, WHICH="mine") as host:
        group = {"group": "g", "group_limit": 1}
        host.ask("run", command=gate.wait, wait_s=0, **group)
        host.ask("run", command='echo "with $WHICH"', wait_s=0, **group)
        own_server.restart()
        gate.open()
        text = host.ask("wait", ids=["p2"])
        assert "with mine" in text or re.match(r"\[p2 (?!exit|running)", text), text


@pytest.mark.promise("S4.13.project")
def test_an_environment_that_is_too_large_is_passed_on_in_part_and_the_rest_is_named(
    server: OutliveServer, tmp_path: Path
) -> None:
    large = {f"LARGE_{number}": "x" * 30_000 for number in range(10)}
    line = "echo $WHICH ${HOME:+home} $(env | grep -c ^LARGE_)"
    with _host(server.state_dir, tmp_path / "project", *_LEAN, WHICH="mine", **large) as host:
        text = host.ask("run", command=line)
        assert host.leave() == 0
    found = re.fullmatch(r"\[exit 0\]\nmine home (\d)", text)
    assert found is not None, text
    left_out = set(re.findall(r"LARGE_\d", host.stderr))
    assert len(left_out) + int(found[1]) == 10
    assert "WHICH" not in host.stderr
    assert "too large" in host.stderr


@pytest.mark.promise("S4.13.project", "S4.13.workspace")
def test_variables_that_no_shell_can_set_cost_no_workspace_its_state(
    server: OutliveServer, tmp_path: Path
) -> None:
    """Exported functions (Fedora has one), names with dots, and names that would be evaluated as a
    subscript.
    """
    trap = tmp_path / "trap"
    odd = {"BASH_FUNC_f%%": "() { echo called; }", "A.B": "dots", f"x[$(touch {trap})]": "1", "EMPTY": ""}
    with _host(server.state_dir, tmp_path / "project", *_LEAN, **odd) as host:
        for _ in range(2):
            assert host.ask("run", command="cd /usr/lib; export A=1", workspace="w").startswith("[exit 0, ")
        text = host.ask("run", command='pwd; f; env | grep ^A[.=]; echo "${EMPTY-unset}"', workspace="w")
        shown = ["/usr/lib", "A.B=dots", "A=1", "[exit 0, workspace w:/usr/lib]", "called"]
        assert sorted(filter(None, text.splitlines())) == shown
        host.ask("run", command="unset EMPTY", workspace="w")
        assert "unset" in host.ask("run", command='echo "${EMPTY-unset}"', workspace="w")
    assert not trap.exists()


@pytest.mark.promise("S4.13.project")
def test_a_project_folder_that_is_gone_is_named(server: OutliveServer, tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    with _host(server.state_dir, folder, *_LEAN) as host:
        assert host.ask("run", command="echo there") == "[exit 0]\nthere"
        folder.rmdir()
        text = host.ask("run", command="echo no")
        assert "folder" in text
        assert f"{folder}" in text
        assert "Hint: Pass another cwd; " in text
        assert host.ask("run", command="echo on", cwd="/") == "[exit 0]\non"
        folder.mkdir()
        assert host.ask("run", command="pwd") == f"[exit 0]\n{folder}"


@pytest.mark.thorough
@pytest.mark.promise("S4.13.project")
def test_a_client_without_a_relay_works_where_the_server_does(tmp_path: Path) -> None:
    """Its commands, short ids and keys are of no project.

    Hosts in projects do not see them, nor it theirs.
    """
    with OutliveServer(tmp_path / "state", env={"WHICH": "server"}, cwd=tmp_path) as server:
        client = RawCaller.begin(server.mcp_url)
        where = client.call("run", command="pwd; echo $WHICH", key="k").text
        assert where.endswith("\nserver")
        with _host(server.state_dir, tmp_path / "project", *_LEAN, WHICH="mine") as host:
            mine = host.ask("run", command="pwd; echo $WHICH", key="k")
            assert mine == f"[exit 0]\n{tmp_path}/project\nmine"
            assert len(client.call("list", all=True).text.splitlines()) == 1
            assert client.call("read", id="p1", cursor="0").text == where
            assert host.ask("read", id="p1", cursor="0") == mine
            assert "[p2 exit 0, ran" not in client.call("run", command="pwd; echo $WHICH", key="k").text
