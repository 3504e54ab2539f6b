"""Who may come in: `AccessSettings`."""

from dataclasses import dataclass

from outlive.config.declaration import option
from outlive.config.values import parse_folder, parse_names, parse_origins, parse_switch, parse_text


def _parse_callbacks(text: str) -> str:
    """Return off, read or run."""
    word = text.strip().lower()
    if word not in {"off", "read", "run"}:
        raise ValueError("off, read or run is needed")
    return word


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
    callbacks: str = option(
        "scope",
        _parse_callbacks,
        "off",
        "What commands may do here, by a token of their own in OUTLIVE_TOKEN: off, read or run; never more than who starts them.",
        flag="--callbacks",
        example="run",
    )
    tls_cert: str = option(
        "file",
        parse_folder,
        "",
        "PEM file of the certificate that the TCP ports speak TLS with, and of those between it and its authority.",
        flag="--tls-cert",
        example="/etc/outlive/cert.pem",
    )
    tls_key: str = option(
        "file",
        parse_folder,
        "",
        "PEM file of the certificate's key, without a passphrase.",
        flag="--tls-key",
        example="/etc/outlive/key.pem",
    )
    tls_client_ca: str = option(
        "file",
        parse_folder,
        "",
        "PEM file of the authorities whose certificates callers over TCP have to show, beside their token.",
        flag="--tls-client-ca",
        example="/etc/outlive/clients.pem",
    )
    allow_origin: tuple[str, ...] = option(
        "words",
        parse_origins,
        "",
        "Origins, separated by commas, whose web pages act as you (start, control and read your processes) without a token.",
        flag="--allow-origin",
        example="http://localhost:5173",
    )
    hello_off: bool = option(
        "switch",
        parse_switch,
        "off",
        "Refuse pages of this machine that show no token even what they need to learn which tools there are.",
        flag="--no-hello",
        example="on",
    )
    public_name: tuple[str, ...] = option(
        "words",
        parse_names,
        "",
        "What the server is called by others, HOST or HOST:PORT (that port only), separated by commas, "
        "beside the names in its certificate: other Hosts are refused.",
        flag="--public-name",
        example="box.example.org",
    )
