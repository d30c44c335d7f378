"""``scenes``: a generated dataset of rendered pictures with five captions each, the same on every machine for a seed.

``scene`` draws the content of a picture, ``grammar`` describes the content in captions, and ``render`` turns the
content into pixels. ``descriptor`` turns pixels into features, and ``generate`` writes the folder. All draws are whole
numbers from NumPy generators seeded by (seed, image, purpose), so that neither the machine nor the order of work
matters.
"""
