"""Who may come in: `AccessSettings`."""

from dataclasses import dataclass

from outlive.config.declaring import option
from outlive.config.values import parse_text

__all__ = ["AccessSettings"]


@dataclass(frozen=True, kw_only=True)
class AccessSettings:
    """The part of `Settings` that decides about callers."""

    mcp_api_key: str = option(
        "key",
        parse_text,
        "",
        "What every caller over TCP must send (Authorization or X-API-Key); empty asks for none. "
        "Others can read flags: use the environment.",
        flag="--mcp-api-key",
        env=("MCP_API_KEY",),
        example="a-long-random-word",
    )
