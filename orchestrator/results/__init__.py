"""From trials to candidates, verdicts, winners and sentences about them; pure functions of a ``History``."""
