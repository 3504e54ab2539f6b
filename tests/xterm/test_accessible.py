"""The page's views in a real Chromium, looked at by axe-core: nothing in them keeps a keyboard or a screen
reader out.
"""

from typing import Any

import pytest

from scripts.screenshots import scene, views_of
from tests.house.sources import ROOT
from tests.support.browsing import Browser, Chromium
from tests.vscode.installed import skip_or_fail
from tests.web.opened import open_page

pytestmark = pytest.mark.thorough

_AXE = ROOT / ".xterm/node_modules/axe-core/axe.min.js"
_RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
_BAD = {"serious", "critical"}


@pytest.mark.promise("U.accessible")
@pytest.mark.timeout(240)
def test_no_view_has_a_serious_finding_in_the_light_or_the_dark_wide_or_on_a_phone(
    running_chromium: Chromium,
) -> None:
    reason = None if _AXE.exists() else "axe-core is not installed: scripts/xterm.sh"
    skip_or_fail(reason, required_by="OUTLIVE_REQUIRE_XTERM")
    script = _AXE.read_text()
    with scene() as (server, ids):
        # What is narrow is laid out another way, and what is dark has other colours.
        with running_chromium.window(size=(1180, 700), colours="light") as window:
            open_page(window, server)
            _look_at_all(window, ids, script, width=1180)
        with running_chromium.window(size=(375, 700), is_phone=True, colours="dark") as window:
            open_page(window, server)
            _look_at_all(window, ids, script, width=375)


def _look_at_all(window: Browser, ids: dict[str, str], script: str, *, width: int) -> None:
    """Hold that no view has a finding or is wider than the window."""
    for name, (_, show) in views_of(window, ids).items():
        show()
        found = _findings(window, script)
        assert found == [], (name, found)
        assert window.page.evaluate("document.documentElement.scrollWidth") <= width, name


def _findings(window: Browser, script: str) -> list[dict[str, Any]]:
    """Return what axe finds serious or critical in what is shown now."""
    if not window.page.evaluate("'axe' in window"):
        window.page.evaluate(f"() => {{ {script}; }}")
    options = {"runOnly": _RULES, "resultTypes": ["violations"]}
    found: list[dict[str, Any]] = window.page.evaluate(
        "(options) => axe.run(document, options).then(({violations}) => violations.map("
        "({id, impact, help, nodes}) => ({id, impact, help, nodes: nodes.map((one) => one.html.slice(0, "
        "200)).slice(0, 3)})))",
        options,
    )
    return [one for one in found if one["impact"] in _BAD]
