"""The MCP hosts that `outlive install` knows: where each keeps its configuration, and what it wants there.

Data only.

One row a host. What was tried with the host's own program is tried again by the tests where that is
installed.

Sources, a row each:

* claude-code, project: code.claude.com/docs/en/mcp ("MCP installation scopes").
* claude-desktop: modelcontextprotocol.io/docs/develop/connect-local-servers; an Electron program, which
  follows XDG_CONFIG_HOME.
* cursor: cursor.com/docs/mcp.
* vscode: code.visualstudio.com/docs/copilot/customization/mcp-servers ("Configuration format").
* codex: developers.openai.com/codex/mcp; tried with `codex mcp list` and `codex mcp get` of @openai/codex
  0.169.
* gemini-cli: geminicli.com/docs/tools/mcp-server; tried with `gemini mcp list` of @google/gemini-cli 0.61.
* copilot-cli: docs.github.com "Adding MCP servers for GitHub Copilot CLI"; tried with `copilot mcp get` of
  @github/copilot 1.0.
* windsurf: docs.windsurf.com/windsurf/cascade/mcp.
* cline: docs.cline.bot/getting-started/config (one file for the extension, the command line and the SDK).
* cline-vscode: the file of the extension before it shared one with the command line (VS Code's
  globalStorage).
* zed: zed.dev/docs/ai/mcp; no `source` since zed-industries/zed#43417.
* opencode: opencode.ai/docs/mcp-servers; tried with `opencode mcp list` of opencode-ai 1.18.
* goose: block.github.io/goose/docs/guides/config-files; `ExtensionConfig::Stdio` in
  crates/goose/src/agents/extension.rs.
"""

from collections.abc import Mapping, Sequence

from outlive.cli.program import PROGRAM
from outlive.core.values import dataclass, field
from outlive.extensions.hosts.editor import FormatName

CONFIG_HOME = "XDG_CONFIG_HOME"


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """One host.

    Attributes:
        title: Its name for people.
        section: The names of the table that lists its servers, the outermost first.
        format: How its file is written.
        moved_by: The variable that names another base folder; "" where there is none.
        base: The folder, relative to the home folder, that the variable stands for.
        files: The user's file relative to the base; of several the first that exists, else the first.
        project_files: The same for a project, relative to its folder; empty where the host has no such file.
        fixed: What its entries have beside the command.
        command: The key of the program; with an empty `arguments` it holds all words as a list.
        arguments: The key of the program's arguments.
        names_itself: Whether the entry holds its own name as well.
        signs: Folders, relative to the base, that say that the host is on this machine.
        programs: Programs that say so.
        then: What the user does afterwards.
    """

    title: str
    section: Sequence[str]
    format: FormatName
    moved_by: str
    base: str
    files: Sequence[str]
    project_files: Sequence[str] = ()
    fixed: Mapping[str, object] = field(default_factory=dict)
    command: str = "command"
    arguments: str = "args"
    names_itself: bool = False
    signs: Sequence[str] = ()
    programs: Sequence[str] = ()
    then: str


# The file that goes with a project, for every host that reads it; it names no path of this machine.
PORTABLE = "project"

HOSTS: Mapping[str, Host] = {
    "claude-code": Host(
        title="Claude Code",
        section=("mcpServers",),
        format="json",
        moved_by="CLAUDE_CONFIG_DIR",
        base="",
        files=(".claude.json",),
        project_files=(".mcp.json",),
        fixed={"type": "stdio"},
        signs=(".claude",),
        programs=("claude",),
        then="Claude Code reads it at its next start; /mcp shows it there.",
    ),
    "claude-desktop": Host(
        title="Claude Desktop",
        section=("mcpServers",),
        format="json",
        moved_by=CONFIG_HOME,
        base=".config",
        files=("Claude/claude_desktop_config.json",),
        signs=("Claude",),
        programs=("claude-desktop",),
        then="Quit Claude Desktop altogether and start it again.",
    ),
    "cursor": Host(
        title="Cursor",
        section=("mcpServers",),
        format="json",
        moved_by="",
        base="",
        files=(".cursor/mcp.json",),
        project_files=(".cursor/mcp.json",),
        signs=(".cursor",),
        programs=("cursor", "cursor-agent"),
        then="Restart Cursor; its settings list the server under MCP.",
    ),
    "vscode": Host(
        title="VS Code",
        section=("servers",),
        format="jsonc",
        moved_by=CONFIG_HOME,
        base=".config",
        files=("Code/User/mcp.json",),
        project_files=(".vscode/mcp.json",),
        fixed={"type": "stdio"},
        signs=("Code",),
        programs=("code",),
        then='VS Code asks before it first starts the server; "MCP: List Servers" shows it.',
    ),
    "codex": Host(
        title="Codex",
        section=("mcp_servers",),
        format="toml",
        moved_by="CODEX_HOME",
        base=".codex",
        files=("config.toml",),
        project_files=(".codex/config.toml",),
        signs=("",),
        programs=("codex",),
        then="Codex reads it at its next start; `codex mcp list` shows it.",
    ),
    "gemini-cli": Host(
        title="Gemini CLI",
        section=("mcpServers",),
        format="jsonc",
        moved_by="GEMINI_CLI_HOME",
        base="",
        files=(".gemini/settings.json",),
        project_files=(".gemini/settings.json",),
        signs=(".gemini",),
        programs=("gemini",),
        then="Gemini CLI reads it at its next start; `gemini mcp list` shows it, in a folder that it trusts.",
    ),
    "copilot-cli": Host(
        title="Copilot CLI",
        section=("mcpServers",),
        format="json",
        moved_by="COPILOT_HOME",
        base=".copilot",
        files=("mcp-config.json",),
        fixed={"type": "local", "tools": ["*"]},
        signs=("",),
        programs=("copilot",),
        then="Copilot CLI reads it at its next start; `copilot mcp list` shows it.",
    ),
    "windsurf": Host(
        title="Windsurf",
        section=("mcpServers",),
        format="json",
        moved_by="",
        base=".codeium",
        files=("windsurf/mcp_config.json",),
        signs=("windsurf",),
        programs=("windsurf",),
        then="Press the refresh button of Cascade's MCP list.",
    ),
    "cline": Host(
        title="Cline",
        section=("mcpServers",),
        format="json",
        moved_by="CLINE_DIR",
        base=".cline",
        files=("data/settings/cline_mcp_settings.json",),
        signs=("",),
        programs=("cline",),
        then="Cline's list of MCP servers shows it.",
    ),
    "cline-vscode": Host(
        title="Cline's extension for VS Code",
        section=("mcpServers",),
        format="json",
        moved_by=CONFIG_HOME,
        base=".config",
        files=("Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",),
        signs=("Code/User/globalStorage/saoudrizwan.claude-dev",),
        then="Cline's list of MCP servers shows it.",
    ),
    "zed": Host(
        title="Zed",
        section=("context_servers",),
        format="jsonc",
        moved_by=CONFIG_HOME,
        base=".config",
        files=("zed/settings.json",),
        project_files=(".zed/settings.json",),
        signs=("zed",),
        programs=("zed", "zeditor"),
        then="Zed starts it at once; the Agent Panel's settings show it.",
    ),
    "opencode": Host(
        title="opencode",
        section=("mcp",),
        format="jsonc",
        moved_by=CONFIG_HOME,
        base=".config",
        files=("opencode/opencode.json", "opencode/opencode.jsonc"),
        project_files=("opencode.json", "opencode.jsonc"),
        fixed={"type": "local", "enabled": True},
        arguments="",
        signs=("opencode",),
        programs=("opencode",),
        then="opencode reads it at its next start; `opencode mcp list` shows it.",
    ),
    "goose": Host(
        title="goose",
        section=("extensions",),
        format="yaml",
        moved_by=CONFIG_HOME,
        base=".config",
        files=("goose/config.yaml",),
        fixed={"enabled": True, "type": "stdio", "description": PROGRAM.about},
        command="cmd",
        names_itself=True,
        signs=("goose",),
        programs=("goose",),
        then="goose reads it at its next session; `goose info -v` shows it.",
    ),
    PORTABLE: Host(
        title="This project",
        section=("mcpServers",),
        format="json",
        moved_by="",
        base="",
        files=(),
        project_files=(".mcp.json",),
        then="Commit it: hosts that read .mcp.json run the `outlive` of each machine's PATH.",
    ),
}
