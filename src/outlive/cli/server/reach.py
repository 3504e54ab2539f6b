"""How far the server is reached: `check_reach` refuses to listen beyond this machine without TLS and something to show."""

from datetime import UTC, datetime

from outlive.config import Settings
from outlive.core.errors import ConfigInvalid
from outlive.core.layout import Layout
from outlive.store.token_file import TokenFile

_LOOPBACK = frozenset({"127.0.0.1", "::1"})


def check_reach(settings: Settings, layout: Layout) -> None:
    """Let settings pass that are safe with the address they listen on.

    Raises:
        ConfigInvalid: Beyond loopback without TLS, or without a token or a key; or TLS by half.
    """
    if bool(settings.tls_cert) != bool(settings.tls_key):
        text = "--tls-cert and --tls-key belong together."
        raise ConfigInvalid("config_invalid", text, hint="Name both, or neither.")
    if settings.tls_client_ca and not settings.tls_cert:
        text = "--tls-client-ca asks for certificates over TLS, and there is none."
        raise ConfigInvalid("config_invalid", text, hint="Name --tls-cert and --tls-key, too.")
    if settings.host in _LOOPBACK:
        return
    if not settings.tls_cert:
        text = f"Listening on {settings.host} needs TLS: whoever can read the network could read tokens and output."
        hint = "Name --tls-cert and --tls-key, or listen on 127.0.0.1 and let ssh or a proxy forward."
        raise ConfigInvalid("config_invalid", text, hint=hint)
    now = datetime.now(UTC)
    has_token = any(not token.is_over(now) for token in TokenFile(layout).read())
    if not (has_token or settings.mcp_api_key):
        text = f"Listening on {settings.host} needs a token: nobody from there could be let in, or nobody be told apart."
        raise ConfigInvalid("config_invalid", text, hint="Make one first: `outlive token create`.")
