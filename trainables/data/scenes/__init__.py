"""``scenes``: a generated dataset of rendered pictures with five captions each, the same on every machine for a seed.

``scene`` says what is in a picture, ``grammar`` puts it into words, ``shapes`` and ``render`` into pixels,
``descriptor`` turns pixels into features, and ``generate`` writes the folder. Everything is drawn with whole numbers
from NumPy generators seeded by (seed, image, purpose), so that neither the machine nor the order of work matters.
"""
