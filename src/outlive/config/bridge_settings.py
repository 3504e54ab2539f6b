"""How the terminal bridge talks to VS Code: `BridgeOptions`."""

from dataclasses import dataclass

from outlive.config.declaration import option
from outlive.config.values import parse_addresses, parse_wait


@dataclass(frozen=True, kw_only=True)
class BridgeOptions:
    """The part of `Settings` that is about the terminal bridge (promises S3.4 and S3.9)."""

    bridge_ping_s: float = option(
        "time",
        parse_wait,
        "30",
        "How often an extension is asked whether it is still there.",
        flag="--bridge-ping",
        unit="seconds",
    )
    bridge_timeout_s: float = option(
        "time",
        parse_wait,
        "30",
        "How long an extension may take for an answer.",
        flag="--bridge-timeout",
        unit="seconds",
    )
    bridge_dial: tuple[str, ...] = option(
        "addresses",
        parse_addresses,
        "",
        "Where extensions listen that the server connects to by itself (ws:// or wss://), separated by commas. "
        "Others can read flags: a token belongs into the environment.",
        flag="--bridge-dial",
        example="ws://127.0.0.1:3001",
    )
