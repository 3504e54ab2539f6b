"""The client for asyncio, `AsyncClient`, and `Client`, which is the same one run without an event loop.

They turn method calls into requests of docs/jsonrpc.md. One process is `process`'s, output and events are
`follow`'s, and lost connections are `link`'s. tests/client/test_twins.py holds that both clients offer the
same names and parameters.
"""

import contextlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Unpack

from outlive.client.fleet import AsyncFiles, AsyncFleet, Files, Fleet
from outlive.client.follow import AsyncEvents, AsyncFollow, Events, Follow
from outlive.client.link import Address, Link, Links, say_nothing
from outlive.client.messages import read_approval, read_info
from outlive.client.options import StartOptions, check_names, execute_params
from outlive.client.process import AsyncProcess, Process, position_of
from outlive.client.results import FinishedRun, Output, PendingApproval, ProcessInfo
from outlive.client.runtime import Blocking, Runtime, blocking, run
from outlive.client.services import (
    AsyncOutputs,
    AsyncProjectServices,
    AsyncServerFacts,
    AsyncTerminals,
    ClientTerminals,
    Outputs,
    ProjectServices,
    ServerFacts,
)
from outlive.client.thread_runtime import ThreadRuntime
from outlive.core.cursor import BEGINNING, Cursor
from outlive.core.identity import RANDOM_BYTES, ProcessId, new_process_id
from outlive.discovery.own_kind import own_nice, own_traceparent, own_umask

# Spelled out here because inside the classes `list` is the method.
_Infos = list[ProcessInfo]
_Approvals = list[PendingApproval]
_Nodes = list[dict[str, Any]]

_PATIENCE_S = 30.0  # longer than any start of a server


class AsyncClient(contextlib.AbstractAsyncContextManager["AsyncClient"]):
    """Starts, finds, follows and controls processes. Used from one event loop, by any number of its tasks.

    `async with` closes its connections at the end; processes go on, except those started with `detach=False`.
    All requests share one connection; each `follow` has one of its own. A lost connection is opened again.
    """

    def __init__(
        self,
        state_dir: str | os.PathLike[str] | None = None,
        *,
        url: str | None = None,
        token: str | None = None,
        ca_file: str | os.PathLike[str] | None = None,
        start_server: bool = True,
        patience_s: float = _PATIENCE_S,
        say: Callable[[str], None] = say_nothing,
        world: Runtime | None = None,
    ) -> None:
        """Name the server; nothing is opened before the first request.

        Args:
            state_dir: The state folder of the server; by default the usual one (`OUTLIVE_STATE_DIR`, else
                `~/.local/state/outlive`). Its Unix socket is used.
            url: A `ws://…/ws/mcp` or `wss://…/ws/mcp` address instead of a state folder.
            token: Sent as `Authorization: Bearer …`; by default the one in `OUTLIVE_TOKEN`, if any.
            ca_file: PEM file of the authorities that count for a `wss://` address; by default the system's.
            start_server: Start the server of the state folder when none runs; it outlives this program. Where
                it was stopped on purpose under this client, only `start` does that. A server that a service
                unit runs is never started here.
            patience_s: Seconds to wait for a server that went away.
            say: Called with one line of text when a server is started.
            world: How to wait, and how to open sockets; asyncio's way by default.

        A folder that cannot be used is `ConfigInvalid` at the first request.
        """
        if world is None:
            # Imported here: asyncio and ssl take longer than all the rest, and the blocking client needs no
            # event loop.
            from outlive.client.asyncio_runtime import AsyncioRuntime  # noqa: PLC0415

            world = AsyncioRuntime()
        self._address = Address(
            state_dir, url=url, token=token, ca_file=ca_file, starts_server=start_server, say=say
        )
        self._world = world
        self._links = Links(self._address, world, patience_s=patience_s)
        self._link = self._links.shared
        self.terminals = AsyncTerminals(self._link)
        self.server = AsyncServerFacts(self._link)
        self.services = AsyncProjectServices(self._link)
        self.outputs = AsyncOutputs(self._link)
        self.fleet = AsyncFleet(self._link)
        self.files = AsyncFiles(self._links, world, state_dir)

    async def __aexit__(self, *_exception: object) -> None:
        """Close."""
        await self.close()

    async def close(self) -> None:
        """Close all connections; a call that still waits raises `server_unavailable`. Safe to repeat."""
        await self._links.close()

    async def start(self, command: str | Sequence[str], **options: Unpack[StartOptions]) -> AsyncProcess:
        """Start a command and return once it runs.

        Args:
            command: A shell line, or a whole shell script, of any length; or a program and its arguments.
            **options: See `StartOptions`.

        Raises:
            StartFailed: Program or folder missing, not executable, an argument too long.
            CommandRefused: The operator's list does not allow it.
            InvalidRequest: Command or options make no sense.
            LimitExceeded: Too many processes, or the disk is full.
            BackendUnavailable: There is no server, or it does not answer.
            TypeError: There is no such option; nothing was sent.

        With a `key` that is known in its project nothing is started: the earlier process is returned,
        `is_new` False. The command starts once, also when the connection is lost meanwhile and the request is
        sent again. Cancellation: the command may run all the same, under the `process_id` that was passed.
        """
        check_names(options)
        process_id = ProcessId(
            options.get("process_id") or new_process_id(time.time_ns(), os.urandom(RANDOM_BYTES))
        )
        # A private process lives as long as its session: it gets a connection of its own, which resumes that
        # session.
        is_private = not options.get("detach", True)
        link = self._links.new(keeps_session=True) if is_private else self._link
        try:
            ours: StartOptions = {"umask": own_umask(), "nice": own_nice()}
            if (span := own_traceparent()) is not None:
                ours["traceparent"] = span
            params = execute_params(command, {**ours, **options}, process_id=process_id)
            self._address.starts += 1
            try:
                result = await link.request("execute", params)
            finally:
                self._address.starts -= 1
        except BaseException:
            if is_private:
                await self._links.drop(link)
            raise
        is_new = not result.get("repeated", False)
        if is_private and not is_new:
            # The process of an earlier start is not private to this new session, which has none.
            await self._links.drop(link)
            link = self._link
        return self._process(result, link, is_new=is_new)

    async def run(
        self, command: str | Sequence[str], *, check: bool = False, **options: Unpack[StartOptions]
    ) -> FinishedRun:
        """Start a command, wait for its end, and return it with its output, which is held in memory.

        Args:
            command: As for `start`.
            check: Whether an end with another exit code than 0 is an error, as in `subprocess.run`.
            **options: See `StartOptions`.

        Raises:
            subprocess.CalledProcessError: With `check`; it carries the output.

        And as `start`. Cancellation: the command goes on.
        """
        process = await self.start(command, **options)
        pieces: dict[str, list[bytes]] = {"stdout": [], "stderr": []}
        async for item in process.follow():
            if isinstance(item, Output):
                pieces[item.stream].append(item.data)
        code = (await process.wait()).returncode
        stdout, stderr = b"".join(pieces["stdout"]), b"".join(pieces["stderr"])
        if check and code != 0:
            import subprocess  # noqa: PLC0415 -- start-up time: few programs check

            raise subprocess.CalledProcessError(-1 if code is None else code, command, stdout, stderr)
        return FinishedRun(process_id=process.process_id, returncode=code, stdout=stdout, stderr=stderr)

    async def get(self, process_id: str, *, project: str | None = None) -> AsyncProcess:
        """Return a process, running or ended.

        Args:
            process_id: Its id, name, short id ("p7"), command id, the end of its id, its pid while it lives,
                or "@last".
            project: The folder in which names, short ids and "@last" count; by default those of no project.

        Raises:
            ProcessNotFound: There is none for this user.
            InvalidRequest: `process_ambiguous`: it could be several.
        """
        view = await self._link.request("get", _named(process_id, project))
        # A word may mean another process later; this object stays the one that it means now.
        return self._process(view, self._link)

    def attach(
        self, process_id: str, cursor: Cursor | str = BEGINNING, *, project: str | None = None
    ) -> AsyncFollow:
        """Return an iterator over a process's output from `cursor` on.

        See `AsyncProcess.follow`, and `get` for its names.
        """
        cursor = position_of(cursor)
        return AsyncFollow(self._links, process_id, cursor, over=self._link, project=project)

    async def list(
        self,
        *,
        active: bool | None = None,
        group: str | None = None,
        tags: Mapping[str, str] | None = None,
        project: str | None = None,
        key: str | None = None,
        short_id: str | None = None,
        name: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        alive_since: datetime | None = None,
        same_as: str | None = None,
        before: str | None = None,
        limit: int = 50,
    ) -> _Infos:
        """Return the processes of this user that meet all conditions, newest first, `limit` at most (1000).

        `active`: those that run, or those that have ended. `group` and `tags`: those of this group, with all
            of these tags.
        `project`: those of this folder (`StartOptions`), absolute. `key`, `short_id` ("p7") and `name`: those
        that are called so. `since` and `until`: those that were started from an aware moment on, before one.
        `alive_since`: not what had ended before one; with `until`, what lived between the two. `same_as`:
        runs of the same command in its folder. `before`: those older than this process_id.
        """
        params: dict[str, object] = {"active": active, "group": group, "tags": tags and dict(tags)}
        params |= {"project": project, "key": key, "short_id": short_id, "name": name}
        params |= {"same_as": same_as, "before": before, "limit": limit}
        times = {"since": since, "until": until, "alive_since": alive_since}
        params |= {member: at and at.isoformat() for member, at in times.items()}
        result = await self._link.request("list", params)
        return [read_info(view) for view in result["processes"]]

    async def call(
        self, operation: str, members: Mapping[str, object], *, is_repeatable: bool = False
    ) -> Mapping[str, Any]:
        """Have any operation of the server carried out, one of an extension for instance.

        Args:
            operation: Its name, as a method of docs/jsonrpc.md.
            members: What it takes.
            is_repeatable: Whether doing it twice is as good as once.

        Raises:
            BackendUnavailable: `server_lost`: whether it was done is not known (never if it is repeatable).
            OutliveError: What the server answers.
        """
        return await self._link.request(operation, members, is_repeatable=is_repeatable)

    async def remove(self, process_id: str, *, force: bool = False, project: str | None = None) -> None:
        """Forget a finished process: record, output and folder.

        Args:
            process_id: Which one, as for `get`, with `project`.
            force: End it first (KILL at once) if it, or a descendant, still runs.
            project: As for `get`.

        Raises:
            ProcessNotFound: There is none for this user.
            InvalidState: `process_running`, and `force` is not set.
            BackendUnavailable: `server_lost`: whether it was removed is not known.
        """
        params = {**_named(process_id, project), "force": force}
        await self._link.request("remove", params, is_repeatable=False)

    def events(
        self,
        *,
        events: Sequence[str] | None = None,
        process_ids: Sequence[str] | None = None,
        project: str | None = None,
        group: str | None = None,
        tags: Mapping[str, str] | None = None,
        states: Sequence[str] | None = None,
    ) -> AsyncEvents:
        """Return an iterator over what happens to processes of this user, as it happens; see `ProcessEvent`.

        Args:
            events: Only events of these names.
            process_ids: Only those of these processes, by any of their names (`get`).
            project: As for `get`.
            group: Only those of this group.
            tags: Only those of processes with all of these.
            states: Only those of processes that are in one of these states then.
        """
        params: dict[str, object] = {"project": project, "group": group}
        params["tags"] = None if tags is None else dict(tags)
        for name, wanted in (("events", events), ("process_ids", process_ids), ("states", states)):
            params[name] = None if wanted is None else list(wanted)
        return AsyncEvents(self._links, params)

    async def approvals(self, *, raw: bool = False) -> _Approvals:
        """Return the commands of all callers that wait for an approval, oldest first; `raw` hides no secrets
        in the words.

        Raises:
            AccessDenied: `scope_missing`: this needs the scope `admin`.
        """
        result = await self._link.request("approvals", {"raw": raw})
        return [read_approval(view) for view in result["approvals"]]

    async def approve(self, process_id: str, digest: str, *, always: bool = False) -> ProcessInfo:
        """Start a process that waits for an approval, if it is still the one that was shown:
        `PendingApproval.digest`.

        Raises:
            InvalidRequest: `invalid_params`: with `always` (the same in its project from now on), and it can
            be approved only once.
            AccessDenied: `scope_missing`: this needs the scope `admin`, and no process of this server may do
            it.
            InvalidState: `approval_settled`: it does not wait (any more). `approval_changed`: the digest is
            another one.
            ProcessNotFound: There is none.
        """
        params = {"process_id": process_id, "digest": digest, **({"always": True} if always else {})}
        return read_info(await self._link.request("approve", params, is_repeatable=False))

    async def deny(self, process_id: str, reason: str = "") -> ProcessInfo:
        """End a process that waits for an approval; it never runs, and its caller reads `reason`.

        Raises:
            AccessDenied, InvalidState, ProcessNotFound: As `approve`.
        """
        params = {"process_id": process_id, "reason": reason}
        return read_info(await self._link.request("deny", params, is_repeatable=False))

    async def default_backend(self) -> str:
        """Return the backend of commands that name none: "local", "docker", or the name of a node.

        Raises:
            BackendUnavailable: `server_unavailable`.
        """
        return (await self._link.channel()).hello.backend

    async def degraded(self) -> str | None:
        """Return why the server could start nothing when this connection was opened; None: it could.

        "disk_full", "disk_silent", "read_only" or "folder_gone", of its state folder.

        Raises:
            BackendUnavailable: `server_unavailable`.
        """
        return (await self._link.channel()).hello.degraded

    async def nodes(self) -> _Nodes:
        """Return the other servers that run commands for this one, as mappings.

        Each has `name`, `address`, `state` ("connected" or "away"), `since` (ISO 8601), `reason` and `hint`
        while it is away, and the number of `processes` that are followed there.
        """
        return [*(await self._link.request("nodes", {}))["nodes"]]

    def _process(self, view: Mapping[str, Any], link: Link, *, is_new: bool = False) -> AsyncProcess:
        """Return the handle of a process that is asked for over `link`."""
        process_id, pid = ProcessId(view["process_id"]), view["pid"]
        return AsyncProcess(process_id, pid, links=self._links, link=link, world=self._world, is_new=is_new)


def _named(word: str, project: str | None) -> dict[str, object]:
    """Return the parameters that name a process."""
    return {"process_id": word} if project is None else {"process_id": word, "project": project}


class Client(Blocking[AsyncClient], contextlib.AbstractContextManager["Client"]):
    """`AsyncClient` for programs without an event loop. May be used from several threads.

    A `with` block closes its connections at the end; processes go on, except those started with
    `detach=False`.
    """

    def __init__(
        self,
        state_dir: str | os.PathLike[str] | None = None,
        *,
        url: str | None = None,
        token: str | None = None,
        ca_file: str | os.PathLike[str] | None = None,
        start_server: bool = True,
        patience_s: float = _PATIENCE_S,
        say: Callable[[str], None] = say_nothing,
    ) -> None:
        """Name the server; nothing is opened before the first request.

        The arguments are those of `AsyncClient`.
        """
        twin = AsyncClient(
            state_dir,
            url=url,
            token=token,
            ca_file=ca_file,
            start_server=start_server,
            patience_s=patience_s,
            say=say,
            world=ThreadRuntime(),
        )
        super().__init__(twin)
        self.terminals = ClientTerminals(twin.terminals)
        self.server = ServerFacts(twin.server)
        self.services = ProjectServices(twin.services)
        self.outputs = Outputs(twin.outputs)
        self.fleet = Fleet(twin.fleet)
        self.files = Files(twin.files)

    def start(self, command: str | Sequence[str], **options: Unpack[StartOptions]) -> Process:
        """Start a command and return once it runs; see `AsyncClient.start`."""
        return Process(run(self._twin.start(command, **options)))

    def run(
        self, command: str | Sequence[str], *, check: bool = False, **options: Unpack[StartOptions]
    ) -> FinishedRun:
        """Start a command, wait for its end, and return it with its output; see `AsyncClient.run`."""
        return run(self._twin.run(command, check=check, **options))

    def get(self, process_id: str, *, project: str | None = None) -> Process:
        """Return a process, running or ended; see `AsyncClient.get`."""
        return Process(run(self._twin.get(process_id, project=project)))

    def attach(
        self, process_id: str, cursor: Cursor | str = BEGINNING, *, project: str | None = None
    ) -> Follow:
        """Return an iterator over a process's output from `cursor` on; see `AsyncClient.attach`."""
        return Follow(self._twin.attach(process_id, cursor, project=project))

    def events(
        self,
        *,
        events: Sequence[str] | None = None,
        process_ids: Sequence[str] | None = None,
        project: str | None = None,
        group: str | None = None,
        tags: Mapping[str, str] | None = None,
        states: Sequence[str] | None = None,
    ) -> Events:
        """Return an iterator over what happens, as it happens; see `AsyncClient.events`."""
        asynchronous = self._twin.events(
            events=events,
            process_ids=process_ids,
            project=project,
            group=group,
            tags=tags,
            states=states,
        )
        return Events(asynchronous)

    call = blocking(AsyncClient.call)
    list = blocking(AsyncClient.list)
    remove = blocking(AsyncClient.remove)
    approvals = blocking(AsyncClient.approvals)
    approve = blocking(AsyncClient.approve)
    deny = blocking(AsyncClient.deny)
    default_backend = blocking(AsyncClient.default_backend)
    degraded = blocking(AsyncClient.degraded)
    nodes = blocking(AsyncClient.nodes)
    close = blocking(AsyncClient.close)
    __exit__ = blocking(AsyncClient.__aexit__)
