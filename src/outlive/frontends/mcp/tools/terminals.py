"""The terminal tools (promise S3.6): each asks `TerminalCalls`, and answers with the members as text and
structured.
"""

import json
from collections.abc import Awaitable, Callable
from typing import Any

from outlive.core.process import Owner
from outlive.frontends.mcp.tools.calls import Outcome
from outlive.frontends.mcp.tools.runner import ToolCall
from outlive.operations import terminal_requests
from outlive.protocols.mcp.texts import executed_text
from outlive.server.operations import TerminalCalls

_Members = dict[str, object]


def answers(
    ask: Callable[[TerminalCalls, Any, Owner], Awaitable[_Members]],
    text_of: Callable[[_Members], str] = json.dumps,
) -> Callable[[ToolCall, Any], Awaitable[Outcome]]:
    """Return what answers a tool by one of the terminals' calls, with `text_of` its members as text."""

    async def answer(call: ToolCall, asked: Any) -> Outcome:  # noqa: ANN401 -- checked against the tool's struct before
        members = await ask(call.runner.terminals, asked, call.caller.owner)
        return Outcome(text=text_of(members), structured=members)

    return answer


async def create(call: ToolCall, asked: terminal_requests.CreateTerminal) -> Outcome:
    """Open a terminal, where the settings of the tools let its shell run."""
    call.runner.policy.check_argv((asked.shell or "bash",))
    return await answers(TerminalCalls.create)(call, asked)


async def execute(call: ToolCall, asked: terminal_requests.ExecuteInTerminal) -> Outcome:
    """Run a command at a prompt, where the settings of the tools let it run."""
    policy = call.runner.policy
    policy.check_line(asked.command)
    if asked.terminal_id is None and not await call.runner.terminals.has_active(call.caller.owner):
        policy.check_argv(("bash",))  # one is opened
    return await answers(TerminalCalls.execute, executed_text)(call, asked)
