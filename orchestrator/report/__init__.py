"""The report of an experiment: one self-contained HTML file.

``page.py`` has the content of the page, ``figures.py`` and its neighbours draw, ``render.py`` writes. All modules but
``queries.py`` are pure functions of a ``History``; none imports torch when it is loaded.
"""
