"""The report of an experiment: one self-contained HTML file.

``page.py`` makes the content of the page, ``figures.py`` and the ``*_figures.py`` modules draw, ``render.py`` writes
HTML. All modules except ``queries.py`` are pure functions of a ``History``; importing a module never imports torch.
"""
