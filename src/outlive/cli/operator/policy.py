"""`outlive policy check`: what the rules say about a command, and why; starts nothing and needs no server."""

import asyncio
import contextlib
import os
from collections.abc import Mapping, Sequence

from outlive.cli.output import Answer, say
from outlive.cli.parameters import JSON, option, places, takes
from outlive.config import Resolution, resolve
from outlive.core.command import Command, Sandbox, StandingApproval, parse_profile
from outlive.core.errors import CommandRefused, InvalidRequest, StartFailed
from outlive.core.values import dataclass
from outlive.discovery.config_files import read_config_files
from outlive.discovery.config_paths import standing_file
from outlive.discovery.own_kind import own_umask
from outlive.engine.commands.policy_check import Policing, command_policy, writable_folders
from outlive.engine.commands.resolver import Resolved, clean_environment, find_program, find_shell
from outlive.engine.starts.standing_approvals import StandingApprovals
from outlive.kernel.project import working_folder
from outlive.policy.command_reader import Reading
from outlive.policy.judgement import CommandPolicy, Decision, Finding, Verdict, open_names, open_rules
from outlive.policy.patterns import AllowedCommands, CommandPatterns, ProgramFile
from outlive.policy.starters import reason_for

# 1 and 2 are what goes wrong with the verb itself.
EXIT_CODES = {Verdict.ALLOW: 0, Verdict.ASK: 3, Verdict.DENY: 4}
_LISTS = ("deny", "ask", "allow", "policy_default", "policy_opaque", "allowed_commands")


@dataclass(frozen=True, slots=True, kw_only=True)
class _PolicyAnswer:
    """Everything that is known about one command."""

    decision: Decision
    reading: Reading
    files: Mapping[str, ProgramFile | None]
    tools: str | None
    standing: StandingApproval | None = None


@takes(
    places("words", "COMMAND...", about="One word is a shell line, several are a program's words."),
    option("--cwd", metavar="FOLDER", about="Where it would run."),
    JSON,
)
def check(*, words: Sequence[str], cwd: str | None) -> Answer:
    """Explain what a server that is started here and now would decide; the verdict is the exit code.

    Raises:
        ConfigInvalid: A variable, a file or a rule cannot be used.
        InvalidRequest: There is no command.
    """
    if not words or not words[0].strip():
        raise InvalidRequest("invalid_params", "There is no command to check.")
    folder = working_folder()
    files = read_config_files(os.environ, working_folder=folder, say=say)
    resolution = resolve({}, os.environ, working_folder=folder, files=files)
    policy = command_policy(resolution.settings)
    command = Command(line=words[0]) if len(words) == 1 else Command(argv=tuple(words))
    answer = asyncio.run(
        _judge(command, resolution, policy, cwd=os.path.normpath(os.path.join(folder, cwd or ".")))
    )
    return Answer(
        _document(answer, resolution, policy),
        _lines(answer, resolution, policy),
        code=EXIT_CODES[answer.decision.verdict],
    )


async def _judge(
    command: Command, resolution: Resolution, policy: CommandPolicy, *, cwd: str
) -> _PolicyAnswer:
    settings = resolution.settings
    environment = clean_environment(os.environ)
    policing = Policing(policy, environment=environment)
    path = environment.get("PATH", os.defpath)
    reading, files, own = await policing.look(command, cwd=cwd, path=path)
    decision = policy.judge(reading, files, own)
    try:
        AllowedCommands(frozenset(settings.allowed_commands)).check(command, environment)
    except CommandRefused as error:
        decision = Decision(
            verdict=Verdict.DENY, code=error.code, reason=error.message, findings=decision.findings
        )
    standing = None
    if decision.verdict is Verdict.ASK:
        program = find_shell(environment)
        if command.argv is not None:
            with contextlib.suppress(StartFailed):
                program = find_program(command.argv[0], path=path, cwd=cwd)
        resolved = Resolved(
            program=program,
            argv=command.argv or (),
            env={"PATH": path},
            cwd=cwd,
            shell=None,
            sandbox=Sandbox(profile=parse_profile(settings.profile)),
        )
        standings = StandingApprovals(
            standing_file(os.environ, working_folder=working_folder()), umask=own_umask()
        )
        proposed = await standings.proposed(command, resolved, reading, files)
        if isinstance(proposed.standing, StandingApproval):
            standing = await standings.given(proposed.standing)
    if standing is not None:
        decision = Decision(verdict=Verdict.ALLOW, reason=decision.reason, findings=decision.findings)
    patterns = CommandPatterns(
        allowed=settings.allowed_patterns,
        blocked=settings.blocked_patterns,
        allow_sudo=bool(settings.allow_sudo),
    )
    tools = None
    try:
        if command.line is not None:
            patterns.check_line(command.line)
        else:
            patterns.check_argv(command.argv or ())
    except CommandRefused as error:
        tools = error.message
    return _PolicyAnswer(decision=decision, reading=reading, files=files, tools=tools, standing=standing)


def _lines(answer: _PolicyAnswer, resolution: Resolution, policy: CommandPolicy) -> list[str]:
    decision = answer.decision
    lines = [f"{decision.verdict.value}{f' ({decision.code})' if decision.code else ''}"]
    if decision.reason:
        lines.append(f"  {decision.reason}")
    if answer.standing is not None:
        lines.append(f"  It is approved for always in {answer.standing.project}, since {answer.standing.at}.")
    if answer.reading.opaque is not None:
        lines.append(f"  opaque: {answer.reading.opaque}")
    for finding in decision.findings:
        lines += _finding_lines(finding, answer, resolution)
    if answer.tools is not None:
        lines.append(f"for MCP tools besides: {answer.tools}")
    lines += [
        f"warning: {one.text!r} on the list allows everything: {one.program}: {one.reason}"
        for one in (*open_rules(policy), *open_names(resolution.settings.allowed_commands))
    ]
    if policy.is_active:
        lines += [
            f"warning: every user can put programs into {folder or 'the working folder'} (PATH)"
            for folder in writable_folders(os.environ.get("PATH", ""))
        ]
    lines.append("settings")
    lines += [f"  {name:<17}{_source(name, resolution)}" for name in _LISTS]
    return lines


def _finding_lines(finding: Finding, answer: _PolicyAnswer, resolution: Resolution) -> list[str]:
    command = finding.command
    words = " ".join(map(repr, command.argv))
    lines = [f"{'  inside' if command.is_inner else 'command'}  {words}: {finding.verdict.value}"]
    file = answer.files.get(command.argv[0])
    if file is not None:
        lines.append(f"    program  {' -> '.join(file.paths)}")
    elif not command.is_inner:
        lines.append("    program  none is found by this name (a builtin of the shell, perhaps)")
    if finding.rule is not None:
        lines.append(
            f"    rule     {finding.list_name} {finding.place}: {finding.rule.text!r} "
            f"from {_source(finding.list_name, resolution)}"
        )
    reason = reason_for(command.name)
    if reason is not None and not command.is_inner:
        lines.append(f"    starts   others: {reason}")
    return lines


def _source(name: str, resolution: Resolution) -> str:
    origin = resolution.origins[name]
    return "(default)" if origin.source == "default" else f"{origin.source} {origin.place}"


def _document(answer: _PolicyAnswer, resolution: Resolution, policy: CommandPolicy) -> dict[str, object]:
    decision = answer.decision
    return {
        "decision": decision.verdict.value,
        "code": decision.code or None,
        "reason": decision.reason or None,
        "opaque": answer.reading.opaque,
        "always": None if answer.standing is None else answer.standing.at,
        "commands": [_finding_document(one, answer, resolution) for one in decision.findings],
        "mcp_tools": answer.tools,
        "warnings": [
            {"rule": one.text, "program": one.program, "reason": one.reason}
            for one in (*open_rules(policy), *open_names(resolution.settings.allowed_commands))
        ],
        "settings": {
            name: {"source": resolution.origins[name].source, "place": resolution.origins[name].place}
            for name in _LISTS
        },
    }


def _finding_document(finding: Finding, answer: _PolicyAnswer, resolution: Resolution) -> dict[str, object]:
    command, rule = finding.command, finding.rule
    file = answer.files.get(command.argv[0])
    return {
        "words": list(command.argv),
        "inner": command.is_inner,
        "verdict": finding.verdict.value,
        "program": None if file is None else file.found,
        "real_path": None if file is None else file.real,
        "starts_others": reason_for(command.name),
        "rule": None
        if rule is None
        else {
            "list": finding.list_name,
            "place": finding.place,
            "text": rule.text,
            "source": resolution.origins[finding.list_name].source,
            "from": resolution.origins[finding.list_name].place,
        },
    }
