"""Tables of other programs and people, each a file in the folder `tables`, are read as their makers mean them."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import fairbench as fb
from fairbench.common.errors import UsageError

TABLES = Path(__file__).parent / "tables"


@dataclass
class Export:
    """The export of a program, what must be said of it, and the verdict's numbers; 1 comparison."""

    file: str
    optimizer: str
    baseline: str
    n: int
    mean: float | None = None
    baseline_mean: float | None = None
    gain: float | None = None
    notes: int = 0
    options: dict[str, Any] = field(default_factory=dict)


WANDB_RUNS = Export(
    "wandb_runs.csv",
    options={"metric": "val/loss"},
    optimizer="muon",
    baseline="adamw",
    n=3,
    mean=3.281667,
    baseline_mean=3.332333,
    gain=0.05066667,
)
WANDB_CHART = Export(
    "wandb_chart.csv",
    options={"at": "last"},
    optimizer="muon",
    baseline="adamw",
    n=2,
    mean=3.275,
    baseline_mean=3.34,
    gain=0.065,
    notes=3,
)
MLFLOW_RUNS = Export(
    "mlflow_runs.csv",
    options={"metric": "test_accuracy"},
    optimizer="adam",
    baseline="sgd",
    n=2,
)
TENSORBOARD_SCALARS = Export(
    "tensorboard_scalars.csv",
    options={"metric": "loss/eval", "at": "best"},
    optimizer="lion",
    baseline="adamw",
    n=2,
    mean=2.22,
    baseline_mean=2.325,
    gain=0.105,
    notes=1,
)
ALGOPERF_CURVES = Export(
    "algoperf_curves.csv",
    options={"columns": {"seed": "study"}, "at": 2000},
    optimizer="shampoo",
    baseline="nadamw",
    n=2,
    mean=0.724,
    baseline_mean=0.7224,
    gain=0.0016,
)
HUGGINGFACE_RESULTS = Export(
    "huggingface_results.jsonl",
    options={"metric": "eval_loss"},
    optimizer="adamw_torch",
    baseline="adafactor",
    n=2,
    mean=0.415,
    baseline_mean=0.435,
    gain=0.02,
)
OPTUNA_TRIALS = Export(
    "optuna_trials.csv",
    options={"better": "lower"},
    optimizer="Ranger",
    baseline="Adam",
    n=2,
    mean=0.315,
    baseline_mean=0.3355,
    gain=0.0205,
)
README_TABLE = Export(
    "readme_table.md",
    options={"columns": {"n": "3"}},
    optimizer="SAM",
    baseline="SGD",
    n=3,
    mean=97.3,
    baseline_mean=96.6,
    gain=0.7,
    notes=1,
)
SPREADSHEET = Export(
    "spreadsheet.csv",
    options={
        "columns": {"arena": "Datensatz", "optimizer": "Verfahren", "seed": "Lauf"},
        "better": "higher",
    },
    optimizer="Neu",
    baseline="Adam",
    n=2,
    mean=98.5,
    baseline_mean=98.15,
    gain=0.35,
)
PANDAS_SUMMARY = Export(
    "pandas_summary.csv",
    options={"metric": "test_ppl"},
    optimizer="soap",
    baseline="adamw",
    n=4,
    mean=21.4,
    baseline_mean=22.1,
    gain=0.7,
)
EXPORTS = [
    WANDB_RUNS,
    WANDB_CHART,
    MLFLOW_RUNS,
    TENSORBOARD_SCALARS,
    ALGOPERF_CURVES,
    HUGGINGFACE_RESULTS,
    OPTUNA_TRIALS,
    README_TABLE,
    SPREADSHEET,
    PANDAS_SUMMARY,
]


@pytest.mark.parametrize("case", EXPORTS, ids=lambda case: case.file)
def test_exports_of_programs(case):
    judged = fb.verdicts(TABLES / case.file, **case.options)
    (c,) = judged
    assert (c.optimizer, c.baseline, c.n_optimizer) == (case.optimizer, case.baseline, case.n)
    assert c.mean_optimizer == pytest.approx(case.mean)
    assert c.mean_baseline == pytest.approx(case.baseline_mean)
    assert c.gain == pytest.approx(case.gain)
    assert len(judged.notes) == case.notes, judged.notes
    assert judged.read_as.startswith("Read as: ")


@pytest.mark.parametrize("case", EXPORTS, ids=lambda case: case.file)
def test_without_options_each_export_asks_for_them(case):
    with pytest.raises(UsageError, match=r"(?s)Give --|give --|a mean of how many seeds"):
        fb.verdicts(TABLES / case.file)


@dataclass
class Published:
    """A published table, the columns and options that it needs, and its first comparison."""

    file: str
    arena: str
    optimizer: str
    baseline: str
    n: int
    mean: float
    baseline_mean: float
    columns: dict[str, str] = field(default_factory=dict)
    options: dict[str, str] = field(default_factory=dict)


AUTOMLBENCHMARK = Published(
    "automlbenchmark.csv",
    options={"metric": "auc"},
    arena="kr-vs-kp",
    optimizer="autosklearn",
    baseline="TPOT",
    n=3,
    mean=0.9864667,
    baseline_mean=0.9817667,
)
GATE_NETWORKS = Published(
    "gate_networks.md",
    columns={"seed": "point"},
    options={"metric": "test acc"},
    arena="MNIST",
    optimizer="backprop",
    baseline="dfa",
    n=2,
    mean=97.265,
    baseline_mean=91.43,
)
MODDED_NANOGPT = Published(
    "modded_nanogpt.csv",
    arena="final_loss",
    optimizer="weighted_r8",
    baseline="baseline",
    n=3,
    mean=3.2741,
    baseline_mean=3.2795333,
)
MOLPROP_RUNS = Published(
    "molprop_runs.csv",
    columns={"arena": "dataset+experiment"},
    options={"metric": "test_rmse"},
    arena="ESOL/A",
    optimizer="random",
    baseline="tpe",
    n=2,
    mean=0.9315,
    baseline_mean=0.9065,
)
NCA_BEST_BY_SEED = Published(
    "nca_best_by_seed.csv",
    columns={"arena": "model_type"},
    options={"metric": "f1_test"},
    arena="cnn",
    optimizer="de",
    baseline="ga",
    n=2,
    mean=0.6475,
    baseline_mean=0.643,
)
OPTIMIZER_RANKS = Published(
    "optimizer_ranks.json",
    options={"better": "lower"},
    arena="rankingByAvgRank",
    optimizer="adalite",
    baseline="soap",
    n=1,
    mean=17.7,
    baseline_mean=25.7,
)
PYPESTO_BEST_FX = Published(
    "pypesto_best_fx.csv",
    options={"better": "lower"},
    arena="Armistead",
    optimizer="SLSQP",
    baseline="COBYLA",
    n=2,
    mean=-301.916185,
    baseline_mean=-301.87982,
)
TIMM_IMAGENET = Published(
    "timm_imagenet.csv",
    columns={"optimizer": "model"},
    options={"metric": "top1"},
    arena="top1",
    optimizer="eva02_large_patch14_448.mim_m38m_ft_in22k_in1k",
    baseline="convnextv2_huge.fcmae_ft_in22k_in1k_512",
    n=1,
    mean=90.04,
    baseline_mean=88.85,
)
PUBLISHED = [
    AUTOMLBENCHMARK,
    GATE_NETWORKS,
    MODDED_NANOGPT,
    MOLPROP_RUNS,
    NCA_BEST_BY_SEED,
    OPTIMIZER_RANKS,
    PYPESTO_BEST_FX,
    TIMM_IMAGENET,
]


@pytest.mark.parametrize("case", PUBLISHED, ids=lambda case: case.file)
def test_published_tables(case):
    c = fb.verdicts(TABLES / case.file, columns=case.columns, **case.options)[0]
    assert (c.arena, c.optimizer, c.baseline, c.n_optimizer) == (case.arena, case.optimizer, case.baseline, case.n)
    assert c.mean_optimizer == pytest.approx(case.mean)
    assert c.mean_baseline == pytest.approx(case.baseline_mean)


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("algoperf_measurements.csv", "which column is the optimizer"),
        ("batch_sweep.csv", "which column is the optimizer"),
        ("gate_networks.md", "runs of one optimizer differ in point"),
        ("heavyball.md", "in lines 7 and 14; give --metric with a column"),
        ("molprop_runs.csv", "which metric is judged"),
    ],
)
def test_published_tables_that_may_mean_two_things_or_lack_a_column(file, words):
    with pytest.raises(UsageError, match=words):
        fb.verdicts(TABLES / file)


def test_arenas_without_a_value_of_the_metric_are_named():
    skipped = fb.verdicts(TABLES / "automlbenchmark.csv", metric="auc").notes
    assert "1 arena without a value of auc skipped: mfeat-factors" in skipped
