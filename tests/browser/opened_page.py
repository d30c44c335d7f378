"""A page in a browser, with what it complained of and whom it asked."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from playwright.sync_api import Browser, Page

DESKTOP, PHONE = (1280, 900), (375, 812)
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
