"""One agent, one task, one server: from a fresh project and a fresh server to what was found and what was left."""

import re
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.agents.conversation import Conversation, Exchange, Reply, ToolUse, schema_text
from bench.agents.left_behind import MARK, end_marked, left_behind, marked_processes
from bench.agents.mcp_client import HostProfile, ServerGone, StdioServer
from bench.agents.policy import ScriptedAgent
from bench.agents.servers import Contestant, Surroundings
from bench.agents.steps import Restart, Task
from bench.context import clean_environment
from bench.measure import Unavailable

_DURATION = re.compile(r"@(\d+(?:\.\d+)?)@")


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
        Unavailable: The server does not offer these tools, or does not start here.
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


class _Stage:
    """The server of one trial and the agent that plays on it."""

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

    def play(self) -> None:
        """Do the task."""
        server = self._open()
        try:
            tools = server.tools()
            names = {str(tool["name"]) for tool in tools}
            if missing := self._contestant.adapter.needs - names:
                raise Unavailable(f"not offered: {', '.join(sorted(missing))}")
            schema_tokens = self._count(schema_text(tools))
            self._trial.conversations.append(Conversation(schema_tokens=schema_tokens, count=self._count))
            agent = ScriptedAgent(self._contestant.adapter(tools), minute_s=self._around.minute_s)
            turns = agent.carry_out(self._task)
            began = time.monotonic()
            replies: list[Reply] | None = None
            try:
                while True:
                    turn = turns.send(replies)  # type: ignore[arg-type] # None begins a generator
                    if isinstance(turn, Restart):
                        server.kill()
                        server = self._open()
                        server.tools()
                        if turn.is_new:
                            self._trial.conversations.append(
                                Conversation(schema_tokens=schema_tokens, count=self._count)
                            )
                        replies = []
                    else:
                        replies = self._take_turn(server, turn)
            except StopIteration:
                pass
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
            server.close()

    def _open(self) -> StdioServer:
        before = set(marked_processes(self._mark))
        env = {
            **_project_environment(),
            **self._contestant.env(self._around),
            MARK: self._mark,
            "HOME": str(self._around.folder),
        }
        words = self._contestant.words(self._around)
        try:
            server = StdioServer(words, cwd=self._project, env=env, host=self._host)
        except ServerGone as error:
            raise Unavailable(f"does not start: {str(error).strip()[-200:]}") from None
        self._own |= set(marked_processes(self._mark)) - before
        return server

    def _take_turn(self, server: StdioServer, uses: Sequence[ToolUse]) -> list[Reply]:
        replies = server.call(uses)
        for use, reply in zip(uses, replies, strict=True):
            self._watch(self._trial.conversations[-1].add(use, reply))
        return replies
