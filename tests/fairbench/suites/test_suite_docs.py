"""The page on suite files knows every key, every kind of shock and every control arm, and no other."""

import re
from dataclasses import fields
from pathlib import Path

from fairbench.arenas.shocks.registry import SHOCKS
from fairbench.common.toml import tomllib
from fairbench.optimizers.spec import OptimizerPlan
from fairbench.suites.arenas import ArenaPlan
from fairbench.suites.loader import load_suite, parse_suite
from fairbench.suites.schema import Suite
from fairbench.suites.stages import Final, Sweep, Training
from fairbench.suites.variants import VariantTable

PAGE = (Path(__file__).parents[3] / "docs/suite-files.md").read_text()
TABLES = {"name", "sweep", "final", "training", "arenas", "optimizers", "facts", "ladder_point", "variant"}
"""Keys of a suite that are tables, its name, which is that of its file, and what fairbench itself sets."""


def first_cells():
    """The names in the first cells of all rows."""
    names = set()
    for cell in re.findall(r"^\| (`[^|]+) \|", PAGE, re.MULTILINE):
        before_colon, _, _ = cell.partition(":")
        names |= set(re.findall(r"`([\w-]+)`", before_colon))
    return names


def test_every_key_has_a_row():
    keys = set()
    for kind in (Suite, Sweep, Final, Training, ArenaPlan, OptimizerPlan, VariantTable):
        keys |= {field.name for field in fields(kind)}
    assert first_cells() == (keys - TABLES) | {"arenas"} | SHOCKS.keys()  # an optimizer has a table of that name


def test_options_of_shocks_are_their_defaults():
    for kind, facts in SHOCKS.items():
        row = next(line for line in PAGE.splitlines() if line.startswith(f"| `{kind}` |"))
        for option, default in facts.options.items():
            assert f"`{option}`, {default:g}" in row


def test_the_example_of_a_sweep_is_one():
    (example,) = re.findall(r"```toml\n(\[sweep\].*?)```", PAGE, re.DOTALL)
    suite = load_suite("mini").to_json()
    plans = {name: {**plan, "options": {}} for name, plan in suite["optimizers"].items()}
    sweep = parse_suite({**suite, **tomllib.loads(example), "optimizers": plans}, "the example").sweep
    assert (sweep.budget, list(sweep.extra)) == (6, ["weight_decay", "betas", "warmup_steps"])
