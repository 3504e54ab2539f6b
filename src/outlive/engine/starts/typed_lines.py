"""`TypedLines`: lines that are typed into a shell which runs already, judged by the lists that judge every
start.
"""

import os
import re
import shlex

from outlive.core.command import Command
from outlive.core.errors import CommandRefused, InvalidRequest, OutliveError
from outlive.core.file_words import shown_name
from outlive.core.process import Owner
from outlive.core.values import dataclass
from outlive.engine.commands.policy_check import Policing
from outlive.engine.processes.event_publisher import EventPublisher
from outlive.engine.settings import EngineSettings
from outlive.engine.starts.preparation import Preparation
from outlive.policy.judgement import Verdict, refusal

# What readline and an interactive bash take for something else than text: keys, and history expansion
# (bash(1)).
_NOT_TYPED = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f!]")


@dataclass(eq=False, slots=True)
class TypedLines:
    """Lets lines pass that a caller wants typed. On the engine's loop only."""

    settings: EngineSettings
    policing: Policing
    preparation: Preparation
    events: EventPublisher

    async def check(self, line: str, *, cwd: str) -> None:
        """Have the lists judge a line that is typed into a shell which runs already, in `cwd`.

        What the shell makes of a name (an alias, a function, another PATH) they do not know.

        Raises:
            CommandRefused: They do not allow it; also where a person would have to be asked, because a shell
            cannot wait.
        """
        command = Command(line=line)
        self.settings.allowed_commands.check(command, self.policing.environment)
        if not self.policing.is_active:
            return
        path = self.policing.environment.get("PATH", os.defpath)
        decision, _, _ = await self.policing.decide(command, cwd=cwd, path=path)
        if decision.verdict is Verdict.DENY:
            raise refusal(decision)
        if decision.verdict is Verdict.ASK:
            hint = "Run it as a command of its own: then it waits until a person approves it."
            raise CommandRefused(
                "command_denied", f"{decision.reason} A terminal cannot wait for that.", hint=hint
            )

    async def check_copy(self, path: str, backend: str, by: Owner, *, write: bool) -> None:
        """Let a caller copy files that might run any command where they are; a refusal is published.

        Args:
            path: Where the copied file or folder is there, as text of the wire; the lists judge the copy as a
                command with it.
            backend: Where the files are.
            by: The caller.
            write: Whether it is written.

        Raises:
            CommandRefused: As `check`, `profile_too_weak`, or `command_opaque`: it leads upwards, where lists
            are in force.
        """
        word = f"{backend}:{shown_name(path)}"
        line = shlex.join(["outlive", "cp", *((".", word) if write else (word, "."))])
        try:
            await self.preparation.check_outside(by, backend)
            if self.settings.is_strict and ".." in path.split("/"):
                text = "A pattern of the lists does not say what a path with '..' leads to."
                raise CommandRefused("command_opaque", text, hint="Write the path without '..'.")
            await self.check(line, cwd=self.settings.cwd)
        except OutliveError as error:
            self.events.publish_refusal(by, error.code, command=line)
            raise

    async def check_elsewhere(self, line: str | None, by: Owner) -> None:
        """Let a line pass that will be typed into a shell which is no process of ours.

        A refusal is published.

        Nothing bounds such a shell, so a caller that may start only what is bounded is refused. A `line` of
        None asks whether the caller may have such a shell at all.

        Raises:
            CommandRefused: As `check`, or `profile_too_weak`.
            InvalidRequest: It is empty, or no text.
        """
        try:
            if line is not None and (not line.strip() or "\0" in line):
                raise InvalidRequest("invalid_params", "The command is empty, or has a NUL inside.")
            await self.preparation.check_unbounded(by)
            if line is not None:
                if self.settings.is_strict and _NOT_TYPED.search(line):
                    text = (
                        "It is not certain what a shell makes of it when it is typed: a control "
                        "character or '!'."
                    )
                    raise CommandRefused("command_opaque", text)
                await self.check(line, cwd=self.settings.cwd)
        except OutliveError as error:
            self.events.publish_refusal(by, error.code, command=line or "")
            raise
