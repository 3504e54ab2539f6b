"""Who may come in: `AccessSettings`."""

from dataclasses import dataclass

from outlive.config.declaring import option
from outlive.config.values import parse_folder, parse_names, parse_text

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
    public_name: tuple[str, ...] = option(
        "words",
        parse_names,
        "",
        "What the server is called by others, separated by commas, beside the names in its certificate: other Hosts are refused.",
        flag="--public-name",
        example="box.example.org",
    )
