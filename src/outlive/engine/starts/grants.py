"""Tokens of running commands: `Grants`, one mechanism for what a start asks for and for what the operator
gives to all.

The secret goes to the process with its other secrets: in memory, as a variable, in no words and no file. What
is kept is the hash, with the process: the token counts while that runs, also for a server that is started
anew, and in that process only. Nothing has to be revoked.
"""

import hmac
import secrets

from outlive.core.command import Command, Grant
from outlive.core.errors import AccessDenied, InvalidRequest
from outlive.core.location import LOCAL
from outlive.core.process import Owner
from outlive.core.values import replace
from outlive.engine.processes.output_redaction import TOKEN_NAME
from outlive.engine.processes.process import boot_time
from outlive.engine.processes.process_table import LiveTable
from outlive.engine.settings import EngineSettings
from outlive.policy.access import GRANTED_SCOPES, PREFIX, Scope, Token, WantedGrant, digest_of, parse_grant

_SECRET_BYTES = 32  # 256 bits


class Grants:
    """Gives tokens to commands, and finds them again. On the engine's loop only."""

    def __init__(self, live: LiveTable, settings: EngineSettings) -> None:
        """Take the live processes, and what every command gets that asks for nothing (`callbacks`)."""
        self._live = live
        self._to_all = settings.callbacks
        self._default_backend = settings.options.backend

    def give(self, command: Command, owner: Owner) -> Command:
        """Return a command with the token that it gets, if it gets one.

        Raises:
            InvalidRequest: `grant` makes no sense, or the command runs elsewhere.
            AccessDenied: `scope_missing`: more is asked for than the caller may do itself.
        """
        most = Scope.ADMIN if owner.is_admin else Scope.RUN
        wanted = None if command.grant is None else parse_grant(command.grant)
        is_here = (command.backend or self._default_backend) == LOCAL
        if wanted is None:
            if self._to_all is None or not is_here or TOKEN_NAME in command.env:
                return command
            wanted = WantedGrant(scope=min(self._to_all, most))
        if not is_here:
            text = "grant: a command in a container or on a node does not reach this server."
            raise InvalidRequest("invalid_params", text)
        if wanted.scope > most:
            text = f"grant: the scope {wanted.scope.name.lower()!r} is more than the caller's own."
            raise AccessDenied("scope_missing", text)
        secret = PREFIX + secrets.token_urlsafe(_SECRET_BYTES)
        expires = None
        if wanted.duration_s is not None:
            now = boot_time()
            expires = replace(now, boottime_ns=now.boottime_ns + round(wanted.duration_s * 1e9))
        grant = Grant(scope=wanted.scope.name.lower(), digest=digest_of(secret), expires=expires)
        return replace(command, granted=grant, env_secrets={**command.env_secrets, TOKEN_NAME: secret})

    def find(self, digest: str) -> Token | None:
        """Return the token with that hash, if its process runs and its time is not up."""
        for process in tuple(self._live.by_key.values()):
            grant = process.identity_record.grant
            if grant is None or process.status.is_ended or not hmac.compare_digest(grant.digest, digest):
                continue
            if grant.expires is not None and boot_time().boottime_ns >= grant.expires.boottime_ns:
                return None
            return Token(
                name=f"run-{process.process_id}",
                scope=GRANTED_SCOPES[grant.scope],
                digest=grant.digest,
                created_at=process.record.created_at,
                process_id=process.process_id,
                acts_for=process.principal,
            )
        return None
