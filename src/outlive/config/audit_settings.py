"""What is recorded of who did what, and what is hidden in all that is shown: `AuditSettings`."""

from dataclasses import dataclass

from outlive.config.declaration import option
from outlive.config.values import parse_count, parse_hiding, parse_lines, parse_size, parse_switch


@dataclass(frozen=True, kw_only=True)
class AuditSettings:
    """The part of `Settings` that decides about the audit log and about secrets in output."""

    redact: str = option(
        "what",
        parse_hiding,
        "all",
        "What is hidden in output, commands' texts and logs: all (values of env_secrets, and what looks like a key), "
        "secrets (those values only) or off.",
        flag="--redact",
        project="hides",
    )

    redact_extra: tuple[str, ...] = option(
        "patterns",
        parse_lines,
        "",
        "More patterns of what is hidden, one in a line: a literal beginning, then what is secret (docs/redaction.md).",
        flag="--redact-extra",
        example="acme_[A-Za-z0-9]{32}",
        project="superset",
    )
    audit_off: bool = option(
        "switch",
        parse_switch,
        "off",
        "Keep no audit log: nobody can tell later who started, controlled or was refused what.",
        flag="--no-audit",
        example="on",
        project="off",
    )
    audit_max_bytes: int = option(
        "size",
        parse_size,
        "16M",
        "Size at which the audit log goes on in a new file.",
        flag="--audit-max-size",
        unit="bytes",
    )
    audit_files: int = option(
        "count",
        parse_count,
        "8",
        "How many files of the audit log are kept; beyond it the oldest is removed.",
        flag="--audit-files",
    )
