"""The report of an experiment: one HTML file that needs nothing else.

``page.py`` says what is on it, ``figures.py`` and its neighbours draw, ``render.py`` writes. All but ``queries.py`` are
pure functions of a ``History``; none of them imports torch when it is loaded.
"""
