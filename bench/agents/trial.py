"""One agent, one task, one server: from a fresh project and a fresh server to what was found and what was
left.
"""

import os
import re
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.agents.conversation import Conversation, Exchange, Reply, ToolUse, schema_text
from bench.agents.left_behind import MARK, end_marked, left_behind, marked_processes
from bench.agents.mcp_client import HostProfile, ServerGone, StdioServer
from bench.agents.policy import ScriptedAgent
from bench.agents.servers import Contestant, Surroundings
from bench.agents.steps import Restart, Switch, Task
from bench.context import clean_environment
from bench.measure import Unavailable

_DURATION = re.compile(r"@(\d+(?:\.\d+)?)@")
# A person would have looked long before: the longest task is of a minute, and a server that hangs must not
# hold the rest.
_MOST_MINUTES = 10


@dataclass(slots=True, kw_only=True)
class Trial:
    """What came of a task: the conversations, the facts, what was left running, and how long it took."""

    task: str
    server: str
    conversations: list[Conversation] = field(default_factory=list)
    facts: list[tuple[str, bool]] = field(default_factory=list)
    wanted: int = 0
    left: list[str] = field(default_factory=list)
    seconds: float = 0.0
    trouble: str = ""

    @property
    def calls(self) -> int:
        """How many calls the agent made."""
        return sum(len(one.exchanges) for one in self.conversations)

    @property
    def tokens(self) -> int:
        """What it wrote and read, without schemas."""
        return sum(one.tokens for one in self.conversations)

    @property
    def turns_tokens(self) -> int:
        """What it read at all turns together."""
        return sum(one.turns_tokens for one in self.conversations)

    @property
    def schema_tokens(self) -> int:
        """What the tools' schemas cost."""
        return max((one.schema_tokens for one in self.conversations), default=0)

    @property
    def found(self) -> int:
        """How many facts the answers have shown."""
        return sum(is_found for _, is_found in self.facts)

    @property
    def summary(self) -> dict[str, object]:
        """All of it as values of JSON, without the conversations."""
        return {
            "task": self.task,
            "server": self.server,
            "calls": self.calls,
            "tokens": self.tokens,
            "turns_tokens": self.turns_tokens,
            "schema_tokens": self.schema_tokens,
            "seconds": round(self.seconds, 2),
            "missing": [fact for fact, is_found in self.facts if not is_found],
            "found": self.found,
            "wanted": self.wanted,
            "left": self.left,
            "trouble": self.trouble,
        }

    @property
    def is_done(self) -> bool:
        """Whether every fact was found and nothing was left behind."""
        return self.found == self.wanted and not self.left and not self.trouble


def try_task(
    task: Task,
    contestant: Contestant,
    *,
    host: HostProfile,
    minute_s: float,
    count: Callable[[str], int],
    watch: Callable[[Exchange], None],
) -> Trial:
    """Do a task on a server and return what came of it (blocks).

    Raises:
        Unavailable: The server does not offer these tools.
    """
    with tempfile.TemporaryDirectory(prefix="oa-", ignore_cleanup_errors=True) as name:
        around = Surroundings(folder=Path(name), minute_s=minute_s)
        project = lay_out(task, around.folder / "project", minute_s=minute_s)
        mark = uuid.uuid4().hex
        trial = Trial(task=task.name, server=contestant.label, wanted=task.fact_count)
        try:
            _Stage(trial, task, contestant, around, project, mark, host, count, watch).play()
        finally:
            contestant.clean(around)
            end_marked(mark)
        return trial


def lay_out(task: Task, project: Path, *, minute_s: float) -> Path:
    """Write a task's project into a folder and prepare it (blocks)."""
    project.mkdir()
    for name, text in task.files.items():
        path = project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(scaled(text, minute_s=minute_s))
        if text.startswith("#!"):
            path.chmod(0o755)
    if task.prepare:
        subprocess.run(
            ["bash", "-ec", task.prepare],
            cwd=project,
            check=True,
            capture_output=True,
            env=_project_environment(),
        )
    return project


def scaled(text: str, *, minute_s: float) -> str:
    """Return a text whose `@60@` are that many seconds, where a minute lasts `minute_s`."""
    return _DURATION.sub(lambda found: f"{float(found.group(1)) * minute_s / 60:g}", text)


def _project_environment() -> dict[str, str]:
    who = {f"GIT_{role}_{part}": "dev" for role in ("AUTHOR", "COMMITTER") for part in ("NAME", "EMAIL")}
    return clean_environment(**who)


@dataclass(slots=True, kw_only=True)
class _Host:
    """One host of a trial: where it runs, its server, and what its model has read."""

    folder: Path
    env: Mapping[str, str]
    server: StdioServer
    conversation: Conversation


class _Stage:
    """The hosts of one trial, each with a server as a child, and the agent that plays on them."""

    def __init__(
        self,
        trial: Trial,
        task: Task,
        contestant: Contestant,
        around: Surroundings,
        project: Path,
        mark: str,
        host: HostProfile,
        count: Callable[[str], int],
        watch: Callable[[Exchange], None],
    ) -> None:
        self._trial, self._task, self._contestant = trial, task, contestant
        self._around, self._project, self._mark, self._host = around, project, mark, host
        self._count, self._watch = count, watch
        self._own: set[int] = set()
        self._hosts: dict[str, _Host] = {}
        self._servers: list[StdioServer] = []
        self._tools: list[Mapping[str, object]] = []

    def play(self) -> None:
        """Do the task."""
        try:
            try:
                self._enter("", {})
            except ServerGone as error:
                self._trial.trouble = f"does not start: {str(error).strip()[-200:]}"
                return
            agent = ScriptedAgent(self._contestant.adapter(self._tools), minute_s=self._around.minute_s)
            began = time.monotonic()
            try:
                self._play(agent, deadline=began + _MOST_MINUTES * self._around.minute_s)
            except ServerGone as error:
                self._trial.trouble = f"the server has ended: {str(error)[-200:]}"
            self._trial.seconds = time.monotonic() - began
            self._trial.facts = agent.found
            self._trial.left = left_behind(
                self._mark,
                own=self._own,
                own_words=(*self._contestant.own_words, str(self._around.folder / "s")),
            )
        finally:
            for server in self._servers:
                server.close()

    def _play(self, agent: ScriptedAgent, *, deadline: float) -> None:
        turns = agent.carry_out(self._task)
        host = self._hosts[""]
        replies: list[Reply] | None = None
        while True:
            try:
                turn = turns.send(replies)  # type: ignore[arg-type] # None begins a generator
            except StopIteration:
                return
            if time.monotonic() > deadline:
                self._trial.trouble = f"not finished after {_MOST_MINUTES} minutes of the task's time"
                return
            replies = []
            match turn:
                case Restart():
                    host.server.kill()
                    host.server = self._open(host.folder, host.env)
                    host.server.tools()
                    if turn.is_new:
                        host.conversation = self._new_conversation()
                case Switch():
                    host = self._enter(turn.folder, turn.env)
                case _:
                    replies = self._take_turn(host, turn)

    def _enter(self, folder: str, env: Mapping[str, str]) -> _Host:
        """Return the host of a folder of the task, which is started when it is not there yet."""
        if folder not in self._hosts:
            place = self._project / folder
            added = {"PATH": f"{place / 'bin'}{os.pathsep}{os.environ['PATH']}", **env} if folder else env
            server = self._open(place, added)
            self._tools = server.tools()
            names = {str(tool["name"]) for tool in self._tools}
            if missing := self._contestant.adapter.needs - names:
                raise Unavailable(f"not offered: {', '.join(sorted(missing))}")
            self._hosts[folder] = _Host(
                folder=place, env=added, server=server, conversation=self._new_conversation()
            )
        return self._hosts[folder]

    def _new_conversation(self) -> Conversation:
        schema_tokens = self._count(schema_text(self._tools))
        self._trial.conversations.append(Conversation(schema_tokens=schema_tokens, count=self._count))
        return self._trial.conversations[-1]

    def _open(self, folder: Path, added: Mapping[str, str]) -> StdioServer:
        before = set(marked_processes(self._mark))
        env = {
            **_project_environment(),
            **self._contestant.env(self._around),
            **added,
            MARK: self._mark,
            "HOME": str(self._around.folder),
        }
        words = self._contestant.words(self._around)
        errors = self._around.folder / "stderr"
        server = StdioServer(words, cwd=folder, env=env, host=self._host, stderr=errors)
        self._servers.append(server)
        self._own |= set(marked_processes(self._mark)) - before
        return server

    def _take_turn(self, host: _Host, uses: Sequence[ToolUse]) -> list[Reply]:
        replies = host.server.call(uses)
        for use, reply in zip(uses, replies, strict=True):
            self._watch(host.conversation.add(use, reply))
        return replies
