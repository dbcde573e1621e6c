"""Tables in the forms in which repositories of papers have them are read right, or refused with a way out that works.

The columns are those of public files; the numbers are our own. Each table is in the folder `tables_of_papers`.
"""

import io
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
        refusal='or optimizer="optimizer+lr"',
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
    Published(
        "splits_in_rows.csv",
        first=("dev", "ours_ctc", "base_ctc", 1),
        asked={"metric": "wer"},
        refusal='give --columns arena="split"',
        way_out={"columns": {"arena": "split"}},
    ),
    Published(
        "components_of_a_model.csv",
        first=("ETTh1/cheb/sum/96", "TimeNet", "Linear", 2),
        asked={"columns": {"optimizer": "model"}},
        refusal='arena="dataset+basis+fusion+horizon"',
        way_out={"columns": {"optimizer": "model", "arena": "dataset+basis+fusion+horizon"}},
    ),
    Published(
        "means_without_spread.csv",
        first=("power", "elman", "jordan", 1),
        asked={"metric": "mape", "columns": {"optimizer": "model"}},
        refusal='ignore="n" to take each mean as one value',
        way_out={"columns": {"optimizer": "model", "ignore": "n"}},
    ),
    Published(
        "page_with_settings.md",
        first=("Test Loss", "SGD + Momentum", "Adam", 1),
        refusal="in lines 3 and 8 and 13; give --metric with a column",
        way_out={"metric": "Test Loss"},
    ),
    Published(
        "aligned_by_spaces.txt",
        first=("Score", "HATAM", "SGD + Momentum", 1),
        refusal="which values are better? Give --better",
        way_out={"better": "higher"},
    ),
    Published(
        "models_of_two_scales.md",
        first=("AIME24", "CoRT/32B", "CESF/32B", 1),
        asked={"better": "higher"},
        refusal='optimizer="Model" or optimizer="Scale"',
        way_out={"columns": {"optimizer": "Model+Scale"}},
    ),
    Published(
        "summary_by_budget.json",
        first=("10", "cobyla", "spsa", 15),
        asked={"metric": "ratio", "better": "higher", "columns": {"arena": "level 3"}},
        refusal='Give --columns optimizer="level 2"',
        way_out={"columns": {"optimizer": "level 2", "arena": "level 3", "n": "15"}},
    ),
    Published(
        "latencies_of_formats.json",
        first=("value", "FP16", "FP32", 100),
        asked={"better": "lower", "columns": {"optimizer": "level 1"}},
        refusal="Give --metric with one of speedup_vs_fp32, value",
        way_out={"metric": "value"},
    ),
    Published(
        "plots_of_runs.csv",
        first=("test_accuracy", "0.5", "1.0", 1),
        refusal="which column is the optimizer? Give --columns optimizer=NAME",
        way_out={"columns": {"optimizer": "lambda"}},
    ),
    Published(
        "gains_beside_means.md",
        first=("top_1", "FANoS default", "FANoS slow", 3),
        asked={"metric": "Top-1"},
        refusal="n=5",
        way_out={"columns": {"n": "3"}},
    ),
    Published(
        "tasks_of_a_source.csv",
        first=("cifar100", "SGD", "Adam", 1),
        refusal="--better",
        way_out={"better": "higher"},
    ),
    Published(
        "means_of_families.csv",
        first=("macro_ndcg_at_10", "adamw/primary", "muon/primary", 1),
        asked={"better": "higher"},
        refusal='give --columns arena="family", or optimizer="optimizer+family"',
        way_out={"columns": {"optimizer": "optimizer+family"}},
    ),
    Published(
        "arguments_of_models.csv",
        first=("val_acc", 'cnn/{"channels": [32, 64], "dropout": 0.25}', 'cnn/{"channels": [32, 64]}', 10),
        asked={"columns": {"optimizer": "model"}},
        refusal='optimizer="model+model_args"',
        way_out={"columns": {"optimizer": "model+model_args"}},
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


def test_settings_alone_are_no_results():
    table = io.StringIO("Optimizer,Default LR,Default Weight Decay\nSGD,0.1,5e-4\nAdam,0.001,0.0\n")
    with pytest.raises(UsageError, match="which column is the value"):
        fb.verdicts(table, better="lower")


def test_a_spread_without_a_name_is_not_that_of_another_column():
    """The standard deviation is that of the column "mean"."""
    asked = {"metric": "speedup_vs_fp32", "better": "higher", "columns": {"optimizer": "level 1", "ignore": "num_runs"}}
    (c,) = fb.verdicts(TABLES / "latencies_of_formats.json", **asked)
    assert (c.mean_optimizer, c.n_optimizer, c.std_optimizer) == (1.48, 1, None)


def test_a_mean_over_columns_is_no_metric():
    with pytest.raises(UsageError, match="with one of AIME24, AMC23, MATH500"):
        fb.verdicts(TABLES / "models_of_two_scales.md", columns={"optimizer": "Model"})
