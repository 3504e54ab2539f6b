"""A project's services as the client sees them: `AsyncProjectServices`, and `ProjectServices`, which blocks
(docs/services.md).

What a project declares is passed on as it is: the server checks it, once, for every door.

The calls of docs/terminals.md: `AsyncTerminals`, and `ClientTerminals`, which blocks.

Searching the output of all processes: `AsyncOutputs`, and `Outputs`, which blocks.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast

from outlive.client.link import ANSWER_S, Link
from outlive.client.messages import read_found, read_stacks
from outlive.client.results import DiskReport, FoundLines, StackInfo
from outlive.client.runtime import Blocking, blocking, run

_Stacks = list[StackInfo]


class AsyncProjectServices:
    """Brings services up, stops, restarts and lists them; made by `AsyncClient`.

    `folder` is the one in which the project's file lies, absolute; it names the project's services.
    """

    def __init__(self, link: Link) -> None:
        self._link = link

    async def up(
        self,
        folder: str,
        services: Mapping[str, Mapping[str, Any]],
        *,
        names: Sequence[str] = (),
        project: str | None = None,
        environment: Mapping[str, str] | None = None,
        umask: int | None = None,
        nice: int | None = None,
    ) -> StackInfo:
        """Start what is new or has ended, restart what has changed, stop what is gone.

        Return once that has begun.

        Args:
            folder: The project's folder.
            services: All services of the project by name, as docs/services.md has them.
            names: Only these, with what they wait for.
            project: Where their processes have names and short ids; the folder by default.
            environment: What each of them begins with. It is kept, so it holds no secrets.
            umask: Permissions that their new files do not get; the server's by default.
            nice: What they begin with; the server's by default.

        Raises:
            InvalidRequest: A declaration makes no sense.
            CommandRefused: This caller may not do that to what runs.
            LimitExceeded: Too many projects have services.
        """
        params = {
            "folder": folder,
            "services": {name: dict(one) for name, one in services.items()},
            "names": list(names),
            "project": project,
            "environment": dict(environment or {}),
            "umask": None if umask is None else f"{umask:03o}",
            "nice": nice,
        }
        return await self._one("services_up", params)

    async def down(
        self, folder: str, *, names: Sequence[str] = (), grace_s: float | None = None
    ) -> StackInfo:
        """Stop services, those that wait for others first; return once that has begun.

        Args:
            folder: The project's folder.
            names: Only these.
            grace_s: Seconds until KILL instead of each service's own; 0 kills.

        Raises:
            ProcessNotFound: There are no such services.
        """
        return await self._one("services_down", {"folder": folder, "names": list(names), "grace": grace_s})

    async def restart(self, folder: str, *, names: Sequence[str] = ()) -> StackInfo:
        """End services and start them again; what does not run is started. Return once that has begun.

        Raises:
            ProcessNotFound: There are no such services.
            BackendUnavailable: `server_lost`: whether it was begun is not known.
        """
        params = {"folder": folder, "names": list(names)}
        return await self._one("services_restart", params, is_repeatable=False)

    async def list(
        self, folder: str | None = None, *, revision: int | None = None, wait_s: float = 0.0
    ) -> _Stacks:
        """Return services of this user: of one project, or of all.

        Args:
            folder: Only those of this project; empty where it has none.
            revision: With `folder`: return once they have another revision than this one,
            wait_s: or after so many seconds.

        Cancellation: safe.
        """
        params = {"folder": folder, "revision": revision, "wait_s": wait_s}
        return read_stacks(await self._link.request("services_list", params, answer_s=ANSWER_S + wait_s))

    async def _one(
        self, method: str, params: Mapping[str, object], *, is_repeatable: bool = True
    ) -> StackInfo:
        (stack,) = read_stacks(await self._link.request(method, params, is_repeatable=is_repeatable))
        return stack


class ProjectServices(Blocking[AsyncProjectServices]):
    """`AsyncProjectServices` for programs without an event loop."""

    up = blocking(AsyncProjectServices.up)
    down = blocking(AsyncProjectServices.down)
    restart = blocking(AsyncProjectServices.restart)
    list = blocking(AsyncProjectServices.list)


class AsyncServerFacts:
    """What the server says of itself and its machine."""

    def __init__(self, link: Link) -> None:
        self._link = link

    async def disk(self) -> DiskReport:
        """Return what takes the state folder's disk, by project and state, and what retention will remove.

        Every folder is looked at, which takes half a second for ten thousand.
        """
        return cast("DiskReport", await self._link.request("disk", {}))

    async def statistics(self, /, **span: object) -> Mapping[str, Any]:
        """Return starts, ends and failures in a span of time, and when no server ran.

        Takes and returns the members of GET /v1/statistics (docs/rest.md); times are texts of RFC 3339.

        Raises:
            InvalidRequest: The span makes no sense.
        """
        return await self._link.request("statistics", span)

    async def audit(self, /, **wanted: object) -> Mapping[str, Any]:
        """Return entries of the audit log, newest first: the members of GET /v1/audit (docs/rest.md).

        Raises:
            AccessDenied: The caller is no administrator.
        """
        return await self._link.request("audit", wanted)

    async def groups(self) -> Mapping[str, Any]:
        """Return this user's groups and what waits in each: the members of GET /v1/groups (docs/rest.md)."""
        return await self._link.request("groups", {})

    async def move(self, process_id: str, places: int) -> None:
        """Put a process that waits for its turn so many places back in its group's line, or forward where
        that is negative.

        Raises:
            InvalidState: `not_in_line`: it does not wait, or not any more.
            BackendUnavailable: `server_lost`: whether it was moved is not known.
        """
        params = {"process_id": process_id, "places": places}
        await self._link.request("move", params, is_repeatable=False)

    async def settings(self) -> Mapping[str, Any]:
        """Return the settings in effect and where each comes from: the members of GET /v1/settings
        (docs/rest.md).

        Raises:
            AccessDenied: The caller is no administrator.
        """
        return await self._link.request("settings", {})

    async def checks(self) -> Mapping[str, Any]:
        """Return what `outlive doctor` finds where the server runs: the members of GET /v1/checks
        (docs/rest.md).

        Raises:
            AccessDenied: The caller is no administrator.
            BackendUnavailable: It gave no answer.
        """
        return await self._link.request("checks", {})


class ServerFacts(Blocking[AsyncServerFacts]):
    """`AsyncServerFacts` for programs without an event loop."""

    disk = blocking(AsyncServerFacts.disk)
    statistics = blocking(AsyncServerFacts.statistics)
    audit = blocking(AsyncServerFacts.audit)
    groups = blocking(AsyncServerFacts.groups)
    move = blocking(AsyncServerFacts.move)
    settings = blocking(AsyncServerFacts.settings)
    checks = blocking(AsyncServerFacts.checks)


TerminalCall = Literal["list", "create", "execute", "read", "write", "resize", "close"]
_REPEATABLE = frozenset({"list", "read", "resize"})  # the others would open, type or close something twice
_DEFAULT_WAIT_S = 45.0  # of `execute`, unless the caller or the server's operator sets another time


class AsyncTerminals:
    """The seven calls of docs/terminals.md."""

    def __init__(self, link: Link) -> None:
        self._link = link

    async def call(self, call: TerminalCall, **members: Any) -> Mapping[str, Any]:  # noqa: ANN401 -- JSON, as the page has it
        """Make a call of docs/terminals.md ("execute" for `terminal_execute`) and return the members of its
        answer.

        Args:
            call: Which.
            **members: Its parameters, by name; None leaves one out.

        Raises:
            ProcessNotFound: `terminal_not_found`.
            InvalidState: `terminal_busy`: something runs there already.
            BackendUnavailable: `server_lost`: the server went away meanwhile, and whether the call was done
            is not known.
            OutliveError: The others of that page.
        """
        params = {name: value for name, value in members.items() if value is not None}
        wait_s = float(params.get("wait_s", _DEFAULT_WAIT_S)) if call == "execute" else 0.0
        return await self._link.request(
            f"terminal_{call}", params, answer_s=ANSWER_S + wait_s, is_repeatable=call in _REPEATABLE
        )


class ClientTerminals(Blocking[AsyncTerminals]):
    """`AsyncTerminals` for programs without an event loop."""

    def call(self, call: TerminalCall, **members: Any) -> Mapping[str, Any]:  # noqa: ANN401 -- JSON
        """Make a call of docs/terminals.md; see `AsyncTerminals.call`."""
        return run(self._twin.call(call, **members))


class AsyncOutputs:
    """What can be asked of the output of all processes together; made by `AsyncClient`."""

    def __init__(self, link: Link) -> None:
        self._link = link

    async def search(
        self,
        text: str,
        *,
        regex: bool = False,
        ignore_case: bool = False,
        context: int = 0,
        process_id: str | None = None,
        project: str | None = None,
        group: str | None = None,
        tags: Mapping[str, str] | None = None,
        each: int | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> FoundLines:
        """Return what is found within a second in the output of this user's processes, the newest process
        first.

        Args:
            text: What the lines contain.
            regex: `text` is a regular expression, in RE2's syntax.
            ignore_case: Letters match in either case.
            context: So many lines around each match.
            process_id: Only in this process, as for `AsyncClient.get`.
            project: Only in processes of this folder.
            group: Only in processes of this group.
            tags: Only in processes with all of these.
            each: At most so many lines of each process.
            limit: At most so many lines, 1000 at most.
            cursor: Where to go on: `next` of the result before. The search goes on for as long as it is asked
                again.

        Raises:
            InvalidRequest: It is no regular expression, or has a line end.
            ProcessNotFound: There is no such process for this user.

        Cancellation: safe.
        """
        params = {
            "text": text,
            "regex": regex,
            "ignore_case": ignore_case,
            "context": context,
            "process_id": process_id,
            "project": project,
            "group": group,
            "tags": None if tags is None else dict(tags),
            "each": each,
            "limit": limit,
            "cursor": cursor,
        }
        return read_found(await self._link.request("search", params))


class Outputs(Blocking[AsyncOutputs]):
    """`AsyncOutputs` for programs without an event loop."""

    search = blocking(AsyncOutputs.search)
