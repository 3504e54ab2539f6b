"""The terminal tools (promise S3.6): each reads its arguments, asks `TerminalCalls`, and answers as text and structured."""

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

import msgspec

from outlive.core.errors import OutliveError
from outlive.core.process import Owner
from outlive.frontends.mcp.tools.calls import Answer, Caller, Outcome, Progress, ToolPolicy
from outlive.protocols.mcp.arguments import read_arguments
from outlive.protocols.mcp.terminal_tools import executed_text, read_text, terminals_text
from outlive.protocols.mcp.texts import error_text
from outlive.protocols.terminal import requests
from outlive.server.terminal_calls import TerminalCalls

_Members = dict[str, object]
_Asked = TypeVar("_Asked", bound=msgspec.Struct)


class TerminalTools:
    """Answers the seven tools."""

    def __init__(self, calls: TerminalCalls, admission: ToolPolicy) -> None:
        """Take what acts, and what decides whether tools may run anything."""
        self._calls = calls
        self._admission = admission

    def answers(self) -> tuple[Answer, ...]:
        """Return what answers the tools, in the order of `TERMINAL_TOOLS`."""
        calls = self._calls
        return (
            _answer(requests.ListTerminals, calls.list, lambda members: terminals_text(members["terminals"])),
            _answer(requests.CreateTerminal, self._create),
            _answer(requests.ExecuteInTerminal, self._execute, executed_text),
            _answer(requests.ReadTerminal, calls.read, read_text),
            _answer(requests.WriteToTerminal, calls.write),
            _answer(requests.ResizeTerminal, calls.resize),
            _answer(requests.CloseTerminal, calls.close),
        )

    async def _create(self, asked: requests.CreateTerminal, by: Owner) -> _Members:
        self._admission.check_argv((asked.shell or "bash",))
        return await self._calls.create(asked, by)

    async def _execute(self, asked: requests.ExecuteInTerminal, by: Owner) -> _Members:
        self._admission.check_line(asked.command)
        if asked.terminal_id is None and not await self._calls.has_active(by):
            self._admission.check_argv(("bash",))  # one is opened
        return await self._calls.execute(asked, by)


def _answer(
    shape: type[_Asked],
    call: Callable[[_Asked, Owner], Awaitable[_Members]],
    text_of: Callable[[_Members], str] = json.dumps,
) -> Answer:
    async def answer(arguments: Mapping[str, object], caller: Caller, _progress: Progress | None) -> Outcome:
        try:
            members = await call(read_arguments(arguments, shape), caller.owner)
        except OutliveError as error:
            text = error_text(error)
            return Outcome(text=text, is_error=True)
        return Outcome(text=text_of(members), structured=members)

    return answer
