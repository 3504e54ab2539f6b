"""Whether a tool may run something: `ToolPolicy`, the settings of promise S1.8 before every start."""

from collections.abc import Sequence

from outlive.core.errors import CommandRefused
from outlive.frontends.mcp.tools.settings import ToolSettings
from outlive.policy.patterns import CommandPatterns
from outlive.protocols.mcp.texts import EXECUTION_DISABLED, SCRIPTS_DISABLED


class ToolPolicy:
    """Decides from the settings alone; raises CommandRefused with a text of promise S1.7."""

    def __init__(self, settings: ToolSettings) -> None:
        """Take the settings."""
        self._settings = settings
        self._patterns = CommandPatterns(
            allowed=settings.allowed_patterns,
            blocked=settings.blocked_patterns,
            allow_sudo=settings.allow_sudo,
        )

    def check_line(self, line: str) -> None:
        """Let a shell line pass."""
        self._check_enabled()
        self._patterns.check_line(line)

    def check_argv(self, argv: Sequence[str]) -> None:
        """Let a command without a shell pass."""
        self._check_enabled()
        self._patterns.check_argv(argv)

    def check_script(self, interpreter: str, content: str) -> None:
        """Let a script pass."""
        self._check_enabled()
        if not self._settings.allow_scripts:
            raise _disabled(SCRIPTS_DISABLED)
        self._patterns.check_script(interpreter, content)

    def _check_enabled(self) -> None:
        if not self._settings.enabled:
            raise _disabled(EXECUTION_DISABLED)


def _disabled(text: str) -> CommandRefused:
    return CommandRefused("command_not_allowed", text, hint="The operator has switched it off.")
