"""A command of one server of a user, and a program that another sandbox bounds, is taken for the user by none
of his servers (decision 219). What encloses or bounds a server, too, takes nothing away.
"""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from outlive.client import Client
from outlive.kernel.state_files import read_pid
from tests.attacks.attacking import NOBODY, Requests, create_token, inside
from tests.extensions.fleet.pairs import a_token
from tests.faults.returning import stop_server, until_back
from tests.keeper.client import until
from tests.sandbox.ordinary import as_nobody, open_folder, ordinary_outlive
from tests.support.fixtures import ServerFactory
from tests.support.server import OutliveServer, outlive_command

pytestmark = pytest.mark.walls

_DOORS = ("unix", "tcp", "tcp6")
_KEEPER = ("hello", "stop", "end", "retire")
_ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OutliveServer]:
    """Another server of the same user."""
    with OutliveServer(tmp_path_factory.mktemp("o") / "state") as shared:
        yield shared


@pytest.mark.promise("A.inside")
@pytest.mark.parametrize("way", ["child", "cleared", "daemon", "grandchild"])
@pytest.mark.parametrize("profile", ["open", "workspace"])
def test_a_command_of_another_server_is_let_in_nowhere(
    besieged: OutliveServer, other: OutliveServer, tmp_path: Path, way: str, profile: str
) -> None:
    tmp_path.chmod(0o777)
    victim = Requests(other).start("sleep 60")["process_id"]
    found = inside(besieged, tmp_path, way=way, target=victim, profiles=(profile, ""), at=other)
    # No sandboxed command finds the sockets (decision 226).
    doors, refused = (_DOORS, "inside_process") if profile == "open" else (_DOORS[1:], "no answer")
    for door in doors:
        assert found[door] == [401, "inside_process"], found
        assert found[f"{door} read"] == [401, "inside_process"], found
    for operation in _KEEPER:
        assert found[f"keeper {operation}"] == refused, found
    if profile != "open":
        assert found["unix"][0] == found["unix read"][0] == 0, found
    Requests(other)("POST", f"/v1/processes/{victim}/control", body={"action": "cancel", "grace": 0})


@pytest.mark.thorough
@pytest.mark.promise("A.inside")
@pytest.mark.parametrize("way", ["child", "cleared", "daemon"])
def test_a_command_on_a_node_of_this_machine_is_let_in_by_its_gateway_no_more_than_the_other_way(
    besieged: OutliveServer, other: OutliveServer, tmp_path: Path, way: str
) -> None:
    with Client(besieged.state_dir, start_server=False) as client:
        name = f"far-{way}"
        client.fleet.add(name, f"http://127.0.0.1:{other.port}", token=a_token(other, name))
        until(lambda: [one for one in client.nodes() if one["state"] == "connected"], "the node")
        for at, backend in ((besieged, name), (other, "local")):
            (folder := tmp_path / backend).mkdir()
            found = inside(besieged, folder, way=way, target="x", at=at, backend=backend)
            assert {found[door][1] for door in _DOORS} == {"inside_process"}, (backend, found)
            assert {found[f"keeper {one}"] for one in _KEEPER} == {"inside_process"}, (backend, found)
        client.fleet.remove(name, force=True)


@pytest.mark.promise("A.inside")
def test_a_command_whose_shim_was_killed_is_known_to_another_server_by_its_environment(
    besieged: OutliveServer, other: OutliveServer, tmp_path: Path
) -> None:
    gate, answer = tmp_path / "gate", tmp_path / "answer"
    call = _curl(other, "unix", "-w", "%{http_code}", "-o", "/dev/null")
    line = f"until [ -e {gate} ]; do sleep 0.02; done; {call} > {answer}.new; mv {answer}.new {answer}"
    process = Requests(besieged).start(line)
    record = read_pid(f"{besieged.state_dir}/processes/{process['process_id']}")
    assert record is not None
    os.kill(record.shim_pid, signal.SIGKILL)
    gate.touch()
    until(answer.exists, "the answer")
    assert answer.read_text() == "401"


@pytest.mark.thorough
@pytest.mark.promise("A.inside")
def test_sandboxed_commands_of_a_gateway_and_its_node_reach_neither_server() -> None:
    """Two servers of one user on one machine, one of them a node of the other: commands of each, and those
    that the gateway has started at the node.
    """
    args = ["--profile", "workspace"]
    with (
        open_folder() as folder,
        OutliveServer(folder / "one", args=args) as first,
        OutliveServer(folder / "two", args=args) as second,
        Client(first.state_dir, start_server=False) as client,
    ):
        client.fleet.add("far", f"http://127.0.0.1:{second.port}", token=a_token(second, "far"))
        until(lambda: [one for one in client.nodes() if one["state"] == "connected"], "the node")
        for server, backend in ((first, "local"), (first, "far"), (second, "local")):
            for at in (first, second):
                with tempfile.TemporaryDirectory(dir="/dev/shm") as place:
                    found = inside(
                        server,
                        Path(place),
                        way="cleared",
                        target="x",
                        at=at,
                        backend=backend,
                        profiles=("workspace", ""),
                    )
                assert found["tcp"] == found["tcp6"] == [401, "inside_process"], found
                assert found["unix"][0] in {0, 401}, found
                assert {found[f"keeper {one}"] for one in _KEEPER} <= {"inside_process", "no answer"}, found
        client.fleet.remove("far", force=True)


@pytest.mark.promise("A.inside")
@pytest.mark.parametrize("way", ["killed its shim", "raised its limits"])
def test_an_ordinary_users_command_that_nothing_leads_back_from_is_known_to_another_server(
    monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """It has killed its shim, left its session and emptied its environment. Only root raises a hard limit."""
    with open_folder() as folder:
        if os.geteuid() == 0:
            if not (words := ordinary_outlive()):
                pytest.skip("no other user can run outlive here")
            monkeypatch.setenv("OUTLIVE_TEST_COMMAND", shlex.join(words))
            os.chown(folder, NOBODY, NOBODY)
        with OutliveServer(folder / "a") as first, OutliveServer(folder / "b") as second:
            answers = [folder / "unix", folder / "tcp"]
            calls = " ".join(
                f"{_curl(second, one.name, '-o', f'{one}.new')}; mv {one}.new {one};" for one in answers
            )
            raised = (
                "ulimit -x unlimited; prlimit --locks=unlimited:unlimited; "
                if way.startswith("raised")
                else ""
            )
            line = f"kill -KILL $PPID; exec setsid -f env -i sh -c {shlex.quote(raised + calls)}"
            become = as_nobody() if os.geteuid() == 0 else []
            assert "processes" in _asked([*become, *shlex.split(_curl(second, "unix"))])
            Requests(first, create_token(first)).start(line)
            for one in answers:
                until(one.exists, "the answer")
                assert json.loads(one.read_text())["slug"] == "token_missing", one.read_text()
                assert "has started" in one.read_text()


@pytest.mark.promise("A.inside", "P.approval")
def test_no_agent_approves_its_own_start_by_way_of_another_server(
    serve: ServerFactory, other: OutliveServer
) -> None:
    """The approver was "uid:0", at the first try."""
    asking = serve("--ask", "rm *")
    mine, theirs = Requests(asking), Requests(other)
    process_id = mine("POST", "/v1/processes", body={"command": "rm /nonexistent"}).body["process_id"]
    approve = _curl(asking, "unix", "-X", "POST", "--json", "{}", path=f"/v1/approvals/{process_id}/approve")
    said = theirs.output(theirs.start(approve)["process_id"])
    assert "which another server has started" in said
    assert "--grant" in said
    # The agent does not get so far: the other server does not start that for it.
    detour = _curl(other, "unix", "--json", json.dumps({"command": approve}), path="/v1/processes")
    said = mine.output(mine.start(detour)["process_id"])
    assert "which another server has started" in said
    assert mine("GET", f"/v1/processes/{process_id}").body["state"] == "queued"


@pytest.mark.promise("A.inside", "A.token")
def test_with_a_token_of_that_server_it_is_let_in_but_approves_nothing(
    besieged: OutliveServer, other: OutliveServer, tmp_path: Path
) -> None:
    token = create_token(other, "admin")
    found = inside(besieged, tmp_path, way="daemon", target="x", token=token, at=other)
    for door in _DOORS:
        assert found[door] == [201, None], found
    assert {found[f"keeper {one}"] for one in _KEEPER} == {"inside_process"}, found
    waiting = Requests(other).start("true")["process_id"]
    shown = ("-H", f"Authorization: Bearer {token}", "--json", json.dumps({"digest": "0" * 64}))
    mine = Requests(besieged)
    line = _curl(other, "tcp", *shown, path=f"/v1/approvals/{waiting}/approve")
    assert "cannot approve anything" in mine.output(mine.start(line)["process_id"])


def _curl(server: OutliveServer, door: str, *words: str, path: str = "/v1/processes") -> str:
    """Return a shell line that sends a request to a server."""
    host = f"http://localhost:{server.ready['ports']['rest']}" if door == "tcp" else "http://localhost"
    socket = () if door == "tcp" else ("--unix-socket", f"{server.state_dir}/server.sock")
    return shlex.join(["curl", "-s", *socket, *words, host + path])


# --- whatever encloses the server, too, takes nothing away


def _run_by(server: OutliveServer, *words: str, profile: str = "open") -> subprocess.CompletedProcess[str]:
    """Run a command by `outlive run`, in this checkout."""
    here = [*outlive_command(), "run", "--state-dir", str(server.state_dir), "--profile", profile, "--"]
    return subprocess.run(
        [*here, *words], cwd=_ROOT, capture_output=True, text=True, timeout=300, check=False
    )


@pytest.mark.promise("A.inside.own")
@pytest.mark.parametrize("kept", ["", "env -i"], ids=["its environment", "no environment"])
def test_a_private_server_that_a_command_starts_is_its_own(
    besieged: OutliveServer, tmp_path: Path, kept: str
) -> None:
    """Also when the server outlives the shell that has started it, and knows nothing by its environment."""
    words = shlex.join([*outlive_command(), "--state-dir", str(tmp_path / "own")])
    started = f"setsid -f {kept} {words} run -- true; sleep 0.2"
    line = f"{started}; {words} run -- echo private && {words} ps --all && {words} keeper stop --kill"
    done = _run_by(besieged, "sh", "-c", line)
    assert (done.returncode, "private\n" in done.stdout) == (0, True), done


@pytest.mark.promise("A.inside.own")
def test_what_a_private_server_runs_is_inside_of_it_and_of_the_server_around_it(
    besieged: OutliveServer, tmp_path: Path
) -> None:
    own = tmp_path / "own"
    words = shlex.join([*outlive_command(), "--state-dir", str(own)])
    socket = f"curl -s -o /dev/null -w '%{{http_code}} ' --unix-socket {own}/server.sock http://localhost/v1/processes"
    inner = f"{socket}; {_curl(besieged, 'unix', '-o', '/dev/null', '-w', '%{http_code} ')}"
    line = f"{words} run -c {shlex.quote(inner)}; {socket}; {words} keeper stop --kill >/dev/null"
    assert _run_by(besieged, "sh", "-c", line).stdout.split() == ["401", "401", "200"]


@pytest.mark.thorough
@pytest.mark.promise("A.inside.own")
def test_our_own_tests_run_by_outlive(besieged: OutliveServer) -> None:
    """Fixtures start servers and talk to them, at each door and to their keepers."""
    files = ["tests/attacks/test_nested_run.py", "tests/cli/test_keeper_verbs.py"]
    done = _run_by(besieged, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *files)
    assert done.returncode == 0, done.stdout[-4000:]


@pytest.mark.thorough
@pytest.mark.promise("A.inside.own")
def test_the_programs_of_a_server_that_came_back_are_not_inside(tmp_path: Path) -> None:
    """A hook of the operator's asks the server whose notice it gets; the guardian has started that one."""
    folder, state_dir, answer = tmp_path / "p", tmp_path / "state", tmp_path / "answer"
    folder.mkdir()
    hook = tmp_path / "hook"
    asks = f"curl -s -o /dev/null -w '%{{http_code}}' --unix-socket {state_dir}/server.sock http://localhost/v1/processes"
    hook.write_text(f"#!/bin/sh\n{asks} >{answer}.new; mv {answer}.new {answer}\n")
    hook.chmod(0o755)
    with OutliveServer(state_dir, args=["--notify-command", str(hook)]) as server:
        with Client(state_dir, start_server=False) as client:
            client.services.up(str(folder), {"stays": {"command": "exec sleep 600"}})
        try:
            server.kill()
            until_back(state_dir, after=server.pid)
            with Client(state_dir, start_server=False) as client:
                client.start("true", notify=True).wait()
                until(answer.exists, "the hook's answer")
                assert answer.read_text() == "200"
                client.services.down(str(folder), grace_s=0)
        finally:
            stop_server(state_dir)


# --- what another program bounds

_FILTERED = """
import ctypes, os, struct, sys
class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]
allow = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0x7FFF0000))  # BPF_RET: SECCOMP_RET_ALLOW
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0  # PR_SET_NO_NEW_PRIVS
assert libc.prctl(22, 2, ctypes.byref(Program(1, ctypes.addressof(allow))), 0, 0) == 0  # PR_SET_SECCOMP
os.execvp(sys.argv[1], sys.argv[1:])
"""
_AS_ROOT_THERE = () if os.geteuid() == 0 else ("--map-root-user",)
_BOUNDED = {
    # As Flatpak runs an application that may use the network and the home folder (flatpak-bwrap).
    "flatpak": ("bwrap", "--dev-bind", "/", "/", "--unshare-pid", "--proc", "/proc", "--die-with-parent"),
    "bwrap": ("bwrap", "--dev-bind", "/", "/"),
    "PrivateTmp": ("unshare", *_AS_ROOT_THERE, "--mount"),
    "PrivateUsers": ("unshare", "--map-root-user"),
    "SystemCallFilter": (sys.executable, "-I", "-S", "-c", _FILTERED),
}


@pytest.mark.promise("A.bounded")
@pytest.mark.parametrize("how", _BOUNDED)
def test_a_program_that_another_sandbox_bounds_shows_a_token(besieged: OutliveServer, how: str) -> None:
    bound = _BOUNDED[how]
    if shutil.which(bound[0]) is None and os.environ.get("OUTLIVE_REQUIRE_PROGRAMS"):
        pytest.fail(f"{bound[0]} is missing")
    if shutil.which(bound[0]) is None or subprocess.run([*bound, "true"], check=False).returncode:
        pytest.skip(f"this machine has no {how}")
    token = create_token(besieged, "admin")
    for door in ("unix", "tcp"):
        refused = _asked([*bound, *shlex.split(_curl(besieged, door))])
        assert refused["slug"] == "token_missing", (door, refused)
        assert "namespace" in refused["detail"] or "filters" in refused["detail"], refused
        shown = _curl(besieged, door, "-H", f"Authorization: Bearer {token}")
        assert "processes" in _asked([*bound, *shlex.split(shown)])
    keeper = [*outlive_command(), "keeper", "status", "--state-dir", str(besieged.state_dir)]
    assert subprocess.run([*bound, *keeper], capture_output=True, check=False).returncode != 0
    assert subprocess.run(keeper, capture_output=True, check=False).returncode == 0


@pytest.mark.promise("A.bounded")
def test_server_and_client_within_the_same_bounds_need_no_token(tmp_path: Path) -> None:
    """As in a container; what goes into it later (`docker exec`) has the same namespaces."""
    words = shlex.join([*outlive_command(), "--state-dir", str(tmp_path / "s")])
    line = f"{words} run -- echo contained && {words} ps --all && {words} keeper stop --kill"
    filtered = [sys.executable, "-I", "-S", "-c", _FILTERED]
    namespaces = ["unshare", "--map-root-user", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child"]
    done = subprocess.run(
        [*filtered, *namespaces, "sh", "-c", line], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, "contained\n" in done.stdout) == (0, True), done


# Boots a real systemd, as the first process of a container: {name: what bounds a unit there}.
_UNITS = {
    "unbounded": "",
    "PrivateTmp": "PrivateTmp=yes",
    "PrivateUsers": "PrivateUsers=yes",
    "SystemCallFilter": "SystemCallFilter=~@clock",
    "ProtectHome": "ProtectHome=yes",
}
_UNIT = """
[Unit]
DefaultDependencies=no
{more}
[Service]
Type=oneshot
ExecStart={words}
StandardOutput=file:/out/{name}
StandardError=file:/out/{name}.log
{bounds}
"""


@pytest.mark.thorough
@pytest.mark.root("boots a container")
@pytest.mark.promise("A.bounded")
def test_units_of_a_real_systemd_show_a_token_if_they_are_bounded(tmp_path: Path) -> None:
    """Client and server in one container need none, in a unit of their own neither."""
    folder, out = tmp_path / "r", tmp_path / "out"
    (units := folder / "etc" / "systemd" / "system").mkdir(parents=True)
    out.mkdir()
    for name in ("bin", "lib", "lib64", "sbin"):
        (folder / name).symlink_to(f"usr/{name}")
    for name in ("usr", "tmp", "var", "root", "run"):
        (folder / name).mkdir()
    (folder / "etc" / "os-release").touch()
    shutil.copy("/etc/passwd", folder / "etc")
    words = shlex.join([*outlive_command(), "--state-dir", "/out/state"])
    unit_words = "/usr/bin/curl -s --unix-socket /out/state/server.sock http://localhost/v1/processes"
    for name, bounds in _UNITS.items():
        unit = _UNIT.format(name=name, words=unit_words, bounds=bounds, more="")
        (units / f"{name}.service").write_text(unit)
    script = f"{words} run -- echo contained; systemctl start {' '.join(_UNITS)}; {words} keeper stop --kill"
    ends = "SuccessAction=exit-force\nFailureAction=exit-force"
    unit = _UNIT.format(name="all", words=f"/bin/sh -c {shlex.quote(script)}", bounds="", more=ends)
    (units / "all.service").write_text(unit)
    shown = {"/usr", str(_ROOT), sys.prefix, sys.base_prefix, os.path.realpath(sys.base_prefix)}
    boot = ["systemd-nspawn", "--register=no", "--keep-unit", "-q", "-D", str(folder)]
    boot += [f"--bind-ro={one}" for one in sorted(shown)]
    if shutil.which(boot[0]) is None or subprocess.run([*boot, "--pipe", "true"], check=False).returncode:
        pytest.skip("no container can be booted here")
    boot += [f"--bind={out}:/out", "--console=pipe", "--boot", "systemd.unit=all.service"]
    done = subprocess.run(boot, capture_output=True, text=True, timeout=100, check=False)
    said = {one.name: one.read_text() for one in out.iterdir() if one.is_file()}
    assert said.get("all", "").startswith("contained\n"), (done, said)
    answers = {name: json.loads(said[name]) for name in _UNITS}
    assert "processes" in answers.pop("unbounded")
    for name, answer in answers.items():
        assert answer["slug"] == "token_missing", (name, answer)
        assert "namespace" in answer["detail"] or "filters" in answer["detail"], answer


@pytest.mark.root("the unit of an ordinary user makes no namespace of users, and this would have to")
@pytest.mark.promise("A.bounded")
def test_a_server_that_its_unit_bounds_is_its_users_all_the_same(tmp_path: Path) -> None:
    """Its keeper is in a unit without bounds (decision 45): that one's namespaces count as the server's."""
    state_dir = tmp_path / "s"
    with OutliveServer(state_dir) as server:
        server.stop()
        unit = ["unshare", *_AS_ROOT_THERE, "--mount", sys.executable, "-I", "-S", "-c", _FILTERED]
        words = [*outlive_command(), "serve", "--state-dir", str(state_dir), "--print-json"]
        with subprocess.Popen([*unit, *words], stdout=subprocess.PIPE, text=True) as bounded:
            try:
                assert bounded.stdout is not None
                assert bounded.stdout.readline()
                here = [*outlive_command(), "run", "--state-dir", str(state_dir), "--", "echo", "let in"]
                done = subprocess.run(here, capture_output=True, text=True, timeout=60, check=False)
                assert done.stdout == "let in\n", done
            finally:
                bounded.terminate()


def _asked(words: Sequence[str]) -> dict[str, str]:
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    answer: dict[str, str] = json.loads(done.stdout)
    return answer
