"""The tables of docs/jsonrpc.md, docs/mcp.md and README.md that are made from code or from another page;
`python -m tests.docs.tables` writes them anew.
"""

from outlive.config import all_options
from outlive.core.errors import SLUGS
from outlive.protocols.jsonrpc.answers import ERROR_NUMBERS
from outlive.protocols.mcp.hosts import HOSTS, NO_LIMIT_S, McpHost
from tests.docs.comparison import readme_table
from tests.docs.pages import ROOT, page, replace_generated, table

PAGE = "docs/jsonrpc.md"
MCP_PAGE = "docs/mcp.md"

# Said before a connection is open: by the command line when the server starts, or by HTTP (401, 403, 421).
# The Python client says itself when there is no server.
NEVER_SENT = frozenset(
    {
        "config_invalid",
        "foreign_host",
        "foreign_origin",
        "foreign_user",
        "key_missing",
        "port_taken",
        "server_lost",
        "server_running",
        "server_unavailable",
        "state_folder",
        "unsupported_platform",
    }
)


def parts() -> dict[str, str]:
    """Return the generated parts of the page by name."""
    return {"errors": _errors(), "options": _options()}


def mcp_parts() -> dict[str, str]:
    """Return the generated parts of docs/mcp.md by name."""
    columns = ["host", "`clientInfo.name`", "gives up after", "progress restarts that", "source"]
    return {"hosts": table(columns, [_host_row(host) for host in HOSTS])}


def _host_row(host: McpHost) -> list[str]:
    names = ", ".join(f"`{name}`" for name in host.client_names)
    if host.limit_s is None:
        limit = "not known"
    else:
        limit = "never" if host.limit_s == NO_LIMIT_S else f"{host.limit_s:.0f} s"
    return [host.name, names, limit, "yes" if host.restarts_at_progress else "", host.source]


def _errors() -> str:
    sent = [(number, slug) for slug, number in ERROR_NUMBERS.items() if slug not in NEVER_SENT]
    rows = [
        [str(number), f"`{slug}`", SLUGS[slug][1]] for number, slug in sorted(sent, key=lambda row: -row[0])
    ]
    return table(["code", "`data.reason`", "`data.hint`, unless a better one is known"], rows)


def _options() -> str:
    rows = []
    for option in all_options():
        flag = option.flag if option.is_switch else f"{option.flag} {option.kind.upper()}"
        environment = ", ".join(f"`{name}`" for name in option.env)
        rows.append(
            [f"`{flag}`", environment, f"`{option.default}`" if option.default else "", option.sentence]
        )
    return table(["flag", "environment", "default", "meaning"], rows)


if __name__ == "__main__":
    for name, made in (
        (PAGE, parts()),
        (MCP_PAGE, mcp_parts()),
        ("README.md", {"comparison": readme_table()}),
    ):
        (ROOT / name).write_text(replace_generated(page(name), made), encoding="utf-8")
