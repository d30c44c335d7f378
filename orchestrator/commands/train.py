"""``orchestrator train``: one training, watched from the terminal."""


def train() -> None:
    """Train one model from a config."""
