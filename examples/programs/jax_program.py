r"""Linear regression in JAX with an optimizer of optax; nothing of fairbench, the command has the placeholders.

fairbench run --metric val/loss:min --margin 0.02 --steps 20 --optimizers program:adamw,program:lion --reference adamw \
    --program "python jax_program.py --optimizer {optimizer} --lr {lr} --seed {seed} --steps {steps} --out {out}"
"""

import argparse
import json
from pathlib import Path

import jax
import jax.numpy as jnp
import optax

parser = argparse.ArgumentParser()
for name, kind in (("optimizer", str), ("lr", float), ("seed", int), ("steps", int), ("out", Path)):
    parser.add_argument(f"--{name}", type=kind, required=True)
options = parser.parse_args()
keys = jax.random.split(jax.random.key(0), 3)
inputs = jax.random.normal(keys[0], (600, 16))
targets = inputs @ jax.random.normal(keys[1], (16,)) + 0.1 * jax.random.normal(keys[2], (600,))


def loss(weights, rows):
    """Mean squared error."""
    return jnp.mean((inputs[rows] @ weights - targets[rows]) ** 2)


optimizer = getattr(optax, options.optimizer)(options.lr)
key = jax.random.key(options.seed)
weights = 0.1 * jax.random.normal(key, (16,))
state = optimizer.init(weights)


@jax.jit
def train(weights, state, rows):
    """One step."""
    value, gradient = jax.value_and_grad(loss)(weights, rows)
    updates, state = optimizer.update(gradient, state, weights)
    return optax.apply_updates(weights, updates), state, value


with (options.out / "metrics.jsonl").open("a") as results:
    for step in range(1, options.steps + 1):
        rows = jax.random.choice(jax.random.fold_in(key, step), 400, (32,))
        weights, state, value = train(weights, state, rows)
        results.write(json.dumps({"step": step, "train/loss": float(value)}) + "\n")
    metrics = {"val/loss": float(loss(weights, slice(400, 500))), "test/loss": float(loss(weights, slice(500, 600)))}
    results.write(json.dumps({"step": options.steps, **metrics}) + "\n")
