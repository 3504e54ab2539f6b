"""The machines that a server's commands run on, as its client sees them: `AsyncFleet`, and `Fleet`, which
blocks (docs/fleet.md).

Copying files between them: `AsyncFiles`, and `Files`, which blocks; `client.files` carries it out.

What is passed on is checked by the server, once, for every door. All but `list` need the scope admin.
"""

import os
from collections.abc import Callable, Mapping
from typing import Any

from outlive.client.link import Link, Links
from outlive.client.results import Copied
from outlive.client.runtime import Blocking, Runtime, blocking

_Answer = Mapping[str, Any]


class AsyncFleet:
    """Lists, adds, invites, drains and removes nodes; made by `AsyncClient`.

    Each method returns a mapping: `nodes`, a list of mappings as `AsyncClient.nodes` has them; `local`, what
    this server's own machine has and what of it is free; `waiting`, the ids of this user's commands that wait
    for a place, the next first; `unfit`, those of them that no machine that is known could ever run; and
    `gateways`, the servers that this machine has joined as a node.
    """

    def __init__(self, link: Link) -> None:
        self._link = link

    async def list(self) -> _Answer:
        """Return all machines."""
        return await self._link.request("nodes", {})

    async def add(
        self,
        name: str,
        url: str,
        *,
        token: str = "",
        ca: str = "",
        labels: Mapping[str, str] | None = None,
        cpu: float | None = None,
        memory: int | None = None,
        gpu: float | None = None,
    ) -> _Answer:
        """Run commands on another server from now on, also after a restart; a node of that name is changed.

        Args:
            name: What it is called here: small letters, digits, dots, `-` and `_`.
            url: Its address, `https://host:8003`.
            token: A token of that server; a node that is changed keeps the one that it has.
            ca: PEM file, on the server's machine, of the authority of its certificate.
            labels: Labels beside those that it has itself.
            cpu: Processors, where it is to give fewer than it has;
            memory: bytes,
            gpu: and GPUs, likewise.

        Raises:
            InvalidRequest: The name has a meaning of its own, or the address is none.
        """
        params = {"name": name, "url": url, "token": token, "ca": ca, "labels": dict(labels or {})}
        amounts = {"cpu": cpu, "memory": memory, "gpu": gpu}
        return await self._link.request("node_add", {**params, **amounts})

    async def invite(self, name: str, *, labels: Mapping[str, str] | None = None) -> _Answer:
        """Let a machine join under a name by dialling in; `invitation` in the answer has the code, which
        counts once, for ten minutes.

        Raises:
            InvalidRequest: The name has a meaning of its own, or stands for a node that is reached by its
            address.
        """
        return await self._link.request("node_invite", {"name": name, "labels": dict(labels or {})})

    async def join(
        self, url: str, code: str, *, ca: str = "", labels: Mapping[str, str] | None = None
    ) -> _Answer:
        """Make this server's machine a node of the server at `url`, which has invited it: it is dialled from
        now on.

        Args:
            url: Its address, `wss://host:8003`.
            code: The code of the invitation.
            ca: PEM file, on this server's machine, of the authority of its certificate.
            labels: Labels of this machine beside those of the invitation.

        Raises:
            InvalidRequest: The address is none, or leads over a network without TLS.
            AccessDenied: The code does not count, or the certificate does not.
            BackendUnavailable: No server answers there.
        """
        params = {"url": url, "code": code, "ca": ca, "labels": dict(labels or {})}
        return await self._link.request("node_join", params, is_repeatable=False)

    async def leave(self, gateway: str) -> _Answer:
        """Run no more commands for a server that was joined, by its name in `gateways` or its address.

        What it has started goes on.

        Raises:
            InvalidRequest: This machine is no node of it.
        """
        return await self._link.request("node_leave", {"gateway": gateway})

    async def drain(self, name: str) -> _Answer:
        """Place no more commands on a node, or on "local"; what runs there goes on.

        Raises:
            InvalidRequest: There is none of that name.
        """
        return await self._link.request("node_drain", {"name": name})

    async def resume(self, name: str) -> _Answer:
        """Place commands there again.

        Raises:
            InvalidRequest: There is none of that name.
        """
        return await self._link.request("node_resume", {"name": name})

    async def adopt(self, name: str, *, ended: bool = False) -> _Answer:
        """Follow what other servers have started on a node, as if this server had; `adopted` in the answer
        has the ids.

        It belongs to this caller from then on. With `ended`, also what has ended and is not forgotten there.

        Raises:
            InvalidRequest: There is no node of that name.
            BackendUnavailable: `node_unavailable`.
        """
        return await self._link.request("node_adopt", {"name": name, "ended": ended})

    async def remove(self, name: str, *, force: bool = False) -> _Answer:
        """Forget a node that was added.

        With `force` also one where processes of this server run, which go on.

        Raises:
            InvalidRequest: There is none of that name, or a setting of the server names it.
            InvalidState: `node_busy`.
        """
        return await self._link.request("node_remove", {"name": name, "force": force})


class Fleet(Blocking[AsyncFleet]):
    """`AsyncFleet`, each method blocking."""

    list = blocking(AsyncFleet.list)
    add = blocking(AsyncFleet.add)
    invite = blocking(AsyncFleet.invite)
    join = blocking(AsyncFleet.join)
    leave = blocking(AsyncFleet.leave)
    drain = blocking(AsyncFleet.drain)
    resume = blocking(AsyncFleet.resume)
    adopt = blocking(AsyncFleet.adopt)
    remove = blocking(AsyncFleet.remove)


class AsyncFiles:
    """Copies files between machines; made by `AsyncClient`."""

    def __init__(self, links: Links, world: Runtime, state_dir: str | os.PathLike[str] | None) -> None:
        self._links = links
        self._world = world
        self._state_dir = state_dir

    async def copy(
        self,
        source: str | bytes | os.PathLike[str],
        target: str | bytes | os.PathLike[str],
        *,
        project: str | None = None,
        compare: bool = False,
        progress: Callable[[int], None] = lambda _bytes: None,
    ) -> Copied:
        """Copy a file, or a folder with all that is in it; what is there already is not sent again.

        Args:
            source: `PLACE:PATH`, or a path of this machine (./a:b for one with a colon). A place is `local`,
                the server's machine, or a node, or a process: the machine where that runs, in its folder.
            target: Where to; with a slash at its end, or `.`: into that folder, under the source's name.
            project: The folder in which processes are named, as for `get`.
            compare: Compare files of the same size and time by their content.
            progress: Called with the bytes of each piece that has arrived, or was there already.

        Raises:
            InvalidState: `file_missing`, `file_failed`, `file_changed`: nothing could be copied; what
            concerns one of many is in `left_out`.
            CommandRefused: The caller may not run any command there.
            AccessDenied: `path_refused`: outlive's own files are not copied.
            BackendUnavailable: The server or the node is away. The same call goes on where this one has
            stopped.

        Cancellation: what was copied stays; the same call goes on from there.
        """
        # Start-up time: most programs copy nothing, and this takes as many imports as the rest of the client.
        from outlive.client.files.copy import Copy  # noqa: PLC0415
        from outlive.client.files.words import parse_file_word  # noqa: PLC0415

        return await Copy(
            source=parse_file_word(os.fsencode(source)),
            target=parse_file_word(os.fsencode(target)),
            project=project,
            compare=compare,
            progress=progress,
            links=self._links,
            world=self._world,
            state_dir=None if self._state_dir is None else os.fspath(self._state_dir),
        ).run()


class Files(Blocking[AsyncFiles]):
    """`AsyncFiles`, blocking."""

    copy = blocking(AsyncFiles.copy)
