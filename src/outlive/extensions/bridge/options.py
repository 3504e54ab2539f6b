"""Options about the terminal bridge (`BridgeOptions`, promises S3.4 and S3.9)."""

from outlive.config.options import option, parse_addresses, parse_wait, port
from outlive.core.values import dataclass


@dataclass(frozen=True, kw_only=True)
class BridgeOptions:
    """The part of `Settings` that is about the terminal bridge."""

    # An extension that has vanished without a close is noticed after these two times together.
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
        "Where extensions listen that the server connects to by itself (ws:// or wss://), separated by "
        "commas. Other users can read flags: a token belongs into the environment.",
        flag="--bridge-dial",
        example="ws://127.0.0.1:3001",
    )
    bridge_port: int | None = port(
        "3000",
        "the terminal bridge",
        flag="--bridge-port",
        shown="VS Code      ws{s}://{address}   (docs/bridge.md)",
        if_taken=(
            "Is it an extension of VS Code that listens there? --bridge-dial ws://127.0.0.1:PORT connects "
            "to it."
        ),
    )
