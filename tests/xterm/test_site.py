"""The documentation's site in a real Chromium: every page on a phone, and in the dark."""

from pathlib import Path

from scripts.site.__main__ import build
from tests.support.browsing import Chromium

_PHONE_PX = 360  # the narrowest that is sold in numbers
_LEAST_CONTRAST = 4.5  # WCAG 2.2, 1.4.3
# The contrast of an element's text with the page's ground, as WCAG 2.2 defines it.
_CONTRAST = """(selector) => {
    const light = (colour) => colour.match(/[0-9.]+/g).slice(0, 3).map(Number).map((part) => part / 255)
        .map((part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
        .reduce((sum, part, place) => sum + part * [0.2126, 0.7152, 0.0722][place], 0);
    const one = light(getComputedStyle(document.querySelector(selector)).color);
    const other = light(getComputedStyle(document.body).backgroundColor);
    return (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
}"""


def test_every_page_fits_a_phone_and_can_be_read_in_the_dark(
    running_chromium: Chromium, tmp_path: Path
) -> None:
    site = tmp_path / "site"
    build(site)
    with running_chromium.window(size=(_PHONE_PX, 740), is_phone=True) as shown:
        page = shown.page
        too_wide = []
        for path in sorted(site.rglob("*.html")):
            page.goto(path.as_uri())
            if page.evaluate("document.documentElement.scrollWidth") > _PHONE_PX:
                too_wide.append(path.name)
        assert too_wide == []
        grounds = set()
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            page.goto((site / "docs/cli.html").as_uri())
            grounds.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
            for selector in ("main p", "main a", "summary", "nav a"):
                assert page.evaluate(_CONTRAST, selector) >= _LEAST_CONTRAST, (scheme, selector)
        assert len(grounds) == 2
        page.goto((site / "index.html").as_uri())
        assert page.evaluate("document.querySelector('img').naturalWidth") > 0
