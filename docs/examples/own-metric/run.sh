#!/bin/sh
# From a metric in a file to a verdict by this metric; run it in this folder.
set -e
orchestrator check-plugin my_metrics.py
orchestrator data generate scenes --images 2000 --seed 0 --out data/scenes
orchestrator search own-metric.yaml --data-root data
orchestrator summarise own-metric
