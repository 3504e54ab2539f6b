"""The token that programs of ours show when they were given one: `own_token`."""

import os
from collections.abc import Mapping

TOKEN_VARIABLE = "OUTLIVE_TOKEN"  # noqa: S105 -- the variable's name


def own_token(environ: Mapping[str, str] = os.environ) -> str | None:
    """Return the token of the environment, None where there is none."""
    return environ.get(TOKEN_VARIABLE, "").strip() or None


def token_headers(token: str | None) -> dict[str, str]:
    """Return the headers that show a token (RFC 6750, section 2.1)."""
    return {} if token is None else {"Authorization": f"Bearer {token}"}
