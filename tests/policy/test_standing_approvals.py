"""Approvals for always: exactly the same command in its project is asked about no more, and everything else
is.
"""

import json
import os
import shutil
import stat
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlive.core.command import Command, Limits, StandingApproval
from outlive.core.errors import ConfigInvalid
from outlive.engine.starts.standing_file import StandingFile
from outlive.kernel.project import project_identity
from outlive.policy.command_reader import read_command
from outlive.policy.patterns import ProgramFile
from outlive.policy.standing_approvals import standing_approval
from tests.attacks.attacking import Requests, create_token
from tests.support.fixtures import ServerFactory
from tests.support.server import OutliveServer, outlive_command

_TOUCH = ProgramFile(paths=("/usr/bin/touch",), identity=(1, 2), is_own=True)


def _proposed(command: Command, **changed: object) -> StandingApproval | str:
    told = {"project": "/srv/project", "surroundings": {"umask": 0o022, "files": {}}, **changed}
    reading = read_command(command, {"PATH": "/usr/bin"})
    files = dict.fromkeys((one.argv[0] for one in reading.commands), _TOUCH)
    return standing_approval(command, reading, told.pop("files", files), **told)  # type: ignore[arg-type]


_COMMANDS = st.one_of(
    st.builds(
        lambda words: Command(argv=("touch", *words)),
        st.lists(st.text(st.characters(codec="utf-8"), max_size=5), max_size=3),
    ),
    st.builds(
        lambda words: Command(line=" && ".join(f"touch {word}" for word in words)),
        st.lists(st.from_regex(r"[a-z]{1,3}", fullmatch=True), min_size=1, max_size=3),
    ),
)


@given(one=_COMMANDS, other=_COMMANDS)
def test_two_commands_have_the_same_standing_approval_only_if_they_are_the_same(
    one: Command, other: Command
) -> None:
    found, found_other = _proposed(one), _proposed(other)
    assert isinstance(found, StandingApproval)
    assert (found == found_other) == (one == other)


@pytest.mark.parametrize(
    "changed",
    [
        {"project": "/srv/other"},
        {"surroundings": {"umask": 0, "files": {}}},
        {"surroundings": {"umask": 0o022, "files": {"touch": "0f"}}},
        {"files": {"touch": replace(_TOUCH, paths=("/usr/bin/touch", "/opt/evil/touch"))}},
    ],
)
def test_what_surrounds_a_command_is_part_of_the_approval(changed: dict[str, object]) -> None:
    command = Command(argv=("touch", "a"))
    assert _proposed(command) == _proposed(command)
    assert _proposed(command) != _proposed(command, **changed)
    for other in (
        {"env": {"TZ": "UTC"}},
        {"caller_env": {"PYTHONPATH": "/tmp"}},
        {"inherits_env": False},
        {"stdin": "lent"},
        {"stdio": "pty"},
        {"limits": Limits(files=3)},
    ):
        assert _proposed(command) != _proposed(replace(command, **other)), other
    # What differs between two sessions of the same host decides nothing.
    first, second = (replace(command, caller_env={"A": "b", "TMUX_PANE": pane}) for pane in ("%1", "%2"))
    assert _proposed(first) == _proposed(second)
    assert _proposed(Command(line="touch a; touch b")) != _proposed(Command(line="touch a && touch b"))


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (Command(argv=("bash", "-c", "touch a")), "starts other programs"),
        (Command(line="git push"), "starts other programs"),
        (Command(line="nice touch a"), "starts other programs"),
        (Command(line="touch $NAME"), "fills in"),
        (Command(line="touch *.py"), "fills in"),
        (Command(line="touch $(date)"), "not certain"),
        (Command(argv=("touch", "a"), env={"LD_PRELOAD": "/tmp/x.so"}), "not certain"),
        (Command(argv=("touch", "\udcff")), "no text"),
    ],
)
def test_what_can_become_something_else_is_approved_once_only(command: Command, why: str) -> None:
    found = _proposed(command)
    assert isinstance(found, str)
    assert why in found


def test_what_gets_secrets_is_approved_once_only() -> None:
    assert "secrets" in str(_proposed(Command(argv=("touch", "a"), env_secrets={"A": "b"})))


def test_what_is_not_known_for_certain_is_approved_once_only() -> None:
    assert _proposed(Command(argv=("touch", "a")), uncertain="It is a pipe.") == "It is a pipe."


def _config(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "settings").mkdir()
    (tmp_path / "settings/config.toml").write_text('ask = ["touch *"]\n')
    return {"OUTLIVE_CONFIG": str(tmp_path / "settings/config.toml")}


def _project(tmp_path: Path, name: str) -> Path:
    folder = tmp_path / name
    (folder / ".git").mkdir(parents=True)
    (folder / "below").mkdir()
    return folder


def _start(asking: Requests, *words: str, cwd: Path, **more: object) -> dict[str, object]:
    body = {"argv": list(words), "cwd": str(cwd), **more}
    process_id = asking("POST", "/v1/processes", body=body).body["process_id"]
    found: dict[str, object] = asking("GET", f"/v1/processes/{process_id}").body
    return found


def _approve(asking: Requests, process_id: object, *, always: bool) -> None:
    (shown,) = [
        one for one in asking("GET", "/v1/approvals").body["approvals"] if one["process_id"] == process_id
    ]
    answer = asking(
        "POST", f"/v1/approvals/{process_id}/approve", body={"digest": shown["digest"], "always": always}
    )
    assert answer.status == 200, answer.body


@pytest.mark.promise("P.exactly")
def test_what_is_approved_for_always_runs_unasked_in_its_project_alone_after_a_crash_too(
    serve: ServerFactory, tmp_path: Path
) -> None:
    server: OutliveServer = serve(**_config(tmp_path))
    asking = Requests(server, token := create_token(server, "admin"))
    ours, theirs = _project(tmp_path, "ours"), _project(tmp_path, "theirs")
    asked = _start(asking, "touch", "made", cwd=ours)
    assert asked["waits_for"] == "approval"
    (shown,) = asking("GET", "/v1/approvals").body["approvals"]
    assert shown["always"] == {"project": str(ours), "commands": [["touch", "made"]]}
    _approve(asking, asked["process_id"], always=True)
    written = tmp_path / "settings/always.json"
    assert stat.S_IMODE(written.stat().st_mode) == 0o600
    assert json.loads(written.read_text())["standing_approvals"][0]["project"] == str(ours)
    assert not (ours / ".outlive.toml").exists()
    server.kill()
    asking = Requests(server.restart(), token)
    for folder in (ours, ours / "below"):
        found = _start(asking, "touch", "made", cwd=folder)
        assert found["waits_for"] is None
        asking("GET", f"/v1/processes/{found['process_id']}/wait?timeout=20")
        assert (folder / "made").exists()
    # Another project, a link out of this one, other words, another variable: a person is asked.
    (ours / "out").symlink_to(theirs)
    for words, cwd, env in (
        (("touch", "made"), theirs, {}),
        (("touch", "made"), ours / "out", {}),
        (("touch", "made", "too"), ours, {}),
        (("touch", "made"), ours, {"TZ": "UTC"}),
    ):
        assert _start(asking, *words, cwd=cwd, env=env)["waits_for"] == "approval", (words, cwd, env)
    # Taken back: asked about again.
    StandingFile(str(written)).forget(json.loads(written.read_text())["standing_approvals"][0]["digest"])
    assert _start(asking, "touch", "made", cwd=ours)["waits_for"] == "approval"


@pytest.mark.promise("P.exactly")
def test_a_file_that_others_may_write_or_that_is_damaged_approves_nothing(
    serve: ServerFactory, tmp_path: Path
) -> None:
    server = serve(**_config(tmp_path))
    asking = Requests(server, create_token(server, "admin"))
    ours = _project(tmp_path, "ours")
    _approve(asking, _start(asking, "touch", "made", cwd=ours)["process_id"], always=True)
    written = tmp_path / "settings/always.json"
    assert _start(asking, "touch", "made", cwd=ours)["waits_for"] is None
    written.chmod(0o622)
    assert _start(asking, "touch", "made", cwd=ours)["waits_for"] == "approval"
    written.chmod(0o600)
    written.write_text("{")
    waiting = _start(asking, "touch", "made", cwd=ours)
    assert waiting["waits_for"] == "approval"
    # Nothing is lost on bad input: it goes on waiting, and the file stays as it is.
    (shown, *_) = asking("GET", "/v1/approvals").body["approvals"]
    path = f"/v1/approvals/{shown['process_id']}/approve"
    refused = asking("POST", path, body={"digest": shown["digest"], "always": True})
    assert (refused.status, refused.slug) == (500, "config_invalid")
    assert written.read_text() == "{"


_Change = Callable[[Path], dict[str, object] | None]


def _tool(folder: Path, text: str = "exit 0", *, name: str = "tool", first: str = "#!/bin/sh") -> None:
    file = folder / name
    file.unlink(missing_ok=True)
    file.write_text(f"{first}\n{text}\n")
    file.chmod(0o755)


def _turn(link: Path, target: object) -> None:
    link.unlink(missing_ok=True)
    link.symlink_to(str(target))


def _write(file: Path, text: str) -> None:
    file.write_text(text)


def _make_pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def _replaced(folder: Path, *, keeps_root: bool) -> None:
    """Put another repository with the very same files into the place of one."""
    old = folder.parent / "old"
    if keeps_root:
        shutil.rmtree(folder / ".git")
    else:
        folder.rename(old)
        shutil.copytree(old, folder, ignore=shutil.ignore_patterns(".git"))
        shutil.rmtree(old)
    (folder / ".git").mkdir()


# What is approved for always (REST's members, in a project with the files `tool` and `conf`), and what then
# changes: files of the project, or the members that are returned.
_HARMFUL: dict[str, tuple[dict[str, object], _Change]] = {
    "the program is rewritten": ({"argv": ["./tool"]}, lambda at: _write(at / "tool", "#!/bin/sh\nid\n")),
    "the program is another file": ({"argv": ["./tool"]}, lambda at: _tool(at, "id")),
    "the program's path leads to another file": (
        {"argv": ["./link"]},
        lambda at: _turn(at / "link", "other"),
    ),
    "the program's path leads out": ({"argv": ["./link"]}, lambda at: _turn(at / "link", "/usr/bin/id")),
    "the folder of the program is another": (
        {"argv": ["linked/tool"]},
        lambda at: _turn(at / "linked", "others"),
    ),
    "the interpreter behind #! is rewritten": (
        {"argv": ["./interpreted"]},
        lambda at: _tool(at, "id", name="interpreter"),
    ),
    "env finds another interpreter": (
        {"argv": ["./by_env"]},
        lambda at: _tool(at.parent / "bin", "id", name="planted-interpreter"),
    ),
    "a program of PATH is rewritten": (
        {"argv": ["tool-of-path"]},
        lambda at: _tool(at.parent / "bin", "id", name="tool-of-path"),
    ),
    "a line's program is rewritten": (
        {"command": "./tool && true"},
        lambda at: _tool(at, "id"),
    ),
    "a program is planted before the one that a line names": (
        {"command": "touch -c conf"},
        lambda at: _tool(at.parent / "bin", "id", name="touch"),
    ),
    "an argument is rewritten": ({"argv": ["./tool", "conf"]}, lambda at: _write(at / "conf", "evil")),
    "an argument of a line is rewritten": (
        {"command": "./tool 'conf'"},
        lambda at: _write(at / "conf", "evil"),
    ),
    "an argument's link leads elsewhere": (
        {"argv": ["./tool", "link"]},
        lambda at: _turn(at / "link", "same"),
    ),
    "an argument comes to be": ({"argv": ["./tool", "missing"]}, lambda at: _write(at / "missing", "evil")),
    "an argument becomes a pipe": (
        {"argv": ["./tool", "conf"]},
        lambda at: _make_pipe(at / "conf"),
    ),
    "an argument becomes a folder": (
        {"argv": ["./tool", "missing"]},
        lambda at: (at / "missing").mkdir(),
    ),
    "a folder is another one": ({"argv": ["./tool", "linked"]}, lambda at: _turn(at / "linked", "others")),
    "the file behind an option is rewritten": (
        {"argv": ["./tool", "--settings=conf"]},
        lambda at: _write(at / "conf", "evil"),
    ),
    "the file behind a letter is rewritten": (
        {"argv": ["./tool", "-fconf"]},
        lambda at: _write(at / "conf", "evil"),
    ),
    "a file of arguments is rewritten": (
        {"argv": ["./tool", "@conf"]},
        lambda at: _write(at / "conf", "evil"),
    ),
    "a file that is named with a place in it is rewritten": (
        {"argv": ["./tool", "conf::one"]},
        lambda at: _write(at / "conf", "evil"),
    ),
    "what a line reads is rewritten": ({"command": "./tool < conf"}, lambda at: _write(at / "conf", "evil")),
    "what a line writes leads elsewhere": (
        {"command": "./tool > written"},
        lambda at: _turn(at / "written", at.parent / "profile"),
    ),
    "it is sent an input": ({"argv": ["./tool"]}, lambda _: {"stdin": "pipe"}),
    "it gets a terminal": ({"argv": ["./tool"]}, lambda _: {"pty": True}),
    "its umask opens what it writes": ({"argv": ["./tool"]}, lambda _: {"umask": "000"}),
    "it gets a variable": ({"argv": ["./tool"]}, lambda _: {"env": {"PYTHONPATH": "/tmp"}}),
    "it gets another profile": ({"argv": ["./tool"]}, lambda _: {"profile": "guarded"}),
    "another repository lies there": ({"argv": ["./tool"]}, lambda at: _replaced(at, keeps_root=False)),
    "another repository lies in it": ({"argv": ["./tool"]}, lambda at: _replaced(at, keeps_root=True)),
}


@pytest.mark.promise("P.always")
def test_none_of_thirty_harmful_changes_runs_by_an_approval_for_always(
    serve: ServerFactory, tmp_path: Path
) -> None:
    (tmp_path / "settings").mkdir()
    (tmp_path / "settings/config.toml").write_text('ask = ["*"]\n')
    (tmp_path / "bin").mkdir()
    server = serve(
        OUTLIVE_CONFIG=str(tmp_path / "settings/config.toml"), PATH=f"{tmp_path}/bin:{os.environ['PATH']}"
    )
    asking = Requests(server, create_token(server, "admin"))
    unasked = []
    for name, (members, change) in _HARMFUL.items():
        shutil.rmtree(tmp_path / "bin")
        (tmp_path / "bin").mkdir()
        at = _project(tmp_path, "project")
        _fill(at)
        asked = _started(asking, at, members)
        assert asked["waits_for"] == "approval", name
        _approve(asking, asked["process_id"], always=True)
        asking("GET", f"/v1/processes/{asked['process_id']}/wait?timeout=20")
        same = _started(asking, at, members)
        assert same["waits_for"] is None, f"{name}: {same}"
        changed = _started(asking, at, {**members, **(change(at) or {})})
        if changed["waits_for"] != "approval":
            unasked.append(name)
        shutil.rmtree(at)
        (tmp_path / "settings/always.json").unlink()
    assert len(_HARMFUL) == 30
    assert unasked == []


def _fill(at: Path) -> None:
    """Put the files of the table into a project, and into the folder of PATH before it."""
    for folder in (at, at / "folder", at / "others"):
        folder.mkdir(exist_ok=True)
        _tool(folder)
        (folder / "conf").write_text("good")
    (at / "same").write_text("good")
    _tool(at, "id", name="other")
    _turn(at / "link", "tool")
    _turn(at / "linked", "folder")
    _tool(at, name="interpreter")
    _tool(at, name="interpreted", first=f"#!{at}/interpreter")
    _tool(at, name="by_env", first="#!/usr/bin/env planted-interpreter")
    _tool(at.parent / "bin", name="planted-interpreter")
    _tool(at.parent / "bin", name="tool-of-path")


def _started(asking: Requests, at: Path, members: dict[str, object]) -> dict[str, object]:
    answer = asking("POST", "/v1/processes", body={"cwd": str(at), **members})
    assert answer.status == 201, answer
    found: dict[str, object] = asking("GET", f"/v1/processes/{answer.body['process_id']}").body
    return found


def test_ordinary_work_keeps_a_projects_identity_and_another_repository_has_its_own(tmp_path: Path) -> None:
    def git(*words: str, cwd: Path) -> None:
        words = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always", *words)
        subprocess.run(["git", *words], cwd=cwd, check=True, capture_output=True, timeout=60)

    origin, here, linked = tmp_path / "origin", tmp_path / "here", tmp_path / "linked"
    origin.mkdir()
    git("init", "-q", "-b", "main", cwd=origin)
    git("commit", "-q", "--allow-empty", "-m", "first", cwd=origin)
    git("clone", "-q", str(origin), str(here), cwd=tmp_path)
    git("worktree", "add", "-q", str(linked), cwd=here)
    known, known_linked = project_identity(str(here)), project_identity(str(linked))
    (here / "file").write_text("x")
    git("commit", "-q", "--allow-empty", "-m", "second", cwd=origin)
    for words in (
        ("add", "file"),
        ("commit", "-q", "-m", "third"),
        ("checkout", "-q", "-b", "other"),
        ("pull", "-q", "--no-rebase", "--no-edit", "origin", "main"),
        ("gc", "-q"),
        ("stash", "-u"),
    ):
        git(*words, cwd=here)
    assert (project_identity(str(here)), project_identity(str(linked))) == (known, known_linked)
    # A clone in the same place, at once: the numbers of the inodes may be the same.
    shutil.rmtree(here)
    git("clone", "-q", str(origin), str(here), cwd=tmp_path)
    assert project_identity(str(here)) != known
    # The file of a linked work tree is rewritten where it is.
    (linked / ".git").write_text(f"gitdir: {origin}/.git")
    assert project_identity(str(linked)) != known_linked


def test_only_standing_approvals_are_read(tmp_path: Path) -> None:
    file = StandingFile(str(tmp_path / "new/always.json"))
    assert file.read() == ()
    standing = StandingApproval(project="/p", commands=(("a", "b"),), digest="0f" * 32, by="me", at="now")
    file.add(standing)
    file.add(replace(standing, by="another"))
    assert [one.by for one in file.read()] == ["me"]
    Path(file.path).write_text('{"standing_approvals": [{"project": 1}]}')
    with pytest.raises(ConfigInvalid):
        file.read()


def test_the_command_line_shows_approves_lists_and_takes_back(serve: ServerFactory, tmp_path: Path) -> None:
    config = _config(tmp_path)
    server = serve(**config)
    ours = _project(tmp_path, "ours")
    asked = _start(Requests(server, create_token(server, "admin")), "touch", "made", cwd=ours)
    for words, code in ((("touch", "made"), 3), (("true",), 0)):
        assert (
            _typed(server, "policy", "check", "--cwd", str(ours), "--", *words, **config).returncode == code
        )
    shown = _typed(server, "approvals").stdout
    assert f"always   exactly these words, in {ours}" in shown
    digest = shown.rpartition("outlive approve ")[2].strip()
    assert "is approved for always" in _typed(server, "approve", "--always", digest).stderr
    told = _typed(server, "policy", "check", "--cwd", str(ours), "--", "touch", "made", **config)
    assert (told.returncode, "approved for always" in told.stdout) == (0, True), told
    assert (
        _typed(server, "policy", "check", "--cwd", str(ours), "--", "touch", "other", **config).returncode
        == 3
    )
    listed = _typed(server, "policy", "always", **config).stdout
    assert f"project  {ours}" in listed
    assert "words    'touch' 'made'" in listed
    gone = _typed(server, "policy", "forget", listed.rpartition("forget ")[2].strip(), **config)
    assert "is asked about again" in gone.stdout + gone.stderr
    assert "Nothing is approved for always." in _typed(server, "policy", "always", **config).stderr
    assert _typed(server, "policy", "forget", "0123456789ab", **config).returncode == 1
    assert asked["waits_for"] == "approval"


def _typed(server: OutliveServer, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*outlive_command(), *words],
        env={**os.environ, "OUTLIVE_STATE_DIR": str(server.state_dir), **env},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
