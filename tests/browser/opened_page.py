"""A page in a browser, with what it complained of and whom it asked."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from playwright.sync_api import Browser, Page

DESKTOP, WIDE, PHONE = (1280, 800), (1920, 1080), (390, 844)
SIZES = {"1280": DESKTOP, "1920": WIDE, "phone": PHONE}
"""The windows in which each page is drawn, by the names in the files of the drawings."""

SCHEMES = ("light", "dark")
CHART_BUTTONS = {"Download plot as a PNG", "Zoom", "Pan", "Reset axes"}
"""All buttons of all charts; a new Plotly that adds one is noticed."""

SENDING = "form, [formaction], [ping], a[href^='http']"
"""Elements that would send something, or lead away from a page of ours."""

GROUNDS = {"light": "rgb(250, 250, 248)", "dark": "rgb(16, 19, 23)"}
"""The colour behind a page of ours."""

LEAST_FONT = 11
"""Pixels of the smallest text of a page."""

CHARTS_ARE_DRAWN = """[...document.querySelectorAll('.js-plotly-plot')].every((plot) => {
  const legend = plot.querySelector('.legend')?.getBoundingClientRect().bottom ?? -Infinity;
  const curves = plot.querySelector('.nsewdrag')?.getBoundingClientRect().top ?? Infinity;
  return plot._fullLayout.font.color === getComputedStyle(document.body).color
    && (!plot.clientWidth || Math.abs(plot._fullLayout.width - plot.clientWidth) < 1)
    && legend < curves + 2;
})"""
"""Each chart is in the colours of the page, as wide as its place, and has its legend above its curves."""

SMALL_TEXTS = """(least) => {
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const small = [];
  while (walker.nextNode()) {
    const { data, parentElement } = walker.currentNode;
    const size = parseFloat(getComputedStyle(parentElement).fontSize);
    if (data.trim() && size < least && parentElement.checkVisibility()) small.push(`${data.trim()}: ${size} px`);
  }
  return small;
}"""

PATIENCE = 180_000
"""Milliseconds for each step of a page: on a machine that others keep busy, Playwright's own 30 s are too few."""


@dataclass
class Opened:
    """An open page with what it complained of and whom it asked."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def draw_all(self) -> None:
        self.page.evaluate("charts.drawAll()")

    def wait_until(self, condition: str) -> None:
        """Wait until an expression of JavaScript is true.

        Playwright's ``wait_for_function`` evaluates a text at each look, which the policy of our pages forbids.
        """
        self.page.evaluate(
            f"""async () => {{
              const end = performance.now() + {PATIENCE};
              while (!({condition})) {{
                if (performance.now() > end) throw new Error("the page does not come to it");
                await new Promise(requestAnimationFrame);
              }}
            }}"""
        )

    def draw(
        self, name: str, folder: Path, sizes: Mapping[str, tuple[int, int]] = SIZES, *, first_view: Sequence[str] = ()
    ) -> None:
        """Draw the page in each size, light and dark, and check each drawing; ``first_view`` see ``check_first_view``.

        A drawing scrolls to no side, has no small text, and makes the page complain of nothing.
        """
        for label, (width, height) in sizes.items():
            self.page.set_viewport_size({"width": width, "height": height})
            for scheme in SCHEMES:
                self.page.emulate_media(color_scheme=scheme)
                self.wait_until(CHARTS_ARE_DRAWN)
                drawing = f"{name}-{label}-{scheme}"
                self.page.screenshot(path=folder / f"{drawing}.png", full_page=True)
                ground = self.page.evaluate("getComputedStyle(document.body).backgroundColor")
                assert ground == GROUNDS[scheme], drawing
                assert self.page.evaluate("document.documentElement.scrollWidth") == width, drawing
                assert self.page.evaluate(SMALL_TEXTS, LEAST_FONT) == [], drawing
                titles = self.page.locator(".modebar-btn").evaluate_all("all => all.map(each => each.dataset.title)")
                assert set(titles) <= CHART_BUTTONS, drawing
                assert self.page.locator(SENDING).count() == 0, drawing
                assert self.complaints == [], drawing
            if (width, height) == DESKTOP:
                self.check_first_view(first_view)

    def check_first_view(self, selectors: Sequence[str]) -> None:
        """Check that the first elements of selectors are whole in the window before anybody scrolls."""
        self.page.evaluate("window.scrollTo({ top: 0, behavior: 'instant' })")
        for selector in selectors:
            box = self.page.locator(selector).first.bounding_box()
            assert box is not None and box["y"] >= 0 and box["y"] + box["height"] <= DESKTOP[1], selector


@contextmanager
def opened(
    browser: Browser,
    address: str,
    size: tuple[int, int] = DESKTOP,
    *,
    scheme: str = "light",
    patience: int = PATIENCE,
    is_known: Callable[[str, str], bool] = lambda text, url: False,
) -> Iterator[Opened]:
    """Open an address at a window size, a phone's with touch; known complaints, by text and address, do not count."""
    viewport = {"width": size[0], "height": size[1]}
    context = browser.new_context(viewport=viewport, color_scheme=scheme, has_touch=size == PHONE)
    context.set_default_timeout(patience)
    made = Opened(context.new_page())

    def note(text: str, url: str = "") -> None:
        if not is_known(text, url):
            made.complaints.append(f"{text} {url}")

    made.page.on("console", lambda message: note(message.text, str(message.location.get("url", ""))))
    made.page.on("pageerror", lambda error: note(str(error)))
    made.page.on("request", lambda request: made.requests.append(request.url))
    made.page.goto(address)
    yield made
    context.close()
