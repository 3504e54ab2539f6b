"""How much a caller may ask for: `LimitSettings`."""

from dataclasses import dataclass

from outlive.config.declaration import option
from outlive.config.values import parse_count


@dataclass(frozen=True, kw_only=True)
class LimitSettings:
    """The part of `Settings` that keeps one caller from taking everything."""

    max_http_connections: int = option(
        "count",
        parse_count,
        "1000",
        "HTTP connections at a time; when there is one more, the one that was idle the longest is closed.",
        flag="--max-http-connections",
        project="lower",
    )
    max_request_rate: int = option(
        "count",
        parse_count,
        "5000",
        "Requests a second of one principal; one more is answered with 429, or read later on a WebSocket.",
        flag="--max-request-rate",
        project="lower",
    )
    max_processes: int = option(
        "count",
        parse_count,
        "2000",
        "Processes of one principal that run or wait at a time; one more is refused.",
        flag="--max-processes",
        project="lower",
    )
