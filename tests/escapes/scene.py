"""Where an attack takes place: a real keeper of one user, victims of the same user, and a folder to attack
from.
"""

import asyncio
import json
import os
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self
from unittest import mock

import outlive
from outlive.config import Settings
from outlive.core.command import Command, Profile
from outlive.engine.commands.resolver import Resolved
from outlive.engine.commands.sandbox import Sandboxes
from outlive.keeper.common.spawn import SHIM_VARIABLE
from outlive.keeper.sandbox.capabilities import Capabilities, read_offers
from outlive.protocols.keeper import encode_message
from tests.keeper.house import House, shim_program
from tests.sandbox.ordinary import ENSURE, ordinary_outlive
from tests.support.run_mark import open_folder_of_run
from tests.support.server import OutliveServer

SYSTEM_PYTHON = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else os.path.realpath(sys.executable)
_HERE = Path(__file__).parent
_END = encode_message({"op": "end", "req": 1, "kill": True})
_LIST = b"GET /v1/processes HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
_ATTACK = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); from tests.escapes.attacker.run import main; main()"
)


class _House(House):
    """A keeper that another user starts, from a copy of our source that he may read."""

    def __init__(self, state_dir: Path, *, source: Path, user: int, env: Mapping[str, str]) -> None:
        super().__init__(state_dir, env=env)
        self._source, self.user = source, user
        self._settings = {SHIM_VARIABLE: str(shutil.copy(shim_program(), source / "shim")), **env}

    def ensure(self) -> None:
        """Start it as that user."""
        words = [SYSTEM_PYTHON, "-S", "-s", "-P", "-c", ENSURE, str(self._source), str(self.state_dir)]
        env = {"PATH": "/usr/bin:/bin", "HOME": str(self.state_dir), **self._settings}
        subprocess.run(
            words, env=env, cwd="/", user=self.user, group=self.user, extra_groups=[], timeout=60, check=True
        )


class Scene:
    """All of it, in a folder that is removed in the end; a context manager."""

    def __init__(self, *, user: int, degrade: str = "") -> None:
        """Describe it: whose everything is; `degrade` is what the keeper is to do without
        (`OUTLIVE_DEGRADE`).
        """
        self.user = user
        self._env = {"OUTLIVE_DEGRADE": degrade} if degrade else {}
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        """Start keeper and victims."""
        # Neither in the tests' own folder, which other users cannot enter, nor in a folder that is a home.
        self.folder = open_folder_of_run()
        self._stack.callback(shutil.rmtree, self.folder, ignore_errors=True)
        try:
            self._build()
        except BaseException:
            self._stack.close()
            raise
        return self

    def _build(self) -> None:
        self.folder.chmod(0o755)
        self.workspace = self.folder / "workspace"
        own = [self.folder / name for name in ("state", "home", "workspace", "yard")]
        for place in own:
            place.mkdir(mode=0o700)
        (self.folder / "home" / "private").write_text("private")
        self._copy_programs()
        for place in (*own, self.folder / "home" / "private", self._program / "readable"):
            os.chown(place, self.user, self.user)
        self.house = self._stack.enter_context(self._house(self.folder / "state"))
        victim = subprocess.Popen(
            [
                SYSTEM_PYTHON,
                "-I",
                "-S",
                str(self._program / "victim.py"),
                str(self.folder / "yard" / "outside"),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            user=self.user if os.geteuid() == 0 else None,
            group=self.user if os.geteuid() == 0 else None,
            extra_groups=[] if os.geteuid() == 0 else None,
        )
        self._victim = self._stack.enter_context(victim)
        self._told: dict[str, Any] = json.loads(self._line())
        # Before the server: its first look for what earlier servers left takes a folder without a record for
        # such a thing.
        bystander = self.house.start("/bin/sleep", "600")
        self.house.shim_of(bystander)
        self._start_server()
        self._told["pids"] |= {
            "supervisor": self.house.supervisor(),
            "guardian": self.house.guardian(),
            "shim": self.house.shim_of(bystander),
            "command": self.house.pid(bystander),
        }
        self._told |= {
            "state": f"{self.house.folder(bystander)}/spec",
            "home": str(self.folder / "home" / "private"),
            "readable": str(self._program / "readable"),
            "state_dir": str(self.house.state_dir),
            "sockets": [
                ("shim", f"{self.house.folder(bystander)}/sock", b"release".hex(), socket.SOCK_SEQPACKET, ""),
                ("guardian", self.house.layout.guardian_socket, b"spawn".hex(), socket.SOCK_SEQPACKET, ""),
                (
                    "supervisor",
                    self.house.layout.keeper_socket,
                    _END.hex(),
                    socket.SOCK_SEQPACKET,
                    '"ok":true',
                ),
                ("server", self.house.layout.server_socket, _LIST.hex(), socket.SOCK_STREAM, " 200 OK"),
            ],
        }

    def _copy_programs(self) -> None:
        """Put what the user runs where the user can read it."""
        self._program = self.folder / "program"
        packages = self._program / "tests" / "escapes"
        shutil.copytree(
            _HERE / "attacker", packages / "attacker", ignore=shutil.ignore_patterns("__pycache__")
        )
        forging = packages.parent / "sandbox" / "forging.py"
        forging.parent.mkdir()
        shutil.copy(_HERE.parent / "sandbox" / "forging.py", forging)
        for package in (packages.parent, packages, forging.parent):
            (package / "__init__.py").touch()
        shutil.copy(_HERE / "victim.py", self._program)
        (self._program / "readable").write_text("readable")

    def _start_server(self) -> None:
        """Start a server of the same user."""
        env = {}
        if self.user != os.geteuid():
            if not (words := ordinary_outlive()):
                return  # nothing that this user can reach runs one
            env = {"OUTLIVE_TEST_COMMAND": shlex.join(words), "HOME": str(self.folder / "home")}
        with mock.patch.dict(os.environ, env):
            server = OutliveServer(self.house.state_dir).start()
        self._stack.callback(server.stop)
        self._told["pids"]["server"] = server.pid

    def _house(self, state_dir: Path) -> House:
        if self.user == os.geteuid():
            return House(state_dir, env=self._env)
        source = self.folder / "src"
        for name in ("core", "keeper", "kernel", "protocols"):
            shutil.copytree(
                Path(outlive.__file__).parent / name,
                source / "outlive" / name,
                ignore=shutil.ignore_patterns("*.pyc"),
            )
        shutil.copy(outlive.__file__, source / "outlive")
        return _House(state_dir, source=source, user=self.user, env=self._env)

    def _line(self) -> str:
        assert self._victim.stdout is not None
        return self._victim.stdout.readline().decode()

    def __exit__(self, *_: object) -> None:
        """End everything."""
        assert self._victim.stdin is not None
        self._victim.stdin.close()
        self._victim.wait(timeout=20)
        self._stack.close()

    def victim(self) -> dict[str, Any]:
        """Return how things stand with the victim, as it says itself."""
        assert self._victim.stdin is not None
        self._victim.stdin.write(b"look\n")
        self._victim.stdin.flush()
        found: dict[str, Any] = json.loads(self._line())
        return found

    def dead(self) -> list[str]:
        """Return which of the processes that are attacked run no more."""
        return [name for name, pid in self._told["pids"].items() if not os.path.exists(f"/proc/{pid}")]

    def offers(self) -> Capabilities:
        """Return what this keeper offers."""
        reply = self.house.client.ask("offers")
        return read_offers(str(reply["found"]))

    def steps(self, profile: Profile) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the steps of a profile as the engine chooses them, and what they promise."""
        sandboxes = Sandboxes(
            Settings(sandbox_read=(str(self._program),)),
            state_dir=str(self.house.state_dir),
            environment={"HOME": str(self.folder / "home"), "PATH": "/usr/bin:/bin"},
        )
        sandboxes.assume(self.offers())
        command = Command(line="x")
        confined = asyncio.run(
            sandboxes.confine(
                Resolved(program="", argv=(), env={}, cwd=str(self.workspace), shell=None),
                command,
                profile,
                name="x",
                script=None,
            )
        )
        return confined.steps or (), confined.sandbox.features

    def attack(self, steps: Iterable[str], *, only_keeper: bool = False) -> dict[str, str]:
        """Try everything within some steps, or only what is aimed at the keeper.

        Return the outcomes by name.
        """
        plan = self.workspace / "plan"
        plan.write_text(json.dumps(self._told | {"only_keeper": only_keeper}))
        plan.chmod(0o644)
        words = (SYSTEM_PYTHON, "-I", "-S", "-c", _ATTACK, str(self._program), f"@{plan}")
        code, out, err = self.run(steps, *words)
        assert code == 0, (code, err[-2000:])
        found: dict[str, str] = json.loads(out.splitlines()[-1])
        return found

    def run(self, steps: Iterable[str], *words: str) -> tuple[int, bytes, bytes]:
        """Run a program in the workspace, within some steps; returns exit code, stdout and stderr."""
        folder = str(self.workspace)
        env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": folder, "LC_ALL": "C.UTF-8"}
        return self.house.run(*words, cwd=folder, env=env, confinement=tuple(steps) or None)
