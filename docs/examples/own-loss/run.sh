#!/bin/sh
# From a loss in a file to a confirmed verdict; run it in this folder.
set -e
orchestrator check-plugin my_losses.py
orchestrator data generate scenes --images 2000 --seed 0 --out data/scenes
orchestrator search own-loss.yaml --data-root data
orchestrator summarise own-loss --cocos
