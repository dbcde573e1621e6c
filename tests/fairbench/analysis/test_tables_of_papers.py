"""Tables in the forms in which repositories of papers have them are read right, or refused with a way out that works.

The columns are those of public files; the numbers are our own. Each table is in the folder `tables_of_papers`.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import fairbench as fb
from fairbench.common.errors import UsageError

TABLES = Path(__file__).parent / "tables_of_papers"


@dataclass
class Published:
    """A table, and what a reader asks.

    Attributes:
        asked: the options that a reader gives at once.
        refusal: words of the refusal that follows; empty if the table is read.
        way_out: the options that the refusal names.
        first: the arena, the two optimizers and the number of runs of the first comparison.
    """

    file: str
    first: tuple[str, str, str, int]
    asked: dict[str, Any] = field(default_factory=dict)
    refusal: str = ""
    way_out: dict[str, Any] = field(default_factory=dict)


PUBLISHED = [
    Published(
        "tasks_of_several_sizes.csv",
        first=("add/1", "belopt", "adam", 3),
        asked={"metric": "final_test_acc"},
        refusal="input_dim",
        way_out={"columns": {"arena": "task+input_dim"}},
    ),
    Published(
        "a_grid_of_rates.csv",
        first=("loss", "adamw/0.1", "adamw/0.01", 3),
        asked={"at": "last"},
        refusal="what differs: lr",
        way_out={"columns": {"optimizer": "optimizer+lr"}},
    ),
    Published(
        "runs_of_a_solver.csv",
        first=("loss", "Adam", "L-BFGS", 5),
    ),
    Published(
        "models_and_optimizers_of_a_page.md",
        first=("MLP (784→128)", "SGD", "Momentum", 1),
    ),
    Published(
        "two_curves.csv",
        first=("loss", "adamw", "sophia", 1),
        refusal="--at last",
        way_out={"at": "last"},
    ),
    Published(
        "curves_in_columns.csv",
        first=("value", "AdamW", "Sophia-G", 1),
        asked={"better": "lower"},
        refusal="--at last",
        way_out={"at": "last"},
    ),
    Published(
        "a_row_for_each_metric.csv",
        first=("Final Loss", "AdamW", "Sophia", 1),
        refusal="--metric",
        way_out={"metric": "Final Loss"},
    ),
    Published(
        "rates_of_each_optimizer.csv",
        first=("Test Acc", "SGD/0.01", "SGD/0.1", 1),
        asked={"metric": "Test Acc"},
        refusal='optimizer="Optimizer+Learning Rate"',
        way_out={"columns": {"optimizer": "Optimizer+Learning Rate"}},
    ),
    Published(
        "tasks_of_glue.csv",
        first=("CoLA", "AdamW", "Lion", 5),
        asked={"better": "higher"},
        refusal="n=5",
        way_out={"columns": {"n": "5"}},
    ),
    Published(
        "architectures_in_rows.csv",
        first=("ResNet-18", "SGD", "Adam", 3),
        asked={"better": "higher"},
        refusal="n=5",
        way_out={"columns": {"n": "3"}},
    ),
    Published(
        "sizes_of_a_model.csv",
        first=("124M", "AdamW", "Muon", 1),
        refusal="--better",
        way_out={"better": "lower"},
    ),
    Published(
        "returns_of_agents.csv",
        first=("Hopper-v4", "PPO", "SAC", 3),
    ),
    Published(
        "the_trials_of_a_search.csv",
        first=("value", "SGD", "Adam", 5),
        asked={"better": "lower"},
        refusal='ignore="params_lr"',
        way_out={"columns": {"ignore": "params_lr+params_weight_decay"}},
    ),
    Published(
        "mean_ranks.md",
        first=("loss", "emonavi", "adam", 1),
        refusal="--metric",
        way_out={"metric": "loss"},
    ),
    Published(
        "runs_with_other_facts.md",
        first=("adversarial_gradient", "AdamW", "SOAP", 1),
    ),
    Published(
        "lists_by_task_optimizer_and_metric.json",
        first=("mnist", "sgd", "adam", 3),
        asked={"metric": "final_acc"},
        refusal="--columns seed=rows",
        way_out={"columns": {"seed": "rows"}},
    ),
    Published(
        "folds_in_columns.csv",
        first=("value", "adam", "sgd", 5),
        refusal="--better",
        way_out={"better": "higher"},
    ),
    Published(
        "means_and_deviations_in_columns.csv",
        first=("mnist", "adam", "sgd", 5),
        refusal="--better",
        way_out={"better": "higher"},
    ),
    Published(
        "standard_errors.csv",
        first=("val_loss", "Muon", "AdamW", 5),
    ),
    Published(
        "names_of_runs.csv",
        first=("val_loss", "muon", "adamw", 3),
    ),
]


@pytest.mark.parametrize("case", PUBLISHED, ids=lambda case: case.file)
def test_a_table_of_a_paper_is_read_or_refused_with_a_way_out_that_works(case):
    asked = dict(case.asked)
    if case.refusal:
        with pytest.raises(UsageError) as refused:
            fb.verdicts(TABLES / case.file, **asked)
        assert case.refusal in str(refused.value)
        asked |= case.way_out
    first = fb.verdicts(TABLES / case.file, **asked)[0]
    assert (first.arena, first.optimizer, first.baseline, first.n_optimizer) == case.first
