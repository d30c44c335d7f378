"""How trials run on Ray. The only package that imports Ray, beside ``orchestrator.extraction.workers``."""
