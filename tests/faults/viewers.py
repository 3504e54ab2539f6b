"""`Viewer`: a storm's client, which starts one process, follows it through every death, and says what it
got.
"""

import hashlib
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import anyio
from websockets.exceptions import WebSocketException

from tests.faults.plans import Plan
from tests.support.rpc import Message, RpcClient, RpcFailure, connect

# What a start is told while the daemon of containers is dead, or died over it.
_AWAY = frozenset({"docker_unavailable", "container_failed"})
_AGAIN_S = 0.02
_PATIENCE_S = 60.0
# without a byte: on a busy machine a server may be killed a dozen times before it has answered forty
_STILL_S = 180.0


@dataclass(slots=True)
class Viewer:
    """One client and its process: starts it once, follows it through every death, keeps what it got.

    With an `own_id` the start is repeated under that until it is answered; else the process is looked for by
    its tag. `asked_ns` and `answered_ns` (monotonic) are when its start was asked for first, and when it was
    known to be accepted.
    """

    plan: Plan
    folder: str
    away: frozenset[str] = _AWAY  # slugs of what passes: it is tried again
    own_id: str = ""
    options: Mapping[str, object] = field(default_factory=dict)  # of the start
    still_s: float = _STILL_S
    process_id: str = ""
    asked_ns: int = 0
    answered_ns: int = 0
    ends: Counter[str] = field(default_factory=Counter)
    digests: dict[str, "hashlib._Hash"] = field(default_factory=dict)
    completed: Message | None = None
    faults: list[str] = field(default_factory=list)

    async def run(self, url: Callable[[], str]) -> None:
        deadline = time.monotonic() + self.still_s
        while self.completed is None:
            before = (self.process_id, sum(self.ends.values()))
            try:
                async with connect(url(), patience_s=_PATIENCE_S) as client:
                    await self._follow(client)
            except (
                OSError,
                EOFError,
                WebSocketException,
                AssertionError,
                TimeoutError,
                ExceptionGroup,
                RpcFailure,
            ) as error:
                if isinstance(error, RpcFailure) and error.reason not in self.away:
                    self.faults.append(f"{self.process_id} {self.plan.kind} {self.plan.walls}: {error}")
                    return
                if time.monotonic() > deadline:
                    self.faults.append(
                        f"{self.process_id} {self.plan.kind} {self.plan.walls}: no end in sight: {error!r}"
                    )
                    return
                await anyio.sleep(_AGAIN_S)
            if before != (self.process_id, sum(self.ends.values())):
                deadline = time.monotonic() + self.still_s

    async def _follow(self, client: RpcClient) -> None:
        if not self.process_id:
            self.asked_ns = self.asked_ns or time.monotonic_ns()
            self.process_id = await self._find(client) or await self._start(client)
            self.answered_ns = time.monotonic_ns()
        if not client.messages or self.ends or not self._is_started_here(client):
            cursor = f"{self.ends['stdout']}.{self.ends['stderr']}"
            await client.request("attach", process_id=self.process_id, cursor=cursor, output=self._mode)
        for message in list(client.messages):
            self._take(message)
        while self.completed is None:
            self._take(await client.receive())
            client.messages.clear()

    def _is_started_here(self, client: RpcClient) -> bool:
        answers = (message.get("result") or {} for message in client.messages)
        return any(answer.get("status") in {"started", "queued"} for answer in answers)

    @property
    def _mode(self) -> str:
        return "lines" if self.plan.is_text else "binary"

    async def _find(self, client: RpcClient) -> str | None:
        """Find the process if an earlier attempt started it and the answer was lost."""
        if self.own_id:
            return None
        listed = await client.request("list", tags={"storm": self.plan.seed})
        # One that no daemon could give a container has never run.
        found = (entry for entry in listed["processes"] if entry["state"] != "failed_to_start")
        return next((str(entry["process_id"]) for entry in found), None)

    async def _start(self, client: RpcClient) -> str:
        plan = self.plan
        options: dict[str, object] = {"profile": plan.profile.value, **self.options}
        if plan.isolation is not None:
            options = {"backend": "docker", "isolation": plan.isolation}
        if self.own_id:
            options["process_id"] = self.own_id
        result = await client.request(
            "execute",
            argv=list(plan.argv),
            detach=True,
            output=self._mode,
            pty=plan.stdio == "pty",
            tags={"storm": plan.seed},
            cwd=self.folder,
            **options,
        )
        assert plan.isolation is not None or result["sandbox"]["profile"] == plan.profile
        return str(result["process_id"])

    def _take(self, message: Message) -> None:
        params = message.get("params", {})
        if params.get("process_id") != self.process_id:
            return
        match message.get("method"):
            case "process.output":
                data = params["data"]
                data = data if isinstance(data, bytes) else data.encode()
                stream = params["type"]
                begin = params["end"] - len(data)
                if begin != self.ends[stream]:
                    self.faults.append(f"{self.process_id} {stream}: got {begin}.. after {self.ends[stream]}")
                self.ends[stream] = params["end"]
                self.digests.setdefault(stream, hashlib.sha256()).update(data)
            case "process.gap":
                self.faults.append(f"{self.process_id}: a gap: {params}")
            case "process.completed":
                self.completed = params

    def check(self) -> list[str]:
        """Compare what was delivered with what should have been written."""
        if self.completed is not None and self.completed["exit_code"] != self.plan.end:
            self.faults.append(f"{self.process_id}: told {self.completed}, not {self.plan.end}")
        for stream, name in (("stdout", "out"), ("stderr", "err")):
            size, digest = self.plan.digest(name)
            found = self.digests.get(stream, hashlib.sha256()).hexdigest()
            if (self.ends[stream], found) != (size, digest):
                self.faults.append(
                    f"{self.process_id} {self.plan.kind} {stream}: {self.ends[stream]} bytes delivered of "
                    f"{size}, or damaged"
                )
        return self.faults
