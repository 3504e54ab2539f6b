"""What `outlive token` does: on the state folder's file, whether a server runs or not."""

from datetime import UTC, datetime, timedelta

from outlive.cli.operator.audit import enter_token
from outlive.cli.output import say, show, show_json
from outlive.cli.tables import age, table
from outlive.discovery.state_folder import layout_of, open_state_folder
from outlive.policy.access import Scope
from outlive.policy.tokens import Token
from outlive.store.token_file import TokenFile

_SCOPES = {one.name.lower(): one for one in Scope if one is not Scope.HELLO}  # that one needs no token


def parse_scope(text: str) -> Scope:
    """Return the scope of that name.

    Raises:
        ValueError: There is none; says which there are.
    """
    try:
        return _SCOPES[text.strip().lower()]
    except KeyError:
        raise ValueError(f"a scope is read, run, admin or bridge, not {text[:20]!r}") from None


def create_token(
    state_dir: str | None,
    name: str | None,
    scope: Scope,
    *,
    expires_s: float | None,
    acts_as_user: bool,
    as_json: bool,
) -> None:
    """Make a token; its secret goes to stdout, alone, so that a script can keep it."""
    now = datetime.now(UTC)
    expires_at = None if expires_s is None else now + timedelta(seconds=expires_s)
    token, secret = _file(state_dir).create(
        name, scope, now=now, expires_at=expires_at, acts_as_user=acts_as_user
    )
    enter_token(layout_of(state_dir), "token_create", token)
    if as_json:
        show_json({**_view(token), "token": secret})
        return
    until = "for ever" if token.expires_at is None else f"until {token.expires_at:%Y-%m-%d %H:%M} UTC"
    acting = ", acts as you" if token.acts_as_user else ""
    say(f"Token {token.name!r} (scope {scope.name.lower()}{acting}) counts {until}. It is not shown again:")
    show(secret)


def list_tokens(state_dir: str | None, *, as_json: bool) -> None:
    """Show what there is."""
    tokens = _file(state_dir).read()
    if as_json:
        show_json({"tokens": [_view(token) for token in tokens]})
        return
    if not tokens:
        say("There are no tokens; `outlive token create` makes one.")
        return
    now = datetime.now(UTC)
    rows = [("NAME", "SCOPE", "AGE", "EXPIRES")]
    for token in tokens:
        expires = "never" if token.expires_at is None else f"{token.expires_at:%Y-%m-%d %H:%M} UTC"
        rows.append(
            (
                token.name,
                token.scope.name.lower() + (" as you" if token.acts_as_user else ""),
                age(token.created_at, now),
                f"{expires} (over)" if token.is_over(now) else expires,
            )
        )
    show(table(rows))


def revoke_token(state_dir: str | None, name: str, *, as_json: bool) -> None:
    """Take a token back."""
    token = _file(state_dir).revoke(name)
    enter_token(layout_of(state_dir), "token_revoke", token)
    if as_json:
        show_json(_view(token))
    else:
        say(f"Token {token.name!r} counts no more; what its holder has open ends within a second.")


def _file(state_dir: str | None) -> TokenFile:
    return TokenFile(open_state_folder(layout_of(state_dir).root))


def _view(token: Token) -> dict[str, object]:
    return {
        "name": token.name,
        "scope": token.scope.name.lower(),
        "created_at": token.created_at.isoformat(),
        "expires_at": None if token.expires_at is None else token.expires_at.isoformat(),
        "expired": token.is_over(datetime.now(UTC)),
        "as_user": token.acts_as_user,
    }
