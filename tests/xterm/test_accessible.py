"""The page's views in a real Chromium, looked at by axe-core: nothing in them keeps a keyboard or a screen reader out."""

from pathlib import Path
from typing import Any

import pytest

from scripts.screenshots import scene, views_of
from tests.house.sources import ROOT
from tests.support.browsing import Browser, browser
from tests.vscode.installed import skip_or_fail
from tests.web.opened import open_page

pytestmark = pytest.mark.thorough

_AXE = ROOT / ".xterm/node_modules/axe-core/axe.min.js"
_RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
_BAD = {"serious", "critical"}
_SIZES = {"wide": (1180, 700, False), "phone": (375, 700, True)}


@pytest.mark.promise("U.accessible")
@pytest.mark.timeout(240)
def test_no_view_has_a_serious_finding_in_the_light_or_the_dark_wide_or_on_a_phone(tmp_path: Path) -> None:
    reason = None if _AXE.exists() else "axe-core is not installed: scripts/xterm.sh"
    skip_or_fail(reason, required_by="OUTLIVE_REQUIRE_XTERM")
    script = _AXE.read_text()
    with browser(tmp_path) as window, scene() as (server, ids):
        open_page(window, server)
        for colours, (width, height, is_phone) in (("light", _SIZES["wide"]), ("dark", _SIZES["phone"])):
            scheme = [{"name": "prefers-color-scheme", "value": colours}]
            window.do("Emulation.setEmulatedMedia", features=scheme)
            size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": is_phone}
            window.do("Emulation.setDeviceMetricsOverride", **size)
            for name, (_, show) in views_of(window, ids).items():
                show()
                found = _findings(window, script)
                assert found == [], (name, colours, found)
                assert window.value("document.documentElement.scrollWidth") <= width, (name, colours)


def _findings(window: Browser, script: str) -> list[dict[str, Any]]:
    """Return what axe finds serious or critical in what is shown now."""
    if not window.value("'axe' in window"):
        window.value(f"(() => {{ {script}; }})()")
    options = f"{{runOnly: {_RULES}, resultTypes: ['violations']}}"
    found: list[dict[str, Any]] = window.value(
        f"axe.run(document, {options}).then(({{violations}}) => violations.map("
        "({id, impact, help, nodes}) => ({id, impact, help, nodes: nodes.map((one) => one.html.slice(0, 200)).slice(0, 3)})))"
    )
    return [one for one in found if one["impact"] in _BAD]
