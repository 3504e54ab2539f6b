"""Outlive's own installation under attack: a command within a profile writes where outlive reads its code,
or puts another program where it might look for one.
"""

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest

import outlive
from outlive.core.command import Profile
from outlive.discovery.runner_build import compiled_runner
from tests.cli.launching import run
from tests.keeper.house import shim_program
from tests.sandbox.ordinary import NOBODY, SYSTEM_PYTHON, as_nobody, open_folder, ordinary_outlive
from tests.support.server import OutliveServer, end_keeper

pytestmark = pytest.mark.walls

_EVIL = "#!/bin/sh\ntouch {mark}\necho outlive-runner 1\n"


def _run(server: OutliveServer, words: Sequence[str], cwd: Path, *, profile: str) -> str:
    """Run a command; return what it has written to stderr."""
    return run(
        "run", "--state-dir", str(server.state_dir), "--profile", profile, "--", *words, cwd=cwd
    ).stderr


@pytest.mark.parametrize(
    "way",
    [
        "opened cache",
        "cache below tmp",
        pytest.param("another user's", marks=pytest.mark.root("gives a file to another user")),
    ],
)
def test_a_file_in_the_users_cache_is_never_executed(way: str, tmp_path: Path) -> None:
    """An opened cache, one below a temporary folder, and another user's, while the server is root's."""
    with tempfile.TemporaryDirectory(dir="/tmp") as below, open_folder() as elsewhere:
        # The state folder is not in /tmp, which would be closed to commands then.
        _plant_and_start(way, Path(below) if way == "cache below tmp" else tmp_path, elsewhere / "state")


def _plant_and_start(way: str, place: Path, state: Path) -> None:
    workspace, cache, mark = place / "w", place / "home" / ".cache", place / "ran"
    for folder in (workspace, cache / "outlive"):
        folder.mkdir(parents=True)
    planted = compiled_runner(os.uname().machine, cache / "outlive")
    shutil.copy(shim_program(), planted)
    evil = workspace / "evil"
    evil.write_text(_EVIL.format(mark=mark))
    evil.chmod(0o755)
    args = ["--sandbox-write", str(cache)] if way == "opened cache" else []
    env = {"HOME": str(place / "home"), "XDG_CACHE_HOME": str(cache)}
    with OutliveServer(state, args=args, env=env) as server:
        plant = ["/bin/cp", "--remove-destination", str(evil), str(planted)]
        if way == "another user's":
            subprocess.run(plant, check=True)
            os.chown(planted, NOBODY, NOBODY)
        else:
            assert _run(server, plant, workspace, profile="workspace") == ""
        assert planted.read_text().startswith("#!")
        server.stop()
        end_keeper(server.state_dir)
        server.start()
        assert _run(server, ["/bin/true"], workspace, profile="open") == ""
    assert not mark.exists()


# What a command tries in its folder: PACKAGE is the folder of the package's folder, VENV the environment.
_ATTEMPTS = """
try() { if (eval "$1") 2>/dev/null; then echo "open: $1"; fi; }
rename() { "$PYTHON" -I -S -c 'import os, sys; os.rename(*sys.argv[1:])' "$@"; }  # mv would copy
try 'echo >> $PACKAGE/outlive/__init__.py'
try 'echo > $PACKAGE/sitecustomize.py'
try 'echo > $PACKAGE/outlive/core/__pycache__/errors.pyc'
try 'rm $PACKAGE/outlive/app.py'
try 'ln $PACKAGE/outlive/app.py hard'
try 'ln -s $PACKAGE/outlive soft; echo >> soft/app.py'
try 'chmod 666 $PACKAGE/outlive/app.py'
try 'rename $PACKAGE moved'
try 'rename $(dirname $PACKAGE) moved'
try 'rename $VENV moved'
try 'rename $VENV/lib moved'
try 'echo > $VENV/lib/python3*/site-packages/evil.pth'
try 'echo >> $VENV/bin/outlive'
try 'ln -sfn /bin/sh $VENV/bin/python'
try 'rm $VENV/bin/python'
try 'echo >> $VENV/pyvenv.cfg'
try 'mkdir over; mount --bind $VENV over'
try 'umount $VENV'
try 'echo > /proc/self/cwd/$PACKAGE/evil.py'
try 'echo > /proc/self/root/$PWD/$PACKAGE/evil.py'
try 'rename ../$(basename "$PWD") ../moved'
rm -rf soft over
if [ -e another-name.py ]; then echo '# written by a command' >> another-name.py; fi
echo made > new-file && mv new-file newer-file && mkdir new-folder && rm -r newer-file new-folder || exit
echo "can write"
"""
_PROFILES = [Profile.WORKSPACE, Profile.OFFLINE, Profile.SEALED]


def _try_everything(
    folder: Path, state: Path, *, package: str, venv: str, command: Sequence[str] = ()
) -> None:
    """Try it in each profile, of one server."""
    env = {"PACKAGE": package, "VENV": venv, "PYTHON": SYSTEM_PYTHON}
    words = [f"--env={name}={text}" for name, text in env.items()]
    with pytest.MonkeyPatch.context() as patched:
        if command:
            patched.setenv("OUTLIVE_TEST_COMMAND", shlex.join(command))
        with OutliveServer(state) as server:
            for profile in _PROFILES:
                said = run(
                    *("run", "--state-dir", str(server.state_dir), "--profile", profile.value, *words),
                    *("--", "/bin/sh", "-c", _ATTEMPTS),
                    cwd=folder,
                )
                if "sandbox_unavailable" in said.stderr or "cannot be had" in said.stderr:
                    pytest.skip(said.stderr)
                assert said.stdout == "can write\n", (profile, said.stderr)


@pytest.mark.promise("S0.3.profile")
def test_a_checkout_is_read_only_for_a_command_that_runs_in_it() -> None:
    """This one: the rest of it can be written."""
    checkout, venv = Path(outlive.__file__).parents[2], Path(sys.prefix)
    if (
        not (checkout / "pyproject.toml").exists()
        or venv.parent != checkout
        or not os.access(checkout, os.W_OK)
    ):
        pytest.skip("these tests run from no checkout with an environment in it")
    with open_folder() as elsewhere:
        _try_everything(checkout, elsewhere / "state", package="src", venv=venv.name)


@pytest.mark.promise("S0.3.profile")
@pytest.mark.parametrize(
    "whose", ["ours", pytest.param("another's", marks=pytest.mark.root("becomes a user"))]
)
def test_a_project_that_outlive_is_installed_in_is_writable_but_for_that(whose: str) -> None:
    """Two folders above the environment keep their names, too, and so does a link by which it is called."""
    python = SYSTEM_PYTHON if whose == "another's" else sys.executable
    if whose == "another's" and not ordinary_outlive():
        pytest.skip("no other user can run outlive here")
    with open_folder() as place:
        project = place / "project"
        real = project / "tools" / "env" / "venv"
        subprocess.run([python, "-m", "venv", "--without-pip", str(real)], check=True)
        (site,) = real.glob("lib/python3*/site-packages")
        shutil.copytree(
            Path(outlive.__file__).parent, site / "outlive", ignore=shutil.ignore_patterns("__pycache__")
        )
        (site / "others.pth").write_text(
            "\n".join(path for path in sys.path if "site-packages" in path) + "\n"
        )
        # As uv does: the same file is in its cache, or in another environment.
        os.link(site / "outlive" / "app.py", project / "another-name.py")
        (project / ".venv").symlink_to("tools/env/venv")
        script = project / ".venv" / "bin" / "outlive"
        script.write_text(f"#!{project}/.venv/bin/python\nfrom outlive.cli.main import main\nmain()\n")
        script.chmod(0o755)
        if whose == "another's":
            for folder, _, files in os.walk(place):
                for path in (folder, *(os.path.join(folder, name) for name in files)):
                    os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
            os.chown(project / ".venv", NOBODY, NOBODY, follow_symlinks=False)
        command = [str(script)] if whose == "ours" else as_nobody(str(script))
        _try_everything(
            project,
            place / "state",
            package=os.path.relpath(site, project),
            venv=".venv",
            command=command,
        )
        written = (project / "another-name.py").read_text()
        assert written.endswith("# written by a command\n" * len(_PROFILES))
        assert (site / "outlive" / "app.py").read_text() == (
            Path(outlive.__file__).parent / "app.py"
        ).read_text()


@pytest.mark.promise("S0.3.profile")
@pytest.mark.parametrize("how", ["working folder", "sandbox-write", "no namespaces"])
def test_it_does_not_run_where_outlives_own_cannot_be_kept_from_it(tmp_path: Path, how: str) -> None:
    package = Path(outlive.__file__).parent
    env, args, cwd = {"HOME": str(tmp_path / "home")}, [], tmp_path / "w"
    for folder in (cwd, tmp_path / "home" / ".config"):
        folder.mkdir(parents=True)
    if how == "working folder":
        cwd = package / "core"
    elif how == "sandbox-write":
        args = ["--sandbox-write", str(package)]
    else:
        env |= {"OUTLIVE_DEGRADE": "namespaces"}
        args = ["--sandbox-write", str(package.parent.parent)]
    with open_folder() as elsewhere, OutliveServer(elsewhere / "state", args=args, env=env) as server:
        said = run(
            "run", "--state-dir", str(server.state_dir), "--profile", "workspace", "--", "/bin/true", cwd=cwd
        )
    assert said.returncode == 125
    assert "The profile 'workspace' cannot be had here: " in said.stderr
    assert ("no mounts can be made" if how == "no namespaces" else "may write to") in said.stderr
    assert "outlive's own" in said.stderr


@pytest.mark.parametrize("profile", _PROFILES, ids=lambda one: one.value)
def test_settings_that_are_not_there_yet_are_not_made_by_a_command(tmp_path: Path, profile: Profile) -> None:
    """Not even in a home below a temporary folder; the workspace in it can be written."""
    home = tmp_path / "home"
    (home / "w").mkdir(parents=True)
    line = (
        "mkdir -p ../.config/outlive; echo >../.config/outlive/config.toml; mv ../.config ../moved; "
        "ln -s . ../.config; echo here > made"
    )
    env = {"HOME": str(home), "XDG_CONFIG_HOME": ""}
    args = ["--sandbox-write", str(home)]
    with open_folder() as elsewhere, OutliveServer(elsewhere / "state", args=args, env=env) as server:
        said = run(
            *("run", "--state-dir", str(server.state_dir), "--profile", profile.value),
            *("--", "/bin/sh", "-c", line),
            cwd=home / "w",
        )
    assert said.returncode == 0, said.stderr
    assert (home / "w" / "made").read_text() == "here\n"
    assert os.listdir(home / ".config" / "outlive") == []
    assert sorted(os.listdir(home)) == [".config", "w"]
