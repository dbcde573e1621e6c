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
parser.add_argument("--optimizer", type=str, required=True)
parser.add_argument("--lr", type=float, required=True)
parser.add_argument("--seed", type=int, required=True)
parser.add_argument("--steps", type=int, required=True)
parser.add_argument("--out", type=Path, required=True)
options = parser.parse_args()

input_key, weight_key, noise_key = jax.random.split(jax.random.key(0), 3)
inputs = jax.random.normal(input_key, (600, 16))
true_weights = jax.random.normal(weight_key, (16,))
noise = jax.random.normal(noise_key, (600,))
targets = inputs @ true_weights + 0.1 * noise


def loss(weights, rows):
    """Mean squared error."""
    errors = inputs[rows] @ weights - targets[rows]
    return jnp.mean(errors**2)


make_optimizer = getattr(optax, options.optimizer)
optimizer = make_optimizer(options.lr)
key = jax.random.key(options.seed)
weights = 0.1 * jax.random.normal(key, (16,))
state = optimizer.init(weights)


@jax.jit
def train(weights, state, rows):
    """One step."""
    value, gradient = jax.value_and_grad(loss)(weights, rows)
    updates, state = optimizer.update(gradient, state, weights)
    weights = optax.apply_updates(weights, updates)
    return weights, state, value


with (options.out / "metrics.jsonl").open("a") as results:
    for step in range(1, options.steps + 1):
        rows = jax.random.choice(jax.random.fold_in(key, step), 400, (32,))
        weights, state, value = train(weights, state, rows)
        record = {"step": step, "train/loss": float(value)}
        results.write(json.dumps(record) + "\n")
    record = {
        "step": options.steps,
        "val/loss": float(loss(weights, slice(400, 500))),
        "test/loss": float(loss(weights, slice(500, 600))),
    }
    results.write(json.dumps(record) + "\n")
