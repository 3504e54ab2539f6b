"""Who asks, and how much that may do: `Access`, what the guard found out about a caller. Pure.

Made once for a request or a connection, by the guard; the doors pass it on and never look at headers or peers
themselves.
"""

from dataclasses import dataclass
from enum import IntEnum

from outlive.core.errors import AccessDenied

PAGE_HINT = (
    "Let the page show a token (`outlive token create`), or start the server with --allow-origin ORIGIN, "
    "which lets pages of that origin act as you."
)


class Scope(IntEnum):
    """How much a caller may do; each includes those below it."""

    BRIDGE = 0  # be the terminal bridge's other end, and nothing else
    HELLO = 1  # learn that the server is there and which tools it has: pages of this machine without a token
    READ = 2  # look: lists, states, output
    RUN = 3  # start, and control what belongs to the same principal
    ADMIN = 4  # approve what policy asks about, tokens, raw output, other principals' processes in reports


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """One caller.

    `principal` owns what is started: "uid:1000" for this user on this machine, "token:<name>" for a token, "page:<origin>" for a page without one. `address` is
    where the caller is, for the audit log ("unix pid 4711", "127.0.0.1:50124"). `inside` is the process of ours in whose
    tree the caller lives, None for everybody else: what such a caller starts never has a weaker profile than that one.
    """

    principal: str
    scope: Scope
    address: str = ""
    inside: str | None = None

    def require(self, scope: Scope) -> None:
        """Let a caller pass who may do this much.

        Raises:
            AccessDenied: `scope_missing`.
        """
        if self.scope < scope:
            hint = f"Show a token with that scope: `outlive token create --scope {scope.name.lower()}`."
            raise AccessDenied(
                "scope_missing",
                f"This needs the scope {scope.name.lower()!r}; the caller has {self.scope.name.lower()!r}.",
                hint=PAGE_HINT if self.scope is Scope.HELLO else hint,
                details={"needed": scope.name.lower(), "given": self.scope.name.lower()},
            )
