#!/bin/sh
# Is the working tree better than the last commit? Start it in the checkout; you may go on editing while it runs.
fairbench run --program "python small_train.py --seed {seed} --steps {steps}" --variant "last: @HEAD" --variant "now: @" \
  --metric val/loss:min --margin 0.005 --steps 400 -o results/commit
