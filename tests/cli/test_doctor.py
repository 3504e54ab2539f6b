"""`outlive doctor`: what this machine offers, as text and as JSON."""

import contextlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from outlive.cli.machine import capacity, doctor, probes
from outlive.cli.machine import probes as cgroups
from outlive.cli.output import show
from outlive.core.command import Profile
from outlive.keeper.sandbox.cgroups import group_of, mount_point
from tests.cli.launching import run
from tests.keeper.client import KeeperRefused, until
from tests.keeper.house import House

_PROFILES = ("guarded", "workspace", "offline", "sealed")
_NAMES = {
    *(f"profile {name}" for name in _PROFILES),
    "limits by group",
    "system",
    "splice",
    "pidfd",
    "subreaper",
    "posix_spawn setsid",
    "PIDFD_GET_INFO",
    "memfd",
    "pty splice",
    "hole punching",
    "/proc children",
    "cgroup v2",
    "cgroup v1 freezer",
    "capacity",
    "pipe pages",
    "program",
    "IPv6 loopback",
    "shell",
    "state folder",
}


def test_the_json_names_every_check_and_its_consequence(tmp_path: Path) -> None:
    answer = run("doctor", "--json", "--state-dir", str(tmp_path / "not" / "there"))
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert answer.stdout.count("\n") == 1
    document = json.loads(answer.stdout)
    assert document["ok"] is True
    names = {check["name"] for check in document["checks"]}
    assert names - {"OpenTelemetry"} == _NAMES  # which an extension brings
    for check in document["checks"]:
        assert set(check) == {"name", "ok", "importance", "detail", "consequence", "cure"}
        assert check["detail"]
        if not check["ok"] and check["importance"] != "fact":
            assert check["consequence"]
            assert check["cure"]
        assert not (check["ok"] and check["cure"])
    assert not (tmp_path / "not").exists()


def test_the_text_ends_with_a_verdict(tmp_path: Path) -> None:
    answer = run("doctor", "--state-dir", str(tmp_path))
    assert answer.returncode == 0
    assert "splice" in answer.stdout
    assert "outlive runs here" in answer.stdout.splitlines()[-1]


def test_a_place_that_cannot_be_written_is_the_doctors_first_concern() -> None:
    answer = run("doctor", "--state-dir", "/proc/nothing")
    assert answer.returncode == 1
    assert "missing" in answer.stdout
    assert "outlive cannot run here" in answer.stdout
    assert "Cure: " in answer.stdout


_NODE = probes.ProbeResult(
    name="node [b]\x1b[2J",
    is_ok=False,
    detail="unix:/あああ/s, away since\x07 noon: it does not answer",
    consequence="its processes are unknown",
    cure="start it",
)
_SHELL = probes.ProbeResult(name="shell", is_ok=True, detail="/bin/sh", consequence="", cure="")


def _shown(capsys: pytest.CaptureFixture[str]) -> str:
    show(*doctor._table([_SHELL, _NODE], is_usable=True))
    return capsys.readouterr().out


def test_findings_are_wrapped_beside_their_names_at_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where one was made of letters that take two cells, and with none of what a terminal would obey."""
    monkeypatch.setattr(doctor, "terminal_width", lambda: 45)
    assert _shown(capsys).splitlines()[:6] == [
        "ok        shell            /bin/sh",
        "degraded  node [b]\\x1b[2J  unix:/あああ/s,",
        "                           away since\\x07",
        "                           noon: it does not",
        "                           answer; so its",
        "                           processes are",
    ]


def test_findings_are_a_line_each_where_stdout_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert _shown(capsys).splitlines()[:2] == [
        "ok        shell            /bin/sh",
        (
            "degraded  node [b]\\x1b[2J  unix:/あああ/s, away since\\x07 noon: it does not answer; so its "
            "processes are unknown. Cure: start it"
        ),
    ]


@pytest.mark.parametrize(
    ("env", "has_colours"),
    [
        ({}, False),
        ({"FORCE_COLOR": "1"}, True),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        ({"FORCE_COLOR": "1", "TERM": "dumb"}, False),
    ],
)
def test_findings_have_colours_where_they_are_wanted(
    env: dict[str, str],
    has_colours: bool,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """no-color.org goes before force-color.org."""
    for name, value in {"NO_COLOR": "", "FORCE_COLOR": "", "TERM": "xterm", **env}.items():
        monkeypatch.setenv(name, value)
    shown = _shown(capsys)
    if has_colours:
        assert "\x1b[32mok\x1b[0m        shell" in shown
        assert "\x1b[33mdegraded\x1b[0m  node" in shown
    else:
        assert "\x1b" not in shown


def _missing(*_: object, **__: object) -> int:
    raise OSError(38, os.strerror(38))


def test_what_a_kernel_lacks_is_said_with_what_follows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("splice", "pidfd_open", "memfd_create", "posix_spawn"):
        monkeypatch.setattr(os, name, _missing)
    monkeypatch.setattr(probes, "punch_hole", _missing)
    monkeypatch.setattr(shutil, "which", lambda _name, **_where: None)
    monkeypatch.setattr(capacity, "most_processes", lambda _limit, _prepared: 7)
    monkeypatch.setattr(probes, "become_subreaper", lambda: None)
    found = {finding.name: finding for finding in probes.find_out(str(tmp_path))}
    for name in (
        "splice",
        "pidfd",
        "posix_spawn setsid",
        "PIDFD_GET_INFO",
        "memfd",
        "pty splice",
        "hole punching",
    ):
        assert not found[name].is_ok
        assert found[name].consequence
        assert found[name].cure
    assert found["splice"].importance == "required"
    assert (found["shell"].is_ok, found["shell"].detail) == (False, "/bin/sh")
    assert "bash" in found["shell"].cure
    assert (found["capacity"].is_ok, found["capacity"].detail.split(",")[0]) == (
        False,
        "7 commands at a time",
    )
    assert "LimitNOFILE=" in found["capacity"].cure


def test_every_line_that_can_be_unwell_names_its_cure() -> None:
    """Lines whose cure depends on what was found are the other ones.

    A line that nothing depends on has none.
    """
    profiles = {f"profile {one}" for one in _PROFILES}
    found = {"capacity", "program", "state folder", *profiles}
    facts = {"system", "cgroup v2", "cgroup v1 freezer", "pipe pages"}
    assert set(probes.CURES) == _NAMES - found - facts


@pytest.mark.parametrize(
    ("limit", "cure"),
    [
        ("open files of the supervisor", "LimitNOFILE="),
        ("pid_max", "kernel.pid_max"),
        ("threads-max", "kernel.threads-max"),
        ("processes of this user (ulimit -u)", "ulimit -u"),
        ("pids.max of /user.slice", "TasksMax="),
        ("memory of the keeper", "more memory"),
    ],
)
def test_each_limit_of_how_many_commands_fit_is_raised_in_its_own_way(limit: str, cure: str) -> None:
    assert cure in probes.cure_of_capacity(limit)


@pytest.mark.parametrize(
    ("profile", "obstacle", "cure"),
    [
        (Profile.WORKSPACE, "the kernel has no Landlock", "lsm="),
        (Profile.OFFLINE, "namespaces cannot be made (Operation not permitted)", "userns"),
        (Profile.SEALED, "mounts cannot be made (Operation not permitted)", "userns"),
        (Profile.GUARDED, "no system calls can be denied (Function not implemented)", "seccomp"),
    ],
)
def test_what_a_profile_lacks_is_cured_by_what_prevents_it(
    profile: Profile, obstacle: str, cure: str
) -> None:
    assert cure in probes.cure_of_profile(profile, obstacle)


def test_a_state_folder_is_cured_by_what_its_file_system_says() -> None:
    assert "outlive prune" in probes.cure_of_state_folder("disk_full", "")
    assert "remount" in probes.cure_of_state_folder("read_only", "")
    assert "--state-dir" in probes.cure_of_state_folder(None, ", Permission denied")


def test_as_many_commands_fit_as_it_says_and_the_next_one_is_refused(tmp_path: Path) -> None:
    """The limit of a supervisor that runs, whatever whoever asks may open."""
    with House(tmp_path / "state") as house:
        subprocess.run(["prlimit", f"--pid={house.guardian()}", "--nofile=320:320"], check=True)
        house.kill(house.supervisor())  # the next one has the guardian's limit
        answer = run("doctor", "--json", "--state-dir", str(house.state_dir))
        checks = {check["name"]: check for check in json.loads(answer.stdout)["checks"]}
        detail = checks["capacity"]["detail"]
        assert "by open files of the supervisor" in detail
        most = int(detail.split()[0])
        for _ in range(most):
            house.start("/bin/sleep", "600")
        with pytest.raises(KeeperRefused, match="process_limit"):
            house.start("/bin/sleep", "600")


@pytest.fixture
def task_group() -> Iterator[Path]:
    """A control group that can bound tasks, beside the one that we are in; nobody is in it."""
    for kind, controller in (("cgroup", "pids"), ("cgroup2", "")):
        root, path = mount_point(kind, controller), group_of(controller)
        if root and path:
            group = Path(f"{root}{path}") / f"outlive-test-{os.getpid()}"
            with contextlib.suppress(OSError):
                group.mkdir()
                if (group / "pids.max").exists():
                    break
                group.rmdir()
    else:
        pytest.skip("no control group that bounds tasks can be made here")
    yield group
    until(lambda: not (group / "cgroup.procs").read_text(), "an empty group")
    group.rmdir()


@pytest.mark.thorough
def test_as_many_commands_fit_into_a_control_group_as_it_says_and_its_end_ends_nobody(
    tmp_path: Path, task_group: Path
) -> None:
    """Idle shims are tasks, too, and serve some more.

    The next start is refused until there is room, and no part of the keeper dies.
    """
    with House(tmp_path / "state") as house:
        guardian, supervisor = house.guardian(), house.supervisor()
        house.wait_redundant()
        for pid in (guardian, supervisor, *house.shims()):
            (task_group / "cgroup.procs").write_text(str(pid))
        most_tasks = int((task_group / "pids.current").read_text()) + 40
        (task_group / "pids.max").write_text(str(most_tasks))
        answer = run("doctor", "--json", "--state-dir", str(house.state_dir))
        detail = {check["name"]: check["detail"] for check in json.loads(answer.stdout)["checks"]}["capacity"]
        assert "by pids.max of" in detail
        most = int(detail.split()[0])
        for _ in range(most):
            house.start("/bin/sleep", "600")
        with pytest.raises(KeeperRefused, match="start_failed"):  # noqa: PT012 - one of those for which shims lie ready
            for _ in range(most_tasks):
                house.start("/bin/sleep", "600")
        (task_group / "pids.max").write_text("max")
        house.start("/bin/sleep", "600")
        until(lambda: len(house.shims()) > most + 10, "shims again")
        assert (house.guardian(), house.supervisor()) == (guardian, supervisor)
        assert "no program for shims" not in house.log()


def test_control_groups_are_found_where_the_kernel_says_we_are(tmp_path: Path) -> None:
    for probe in (cgroups.probe_cgroup_v1, cgroups.probe_cgroup_v2):
        is_writable, detail = probe()
        assert detail
        assert is_writable == detail.startswith("writable")
    assert list(tmp_path.iterdir()) == []
