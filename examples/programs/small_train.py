"""Trains a small classifier by SGD, without any library, and prints its validation loss.

python small_train.py --seed 1 --steps 400 --momentum 0.9
"""

import argparse
import math
import random

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--steps", type=int, default=400)
parser.add_argument("--lr", type=float, default=0.1)
parser.add_argument("--momentum", type=float, default=0.0)
options = parser.parse_args()
chance = random.Random(options.seed)
FEATURES = 10
BATCH = 8


def example():
    """The features of an example, and its class, which is noisy."""
    features = [chance.gauss(0, 1) for _ in range(FEATURES)]
    score = sum(features) + features[0] * features[1] + chance.gauss(0, 2)
    return features, 1 if score > 0 else 0


def probability(weights, features):
    """The probability of class 1."""
    score = sum(weight * feature for weight, feature in zip(weights, features, strict=True))
    return 1 / (1 + math.exp(-max(min(score, 30), -30)))


def mean_loss(weights, examples):
    """The mean cross-entropy."""
    total = 0.0
    for features, is_one in examples:
        p = probability(weights, features)
        total -= math.log(max(p if is_one else 1 - p, 1e-12))
    return total / len(examples)


training = [example() for _ in range(500)]
validation = [example() for _ in range(500)]
weights = [0.0] * FEATURES
velocity = [0.0] * FEATURES
for step in range(1, options.steps + 1):
    batch = [chance.choice(training) for _ in range(BATCH)]
    gradient = [0.0] * FEATURES
    for features, is_one in batch:
        error = probability(weights, features) - is_one
        for index in range(FEATURES):
            gradient[index] += error * features[index] / BATCH
    for index in range(FEATURES):
        velocity[index] = options.momentum * velocity[index] + gradient[index]
        weights[index] -= options.lr * velocity[index]
    if step % 100 == 0 or step == options.steps:
        print(f"step {step}: val loss {mean_loss(weights, validation):.6f}")
