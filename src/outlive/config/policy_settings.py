"""What may be started: `PolicySettings`."""

from dataclasses import dataclass

from outlive.config.declaring import option
from outlive.config.values import parse_switch, parse_words

__all__ = ["PolicySettings"]


@dataclass(frozen=True, kw_only=True)
class PolicySettings:
    """The part of `Settings` that decides about commands."""

    allowed_commands: tuple[str, ...] = option(
        "words",
        parse_words,
        "",
        "Programs that may be started, separated by commas; empty allows everything, and so does a shell on the list.",
        flag="--allowed-commands",
        env=("ALLOWED_COMMANDS",),
        example="git,ls,make",
        project="subset",
    )
    tools_disabled: bool = option(
        "switch",
        parse_switch,
        "off",
        "MCP tools start nothing.",
        flag="--disable-commands",
        example="on",
        project="on",
    )
    scripts_disabled: bool = option(
        "switch",
        parse_switch,
        "off",
        "MCP tools start commands but no scripts.",
        flag="--disable-scripts",
        example="on",
        project="on",
    )
    allow_sudo: bool = option(
        "switch",
        parse_switch,
        "off",
        "MCP tools may start commands that begin with sudo.",
        flag="--allow-sudo",
        example="on",
        project="off",
    )
    allowed_patterns: tuple[str, ...] = option(
        "words",
        parse_words,
        "*",
        "What MCP tools may start: every simple command matches one of these, separated by commas.",
        flag="--allowed-patterns",
        example="git *,make *",
        project="subset",
    )
    blocked_patterns: tuple[str, ...] = option(
        "words",
        parse_words,
        "",
        "What MCP tools may not start: no simple command matches one of these.",
        flag="--blocked-patterns",
        example="rm -rf *",
        project="superset",
    )
