"""The report of an experiment: one self-contained HTML file.

``page.py`` makes the content of the page, ``figures.py`` and the ``*_figures.py`` modules draw, ``render.py`` writes
HTML. All modules except ``queries.py`` are pure functions of a ``History``; importing a module never imports torch.
"""

import os
import sys

# NumPy reads the variable when it is imported. The matrices of a report are small, and threads on them wait for each
# other for most of their time.
if "numpy" not in sys.modules:
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
