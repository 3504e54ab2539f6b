"""`outlive doctor`: what this machine offers, what is degraded, and to what."""

from outlive import __version__
from outlive.cli.columns import cells, wrapped
from outlive.cli.machine.probes import ProbeResult, find_out
from outlive.cli.output import Answer, Line, Painted, plain, terminal_width
from outlive.cli.parameters import JSON, STATE_DIR, takes
from outlive.discovery.state_folder import layout_of
from outlive.extensions.contract import extensions, load

_NARROWEST = 10  # cells of what was found out, however narrow the terminal


@takes(STATE_DIR, JSON)
def doctor(*, state_dir: str | None) -> Answer:
    """Print the findings; it ends with 1 when something that outlive cannot do without is missing."""
    root = layout_of(state_dir).root
    extra = [line for one in extensions() if one.checks for line in load(one.checks)()]
    findings = [*find_out(root), *extra, *_nodes(root)]
    is_usable = all(finding.is_ok for finding in findings if finding.importance == "required")
    checks = [_as_json(finding) for finding in findings]
    document = {"version": __version__, "state_dir": root, "ok": is_usable, "checks": checks}
    return Answer(document, _table(findings, is_usable=is_usable), code=0 if is_usable else 1)


def _nodes(state_dir: str) -> list[ProbeResult]:
    """Ask the server, where one runs, for the other servers that run commands for it."""
    from outlive.client import Client, OutliveError  # noqa: PLC0415 -- only this verb asks beside looking

    try:
        with Client(state_dir, start_server=False, patience_s=0) as client:
            nodes = client.nodes()
    except OutliveError:
        return []
    found = []
    for node in nodes:
        is_there = node["state"] == "connected"
        detail = node["address"] or "named by no setting"
        if not is_there:
            detail += f", away since {node['since']}: {str(node['reason']).rstrip('.')}"
        found.append(
            ProbeResult(
                name=f"node {node['name']}",
                is_ok=is_there,
                detail=detail,
                consequence="its processes are unknown, and nothing starts there",
                cure="" if is_there else str(node["hint"]).rstrip("."),
            )
        )
    return found


def _as_json(finding: ProbeResult) -> dict[str, object]:
    return {
        "name": finding.name,
        "ok": finding.is_ok,
        "importance": finding.importance,
        "detail": finding.detail,
        "consequence": finding.consequence,
        "cure": finding.cure,
    }


def _table(findings: list[ProbeResult], *, is_usable: bool) -> list[Line]:
    width = terminal_width()
    found: list[Line] = []
    marks = [_mark(finding) for finding in findings]
    first = max(len(mark) for mark, _ in marks)
    second = max(cells(plain(finding.name)) for finding in findings)
    for finding, (mark, colour) in zip(findings, marks, strict=True):
        name = plain(finding.name)
        head = f"{' ' * (first - len(mark))}  {name}{' ' * (second - cells(name))}  "
        indent = first + second + 4
        detail = plain(_detail(finding))
        lines = [detail] if width is None else wrapped(detail, max(width - indent, _NARROWEST))
        found.append((Painted(mark, colour) if colour else mark, head + lines[0]))
        found += [" " * indent + line for line in lines[1:]]
    degraded = sum(not finding.is_ok and finding.importance == "optional" for finding in findings)
    verdict = "outlive runs here, and nothing is degraded."
    if not is_usable:
        verdict = "outlive cannot run here."
    elif degraded:
        verdict = f"outlive runs here; {degraded} of {len(findings)} things are degraded as said above."
    return [*found, "", verdict]


def _mark(finding: ProbeResult) -> tuple[str, str]:
    """Return the word in front of a finding, and its colour; a fact that is not so has none."""
    if finding.is_ok:
        return "ok", "32"
    if finding.importance == "fact":
        return "no", ""
    return ("missing", "31") if finding.importance == "required" else ("degraded", "33")


def _detail(finding: ProbeResult) -> str:
    detail = finding.detail
    if not finding.is_ok and finding.importance != "fact":
        detail += f"; so {finding.consequence}"
    if not finding.is_ok and finding.cure:
        detail += f". Cure: {finding.cure}"
    return detail
