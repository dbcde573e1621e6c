#!/bin/sh
# Is a flag of a program better? Eight pairs of runs, one pair for each seed.
fairbench run --program "python small_train.py --seed {seed} --steps {steps}" --variant base --variant "momentum: --momentum 0.9" \
  --metric val/loss:min --margin 0.005 --steps 400 -o results/flag
