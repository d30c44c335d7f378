"""A console of rich that shows control characters instead of sending them; ``terminal.make_console`` makes it."""

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from orchestrator.text.values import visible


class SafeConsole(Console):
    """A console of rich that shows all characters of texts; control characters of rich itself still move the cursor."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield the segments of an object and of all objects in it."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(visible(segment.text), segment.style)
