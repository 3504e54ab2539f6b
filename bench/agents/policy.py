"""What a scripted agent does: one set of general rules for every server.

Pure: it yields turns and is sent their answers.

1. Start what the step names, in the shape that its kind asks for.
2. While it runs: answer what it asks; else wait, by the call that costs the fewest turns, each time longer.
3. When a fact is missing after the end: make the calls that the answer names, then search by the step's clue;
   then, as with any shell, run the command again through grep.
4. What the tools cannot do is done by the shell: `nohup` for a service, `printf` for an answer, `</dev/null`
   for a program that waits for input that there is not.
5. What the task does not need any more is stopped.
"""

import re
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import TypeVar

from bench.agents.adapters.adapter import Adapter, View, Work
from bench.agents.conversation import Reply, ToolUse
from bench.agents.steps import Do, Follow, Halt, Recall, Restart, Step, Switch, Task, Together, facts_of

T = TypeVar("T")
# A turn is one or more calls at once, the host's restart, or a change of hosts; its answers come in the same
# order.
Turn = tuple[ToolUse, ...] | Restart | Switch
Turns = Generator[Turn, list[Reply], T]

# An agent that has not found it in so many turns of one step would ask a person.
_MOST_TURNS = 14
_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07]*\x07|\r")


@dataclass(slots=True)
class _Pursuit:
    """One step on its way: what has been seen, what is asked for, what was tried."""

    step: Do | Follow
    seen: str = ""
    unread: str = ""
    answered: int = 0
    turns: int = 0
    waited_s: float = 0.0
    is_given_up: bool = False
    tried: set[str] = field(default_factory=set)

    def take(self, view: View) -> None:
        text = _ANSI.sub("", view.text)
        self.seen += text + "\n"
        self.unread += text + "\n"
        self.turns += 1

    @property
    def is_satisfied(self) -> bool:
        return all(is_shown(fact, self.seen) for fact in self.step.facts)

    @property
    def reply(self) -> str | None:
        """What is to be typed now: the next reply whose question has been seen since the last one."""
        replies = self.step.replies if isinstance(self.step, Do) else ()
        if self.answered < len(replies) and is_shown(replies[self.answered][0], self.unread):
            return replies[self.answered][1]
        return None


class ScriptedAgent:
    """Does the steps of one task; `found` are the facts that answers have shown so far, one entry a fact."""

    def __init__(self, adapter: Adapter, *, minute_s: float) -> None:
        self._adapter = adapter
        self._minute_s = minute_s
        self._host = ""  # the folder of the host that works now
        self._handles: dict[tuple[str, str], str] = {}  # by host and name
        self._sessions: dict[
            str, list[str]
        ] = {}  # by host: lines that a shell without sessions has to repeat
        self.found: list[tuple[str, bool]] = []

    def carry_out(self, task: Task) -> Turns[None]:
        """Do every step of a task, in their order."""
        for step in task.steps:
            seen = yield from self._step(step)
            self.found += [(fact, is_shown(fact, seen)) for fact in facts_of(step)]

    def _step(self, step: Step) -> Turns[str]:
        match step:
            case Do():
                pursuit = _Pursuit(step)
                view = yield from self._start(step, pursuit)
                yield from self._pursue(pursuit, view)
                return pursuit.seen
            case Follow():
                return (yield from self._follow(step))
            case Halt():
                return (yield from self._stop(self._handles.pop((self._host, step.name), "")))
            case Together():
                return (yield from self._together(step))
            case Restart():
                yield step
                if step.is_new:
                    self._handles = {key: one for key, one in self._handles.items() if key[0] != self._host}
                return ""
            case Switch():
                yield step
                self._host = step.folder
                return ""
            case Recall():
                return (yield from self._recall())

    def _work(self, step: Do) -> Work:
        command = step.command
        if step.goes_on and not self._adapter.holds_session:
            lines = self._sessions.setdefault(self._host, [])
            lines.append(command)
            command = " && ".join(lines)
        return Work(
            command=command,
            kind=step.kind,
            expected_s=1.2 * self._minute_s if step.kind == "long" else 0.0,
            limit_s=self._minute_s / 6 if step.kind == "suspect" else None,
            until=step.until,
            in_session=step.goes_on,
            once=step.once,
            is_script=step.is_script,
        )

    def _start(self, step: Do, pursuit: _Pursuit) -> Turns[View]:
        work = self._work(step)
        if step.kind == "service" and not self._adapter.has_background:
            return (yield from self._start_by_shell(step, pursuit))
        return (yield from self._ask(self._adapter.run(work), pursuit))

    def _start_by_shell(self, step: Do, pursuit: _Pursuit) -> Turns[View]:
        """Start a service as in any shell; its handle is its pid, since its log has a name."""
        log = f"{step.name or 'service'}.log"
        line = f"nohup {step.command} > {log} 2>&1 < /dev/null & echo pid $! log {log}"
        view = yield from self._ask(self._adapter.run(Work(command=line)), pursuit)
        found = re.search(r"pid (\d+) log (\S+)", view.text)
        if found is None:
            return view
        return View(text="", state="running", handle=f"shell:{found.group(1)}:{found.group(2)}")

    def _ask(self, use: ToolUse, pursuit: _Pursuit, *, handle: str = "") -> Turns[View]:
        (reply,) = yield (use,)
        view = self._adapter.view(use, reply, handle=handle)
        pursuit.is_given_up = reply.is_given_up
        pursuit.take(view)
        pursuit.tried.add(use.text)
        return view

    def _pursue(self, pursuit: _Pursuit, view: View) -> Turns[None]:
        """Go on until the facts are there and the command has ended (or is ready, if it is to stay)."""
        step = pursuit.step
        handle = view.handle
        while pursuit.turns < _MOST_TURNS:
            handle = view.handle or handle
            if view.state == "ended":
                if pursuit.is_satisfied:
                    return
                following = self._after_end(pursuit, view)
                if following is None:
                    return
                view = yield from self._ask(following, pursuit)
                continue
            if isinstance(step, Do) and self._is_ready(step, pursuit):
                if step.lasts:
                    self._handles[self._host, step.name] = handle
                    return
                break
            view = yield from self._attend(pursuit, view, handle)
        yield from self._stop(handle)

    def _is_ready(self, step: Do, pursuit: _Pursuit) -> bool:
        """Whether a process that runs has shown what it was started for."""
        if not pursuit.is_satisfied or pursuit.reply is not None or pursuit.answered < len(step.replies):
            return False
        if step.lasts:
            return not step.until or step.until in pursuit.seen
        # A program that asked, or that may hang, has said what it had to say; any other command is waited
        # for.
        return step.kind in {"service", "dialog", "suspect"}

    def _attend(self, pursuit: _Pursuit, view: View, handle: str) -> Turns[View]:
        """Do one thing about a process that runs: answer it, end its input, or wait."""
        reply = pursuit.reply
        if reply is not None:
            use = self._adapter.send(handle, reply)
            if use is None:
                yield from self._stop(handle)
                return (yield from self._ask(self._typed_by_shell(pursuit), pursuit))
            pursuit.answered += 1
            pursuit.unread = ""
            return (yield from self._ask(use, pursuit, handle=handle))
        step = pursuit.step
        if view.state == "asks" and isinstance(step, Do) and not step.replies and not step.lasts:
            # It waits for input that nobody has: a program that reads its stdin.
            use = self._adapter.end_input(handle)
            if use is not None and use.text not in pursuit.tried:
                return (yield from self._ask(use, pursuit, handle=handle))
            yield from self._stop(handle)
            return (
                yield from self._ask(self._adapter.run(Work(command=f"{step.command} </dev/null")), pursuit)
            )
        return (yield from self._wait(pursuit, handle))

    def _wait(self, pursuit: _Pursuit, handle: str) -> Turns[View]:
        # Each wait twice as long as the one before, as hints of every kind recommend.
        seconds = max(self._minute_s / 12, min(pursuit.waited_s, self._minute_s))
        pursuit.waited_s += seconds
        step = pursuit.step
        if handle.startswith("shell:"):
            return (yield from self._wait_by_shell(pursuit, handle, seconds))
        until = step.until if isinstance(step, Do) else ""
        is_dialog = isinstance(step, Do) and step.kind == "dialog"
        use = self._adapter.wait([handle], seconds, until=until, is_dialog=is_dialog)
        if use is not None:
            view = yield from self._ask(use, pursuit, handle=handle)
            look = self._adapter.peek(handle)
            # A wait whose answer holds no output leaves the question open: look.
            if view.state == "ended" or pursuit.is_satisfied or view.has_output or look is None:
                return view
            return (yield from self._ask(look, pursuit, handle=handle))
        # No tool waits: let time pass in the shell, and look.
        yield from self._ask(self._adapter.run(Work(command=f"sleep {seconds:g}")), pursuit)
        look = self._adapter.peek(handle)
        if look is None:
            return View(text="", state="ended")
        return (yield from self._ask(look, pursuit, handle=handle))

    def _wait_by_shell(self, pursuit: _Pursuit, handle: str, seconds: float) -> Turns[View]:
        _, pid, log = handle.split(":", 2)
        line = f"sleep {seconds:g}; tail -n 20 {log}; kill -0 {pid} && echo still running"
        view = yield from self._ask(self._adapter.run(Work(command=line)), pursuit)
        is_running = "still running" in view.text
        return View(text=view.text, state="running" if is_running else "ended", handle=handle)

    def _after_end(self, pursuit: _Pursuit, view: View) -> ToolUse | None:
        """Return the next call for what is missing after the end; None when there is nothing left to try."""
        step = pursuit.step
        if pursuit.reply is not None and isinstance(step, Do):
            # It has asked, got nothing, and ended. Begin again, ready to answer.
            again = self._adapter.run(Work(command=step.command, kind="dialog"))
            if self._adapter.send(view.handle, "") is None or again.text in pursuit.tried:
                again = self._typed_by_shell(pursuit)
            else:
                pursuit.answered, pursuit.unread = 0, ""
            if again.text not in pursuit.tried:
                return again
        if pursuit.is_given_up and isinstance(step, Do):
            # The host gave up and nothing was seen: once more, with no input to wait for and no time to hang.
            line = f"timeout {self._minute_s / 6:g} {step.command} </dev/null"
            again = self._adapter.run(Work(command=line))
            if again.text not in pursuit.tried:
                return again
        for use in self._adapter.reads(view, step.clue):
            if use.text not in pursuit.tried:
                return use
        if isinstance(step, Do) and step.clue:
            again = self._adapter.run(Work(command=_searched(step.command, step.clue)))
            if again.text not in pursuit.tried:
                return again
        return None

    def _typed_by_shell(self, pursuit: _Pursuit) -> ToolUse:
        step = pursuit.step
        assert isinstance(step, Do)
        pursuit.answered = len(step.replies)
        typed = "".join(f"{text}\\n" for _, text in step.replies)
        return self._adapter.run(Work(command=f"printf {_quoted(typed)} | {step.command}"))

    def _follow(self, step: Follow) -> Turns[str]:
        pursuit = _Pursuit(step)
        handle = self._handles.get((self._host, step.name), "")
        if not handle:
            return ""
        look = self._adapter.peek(handle) if step.is_news and not handle.startswith("shell:") else None
        if look is None:
            view = yield from self._wait(pursuit, handle)
        else:
            view = yield from self._ask(look, pursuit, handle=handle)
        while pursuit.turns < _MOST_TURNS and not pursuit.is_satisfied:
            if view.state == "ended":
                following = self._after_end(pursuit, view)
                if following is None:
                    break
                view = yield from self._ask(following, pursuit)
            else:
                view = yield from self._wait(pursuit, handle)
        if view.state == "ended":
            self._handles.pop((self._host, step.name), None)
        return pursuit.seen

    def _together(self, step: Together) -> Turns[str]:
        """Start all in one turn, then wait for all that still run."""
        uses = tuple(self._adapter.run(self._work(part)) for part in step.parts)
        replies = yield uses
        pursuits, views = [], []
        for part, use, reply in zip(step.parts, uses, replies, strict=True):
            pursuit = _Pursuit(part)
            view = self._adapter.view(use, reply)
            pursuit.take(view)
            pursuits.append(pursuit)
            views.append(view)
        running = [view.handle for view in views if view.state != "ended" and view.handle]
        waiting = self._adapter.wait(running, self._minute_s) if len(running) > 1 else None
        if waiting is not None:
            (reply,) = yield (waiting,)
            for place, view in enumerate(views):
                if view.handle in running:
                    views[place] = self._adapter.view(waiting, reply, handle=view.handle)
                    pursuits[place].take(views[place])
        for pursuit, view in zip(pursuits, views, strict=True):
            yield from self._pursue(pursuit, view)
        return "\n".join(pursuit.seen for pursuit in pursuits)

    def _recall(self) -> Turns[str]:
        use = self._adapter.recall()
        if use is None:
            return ""
        (reply,) = yield (use,)
        return _ANSI.sub("", reply.text)

    def _stop(self, handle: str) -> Turns[str]:
        """Stop a process that is not needed any more, by its tool or by the shell."""
        if not handle:
            return ""
        if handle.startswith("shell:"):
            pid = handle.split(":")[1]
            line = f"kill {pid}; sleep 0.5; kill -0 {pid} && kill -9 {pid}; echo stopped"
            use: ToolUse | None = self._adapter.run(Work(command=line))
        else:
            use = self._adapter.stop(handle)
        if use is None and (listing := self._adapter.look_up()) is not None:
            (listed,) = yield (listing,)
            use = self._adapter.stop_listed(listed.text)
        if use is None:
            return ""
        (reply,) = yield (use,)
        return _ANSI.sub("", reply.text)


def is_shown(fact: str, text: str) -> bool:
    """Return whether a text shows a fact."""
    return re.search(fact, text, re.MULTILINE) is not None


def _searched(command: str, clue: str) -> str:
    """Return the line that runs a command again and shows what is looked for, not what an earlier filter has
    left.
    """
    whole = re.sub(r"\|\s*(tail|head)\b[^|]*$", "", command).strip()
    # A clue that describes its surroundings is for lines too long to be shown.
    flags = "-noE" if clue.startswith(".") else "-nE -C 2"
    return f"({whole}) 2>&1 | grep {flags} {_quoted(clue)} | head -n 60"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
