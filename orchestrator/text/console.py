"""A console of rich that shows control characters instead of sending them; ``terminal.make_console`` makes it."""

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from orchestrator.text.values import visible


class SafeConsole(Console):
    """A console of rich whose texts are visible as a whole; what rich itself sends to move the cursor stays."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield the segments of something to draw, and of all that is in it."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(visible(segment.text), segment.style)
