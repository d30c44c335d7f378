#!/bin/sh
# Three proposals against a champion: settings of a training script. Exit codes: 0 keep, 10 discard, 11 undecided.
command="python train.py --seed {seed} {proposal}"
orchestrator gate gate.json "text:--rate 0.03" --champion "text:--rate 0.001" --run "$command"
orchestrator gate gate.json "text:--rate 0.0005"
orchestrator gate gate.json "text:--rate 0.03"
orchestrator gate gate.json
