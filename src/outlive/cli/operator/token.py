"""`outlive token create`, `list` and `revoke`: on the state folder's file, whether a server runs or not."""

from datetime import UTC, datetime, timedelta

from outlive.cli.operator.audit import enter_token
from outlive.cli.output import Answer
from outlive.cli.parameters import JSON, STATE_DIR, UsageError, option, place, switch, takes
from outlive.cli.tables import age, shown_table
from outlive.config.options import parse_seconds
from outlive.discovery.state_folder import layout_of, open_state_folder
from outlive.policy.access import Scope, Token
from outlive.store.token_file import TokenFile


@takes(
    option("--name", metavar="NAME", about="What it is called; else token-N."),
    option(
        "--scope",
        metavar="read|run|admin|bridge",
        about="How much a caller that shows it may do.",
        default="run",
    ),
    option("--expires", metavar="TIME", about="When it ends: 30d, 12h; else never."),
    switch("--as-user", about="What shows it acts as you, and sees your processes; else its own ones only."),
    STATE_DIR,
    JSON,
)
def create(
    *, name: str | None, scope: str, expires: str | None, as_user: bool, state_dir: str | None
) -> Answer:
    """Make a token; its secret goes to stdout, alone, so that a script can keep it."""
    wanted = Scope[scope.upper()]
    try:
        expires_s = None if expires is None else parse_seconds(expires)
    except ValueError as error:
        raise UsageError(f"Invalid value: {error}") from None
    if as_user and wanted is Scope.BRIDGE:
        raise UsageError("a token of the scope bridge is an extension's: it never acts as you")
    now = datetime.now(UTC)
    expires_at = None if expires_s is None else now + timedelta(seconds=expires_s)
    token, secret = _file(state_dir).create(
        name, wanted, now=now, expires_at=expires_at, acts_as_user=as_user
    )
    enter_token(layout_of(state_dir), "token_create", token)
    until = "for ever" if token.expires_at is None else f"until {token.expires_at:%Y-%m-%d %H:%M} UTC"
    acting = ", acts as you" if token.acts_as_user else ""
    said = f"Token {token.name!r} (scope {scope}{acting}) counts {until}. It is not shown again:"
    return Answer({**_view(token), "token": secret}, [secret], [said])


@takes(STATE_DIR, JSON)
def list_all(*, state_dir: str | None) -> Answer:
    """Show what there is."""
    tokens = _file(state_dir).read()
    document = {"tokens": [_view(token) for token in tokens]}
    if not tokens:
        return Answer(document, said=["There are no tokens; `outlive token create` makes one."])
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
    return Answer(document, shown_table(rows))


@takes(place("name", "NAME", about="As `outlive token list` shows it."), STATE_DIR, JSON)
def revoke(*, name: str, state_dir: str | None) -> Answer:
    """Take a token back."""
    token = _file(state_dir).revoke(name)
    enter_token(layout_of(state_dir), "token_revoke", token)
    said = f"Token {token.name!r} counts no more; what its holder has open ends within a second."
    return Answer(_view(token), said=[said])


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
