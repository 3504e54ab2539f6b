"""Showing what was measured: tables on the terminal, one JSON file a run."""

import json
import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.measure import TARGETS, Row, Section, Verdict


def show_section(console: Console, section: Section) -> None:
    """Print one table: median, spread and ratio of every row, then the notes."""
    table = Table(title=section.title, title_justify="left", title_style="bold")
    table.add_column("who")
    for name in ("median", "lowest", "highest"):
        table.add_column(name, justify="right")
    table.add_column("unit")
    ratio = f"against {section.baseline}" if section.baseline else "ratio"
    table.add_column(ratio, justify="right")
    table.add_column("note")
    units = [row.unit for row in section.rows]
    for row in sorted(section.rows, key=lambda row: units.index(row.unit)):
        numbers = (row.median, min(row.values), max(row.values))
        table.add_row(row.label, *map(_number, numbers), row.unit, _ratio(section, row), row.note)
    if section.rows:
        console.print(table)
    for note in section.notes:
        console.print(f"{section.name}: {note}", markup=False, highlight=False)


def _ratio(section: Section, row: Row) -> str:
    base = section.row_median(section.baseline, row.unit)
    return f"{row.median / base:.3g}" if base else ""


def _number(value: float) -> str:
    if value == 0 or abs(value) >= 999.5:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def show_verdicts(
    console: Console, verdicts: Sequence[Verdict], *, is_quick: bool, is_whole: bool = True
) -> None:
    """Print every target with what was measured for it.

    Targets without a measurement say so, in a whole run.
    """
    title = "targets (a quick run: an indication only)" if is_quick else "targets"
    table = Table(title=title, title_justify="left", title_style="bold")
    table.add_column("target")
    table.add_column("wanted", justify="right")
    table.add_column("measured", justify="right")
    table.add_column("met")
    measured = {verdict.key: verdict for verdict in verdicts}
    for key, target in TARGETS.items():
        verdict = measured.get(key)
        if verdict is None and not is_whole:
            continue
        wanted = f"{target.sign} {_number(target.limit)} {target.unit}"
        got = _number(verdict.value) if verdict else "not measured"
        met = "" if verdict is None else "yes" if verdict.is_met else "[bold red]no[/]"
        table.add_row(target.sentence, wanted, got, met)
    if table.rows:
        console.print(table)


def save(folder: Path, sections: Sequence[Section], *, is_quick: bool) -> Path:
    """Write a run to `folder` as JSON, under its time and as latest.json; returns the first."""
    now = datetime.now(UTC)
    document = {
        "time": now.isoformat(timespec="seconds"),
        "quick": is_quick,
        "machine": {
            "cores": os.cpu_count(),
            "kernel": platform.release(),
            "python": platform.python_version(),
            "load": os.getloadavg(),
        },
        "sections": [_as_data(section) for section in sections],
    }
    text = json.dumps(document, indent=1) + "\n"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{now:%Y%m%dT%H%M%SZ}.json"
    for target in (path, folder / "latest.json"):
        target.write_text(text)
    return path


def _as_data(section: Section) -> dict[str, object]:
    rows = [
        {
            "label": row.label,
            "unit": row.unit,
            "median": row.median,
            "ratio": row.median / base if (base := section.row_median(section.baseline, row.unit)) else None,
            "values": row.values,
            "note": row.note,
        }
        for row in section.rows
    ]
    targets = [
        {
            "target": verdict.target.sentence,
            "wanted": f"{verdict.target.sign} {verdict.target.limit} {verdict.target.unit}",
            "measured": verdict.value,
            "met": verdict.is_met,
        }
        for verdict in section.verdicts
    ]
    return {
        "name": section.name,
        "title": section.title,
        "baseline": section.baseline,
        "rows": rows,
        "targets": targets,
        "notes": section.notes,
        "details": section.details,
    }
