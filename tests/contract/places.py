"""Where commands run: six places with the same verbs. `Place` is what a test of the contract is given."""

import contextlib
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Unpack

import pytest

from outlive.client import Client, Process, StartOptions
from tests.contract.exceptions import EXCEPTIONS, Ability
from tests.contract.fleets import CPU_WORD, Node, open_fleet, wait_connected
from tests.extensions.docker.tools import remove_containers, serve_words
from tests.extensions.fleet.pairs import Pair
from tests.extensions.ray.cluster import RayCluster
from tests.support.server import OutliveServer

Name = Literal["local", "docker", "remote", "remote-docker", "static", "ray"]
NAMES: tuple[Name, ...] = ("local", "docker", "remote", "remote-docker", "static", "ray")
# A node that is named is half of what `static` is, and containers there are that and `docker`: both are
# walked through before a release.
CONTAINED = [
    pytest.param("docker", id="docker", marks=pytest.mark.docker),
    pytest.param("remote-docker", id="remote-docker", marks=(pytest.mark.docker, pytest.mark.rare)),
]
PLACES = [
    pytest.param("local", id="local"),
    pytest.param("remote", id="remote", marks=pytest.mark.rare),
    pytest.param("static", id="static", marks=pytest.mark.thorough),
    pytest.param("ray", id="ray", marks=pytest.mark.ray),
    *CONTAINED,
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Servers that are up: `near` is asked; they and the commands see `folder` under its own name.

    Commands run on its `nodes`, by the names that it has for them, and on its own machine where there are
    none. `options` yields for each start what says so, `words` are the same for `outlive run`.
    """

    name: Name
    near: OutliveServer
    folder: Path
    nodes: Mapping[str, Node] = field(default_factory=dict)
    options: Iterator[Mapping[str, Any]] | None = None
    words: tuple[str, ...] = ()

    @property
    def is_docker(self) -> bool:
        """Whether commands run in containers."""
        return self.name.endswith("docker")

    @property
    def runners(self) -> list[OutliveServer]:
        """The servers whose keepers have the commands."""
        return [node.server for node in self.nodes.values()] or [self.near]

    @property
    def servers(self) -> list[OutliveServer]:
        """All of them, the one that is asked first."""
        return [self.near, *(node.server for node in self.nodes.values())]

    def node_of(self, process: Process) -> Node | None:
        """Return the node on which a process was placed; None: it runs on the near server's machine."""
        location = process.info().location
        return None if location is None else self.nodes.get(location["backend"])

    def wait_connected(self) -> None:
        """Wait until the near server has all its nodes again."""
        # Nothing is placed on a node whose commands run in containers.
        wait_connected(self.near, is_placing=not self.is_docker)

    @contextlib.contextmanager
    def client(self) -> Iterator["Asker"]:
        """Return a client that asks the near server."""
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
        where: StartOptions = {"cwd": str(self.place.folder)}
        if self.place.options is not None:
            where |= next(self.place.options)  # type: ignore[typeddict-item] # options of a start
        return self.client.start(command, **(where | options))

    def get(self, process_id: str) -> Process:
        """Return a process by its name."""
        return self.client.get(process_id)


@contextlib.contextmanager
def open_place(
    name: Name,
    folder: Path,
    *,
    docker_host: Callable[[], str],
    cluster: Callable[[], RayCluster],
) -> Iterator[Place]:
    """Start the servers of a place; what is outside of them is asked for where it is needed."""
    work = folder / "w"
    work.mkdir()
    words: tuple[str, ...] = ()
    env: dict[str, str] = {}
    with contextlib.ExitStack() as stack:
        if name.endswith("docker"):
            env["DOCKER_HOST"] = docker_host()
            words = serve_words(work)
            runs = folder / ("near" if name == "docker" else "far")
            stack.callback(remove_containers, env["DOCKER_HOST"], runs)
        if name in {"local", "docker"}:
            near = stack.enter_context(OutliveServer(folder / "near", args=words, env=env))
            yield Place(name=name, near=near, folder=work)
        elif name in {"remote", "remote-docker"}:
            pair = stack.enter_context(
                Pair(folder, near_args=("--backend", "far"), far_args=words, far_env=env)
            )
            yield Place(
                name=name,
                near=pair.near,
                folder=work,
                nodes={"far": Node(server=pair.far, token=pair.token)},
                options=itertools.repeat({"backend": "far"}),
                words=("--backend", "far"),
            )
        else:
            fleet = stack.enter_context(open_fleet(folder, cluster() if name == "ray" else None))
            yield Place(
                name=name,
                near=fleet.near,
                folder=work,
                nodes=fleet.nodes,
                options=fleet.needs(),
                words=("--need", CPU_WORD),
            )
