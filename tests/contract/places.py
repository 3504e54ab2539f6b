"""Where commands run: four places with the same verbs. `Place` is what a test of the contract is given."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Unpack

import pytest

from outlive.client import Client, Process, StartOptions
from tests.contract.exceptions import EXCEPTIONS, Ability
from tests.docker.tools import remove_containers, serve_words
from tests.remote.pairs import Pair
from tests.support.server import OutliveServer

Name = Literal["local", "docker", "remote", "remote-docker"]
NAMES: tuple[Name, ...] = ("local", "docker", "remote", "remote-docker")
CONTAINED = [
    pytest.param(name, id=name, marks=pytest.mark.docker) for name in NAMES if name.endswith("docker")
]
PLACES = [
    pytest.param("local", id="local"),
    pytest.param("remote", id="remote", marks=pytest.mark.thorough),
    *CONTAINED,
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Servers that are up: `near` is asked, `runs` has the keeper of the commands; they see `folder` under its own name."""

    name: Name
    near: OutliveServer
    runs: OutliveServer
    folder: Path
    pair: Pair | None = None

    @property
    def backend(self) -> str | None:
        """What a start names."""
        return "far" if self.pair is not None else None

    @property
    def is_docker(self) -> bool:
        """Whether commands run in containers."""
        return self.name.endswith("docker")

    @property
    def servers(self) -> list[OutliveServer]:
        """All of them."""
        return [self.near] if self.pair is None else [self.near, self.runs]

    @contextlib.contextmanager
    def client(self) -> Iterator["Asker"]:
        """Return who asks the near server."""
        with Client(self.near.state_dir, start_server=False) as client:
            yield Asker(self, client)

    def skip_unless(self, ability: Ability) -> None:
        """Skip a test of what this place is known not to do; the reason is the table's."""
        if reason := self.lacks(ability):
            pytest.skip(f"{self.name}: {reason}")

    def lacks(self, ability: Ability) -> str:
        """Return why this place does not do something; empty where it does."""
        return EXCEPTIONS.get((self.name, ability), "")


class Asker:
    """A client of the near server whose starts go to the place."""

    def __init__(self, place: Place, client: Client) -> None:
        """Ask through `client`."""
        self.place = place
        self.client = client

    def start(self, command: str | Sequence[str], **options: Unpack[StartOptions]) -> Process:
        """Start a command at the place, in its folder unless told otherwise."""
        options.setdefault("cwd", str(self.place.folder))
        if self.place.backend is not None:
            options.setdefault("backend", self.place.backend)
        return self.client.start(command, **options)

    def get(self, process_id: str) -> Process:
        """Return a process by its name."""
        return self.client.get(process_id)


@contextlib.contextmanager
def open_place(name: Name, folder: Path, docker_host: Callable[[], str], *words: str) -> Iterator[Place]:
    """Start the servers of a place; `words` go to the one that runs commands. `docker_host` is asked where it is needed."""
    work = folder / "w"
    work.mkdir()
    env: dict[str, str] = {}
    with contextlib.ExitStack() as stack:
        if name.endswith("docker"):
            env["DOCKER_HOST"] = docker_host()
            words = (*serve_words(work), *words)
            runs = folder / ("near" if name == "docker" else "far")
            stack.callback(remove_containers, env["DOCKER_HOST"], runs)
        if name in {"local", "docker"}:
            near = stack.enter_context(OutliveServer(folder / "near", args=words, env=env))
            yield Place(name=name, near=near, runs=near, folder=work)
        else:
            pair = stack.enter_context(
                Pair(folder, near_args=("--backend", "far"), far_args=words, far_env=env)
            )
            yield Place(name=name, near=pair.near, runs=pair.far, folder=work, pair=pair)
