"""Logistic regression on two noisy classes; prints the accuracy on 500 fresh points."""

import argparse

import numpy as np

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, required=True)
parser.add_argument("--rate", type=float, default=0.01)
options = parser.parse_args()
generator = np.random.default_rng(options.seed)
labels = generator.integers(2, size=600)
points = generator.normal(size=(600, 20)) + 0.35 * (2 * labels - 1)[:, None]
weights = generator.normal(size=20)
for _ in range(20):
    for point, label in zip(points[:100], labels[:100], strict=True):
        chance = 1 / (1 + np.exp(-point @ weights))
        weights += options.rate * (label - chance) * point
accuracy = 100 * np.mean((points[100:] @ weights > 0) == labels[100:])
print(f"accuracy: {accuracy:.1f}")
