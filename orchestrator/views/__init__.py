"""Renderers: each form of output (terminal, HTML, Markdown, LaTeX, CSV, JSON) shows any answer of ``results``."""
