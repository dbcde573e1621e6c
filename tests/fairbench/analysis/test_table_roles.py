"""What a row and a column are follows from names, from what repeats or from --columns; otherwise it is refused."""

import io
import json

import pytest

import fairbench as fb
from fairbench.common.errors import UsageError


def judge(text, **asked):
    asked.setdefault("better", "lower")
    return fb.verdicts(io.StringIO(text), **asked)


def pairs(judged):
    """The arena and the two optimizers of each comparison, with the numbers of their runs."""
    return [(c.arena, c.optimizer, c.baseline, c.n_optimizer, c.n_baseline) for c in judged]


def test_an_unnamed_first_column_of_texts_has_arenas_if_the_columns_are_optimizers():
    lines = [",AdamW,SGD", *(f"task {letter},1.{n},2.{n}" for n, letter in enumerate("abcde"))]
    assert [c.arena for c in judge("\n".join(lines))] == [f"task {letter}" for letter in "abcde"]


def test_an_unnamed_first_column_has_optimizers_if_its_texts_are_well_known_ones():
    assert pairs(judge(",val_loss,lr\nAdamW,1,2\nSGD,3,4")) == [("val_loss", "AdamW", "SGD", 1, 1)]
    with pytest.raises(UsageError, match="which column is the optimizer"):
        judge(",val_loss,lr\nfoo,1,2\nbar,3,4")


@pytest.mark.parametrize("head", [",0,1,2", "optimizer,1,2,3", "Method,seed 4,seed 5,seed 7", "model,run0,run1,run2"])
def test_columns_that_count_are_seeds(head):
    (c,) = judge(f"{head}\nAdamW,1.0,1.012,1.021\nSGD,1.1,1.121,1.133")
    assert (c.optimizer, c.baseline, c.test, c.n_optimizer) == ("AdamW", "SGD", "paired", 3)


@pytest.mark.parametrize("head", ["optimizer,10,20,50", "optimizer,0.1,0.01,0.001"])
def test_columns_of_other_numbers_are_asked_for(head):
    text = f"{head}\nAdamW,1.0,1.012,1.021\nSGD,1.1,1.121,1.133"
    with pytest.raises(UsageError, match="--columns seed=columns if they are seeds, --columns arena=columns"):
        judge(text)
    assert len(judge(text, columns={"arena": "columns"})) == 3
    (c,) = judge(text, columns={"seed": "columns"})
    assert c.test == "paired"


def test_a_file_without_a_line_of_names_is_told_to_get_one():
    text = "AdamW,0,mnist,0.91\nAdamW,1,mnist,0.92\nLion,0,mnist,0.93\nLion,1,mnist,0.94"
    with pytest.raises(UsageError, match="no names of columns, since 'AdamW' is also a value below it; write a line"):
        judge(text)


def test_levels_of_json_are_told_by_their_keys():
    runs = {"AdamW": [1.1, 1.3, 1.2], "SGD": [2.1, 2.3, 2.25]}
    by_task = json.dumps({"mnist": runs, "wiki": runs})
    expected = [("mnist", "AdamW", "SGD", 3, 3), ("wiki", "AdamW", "SGD", 3, 3)]
    assert pairs(judge(by_task)) == expected
    by_optimizer = json.dumps({name: {"mnist": values, "wiki": values} for name, values in runs.items()})
    assert sorted(pairs(judge(by_optimizer))) == expected
    by_metric = json.dumps({"val_loss": runs, "val_acc": runs})
    assert pairs(judge(by_metric, metric="val_loss")) == [("val_loss", "AdamW", "SGD", 3, 3)]
    unknown = json.dumps({"x": {"a": [1, 2], "b": [2, 3]}, "y": {"a": [1, 2], "b": [2, 3]}})
    with pytest.raises(UsageError, match="which column is the optimizer"):
        judge(unknown)
    told = judge(unknown, columns={"optimizer": "level 2", "arena": "level 1"})
    assert pairs(told) == [("x", "a", "b", 2, 2), ("y", "a", "b", 2, 2)]


def test_statistics_of_a_name_are_one_summary():
    means = {"AdamW": {"mean": 1.0, "std": 0.01, "n": 4}, "SGD": {"mean": 1.1, "std": 0.012, "n": 4}}
    pivot = ",mean,mean,std,std\noptimizer,AdamW,SGD,AdamW,SGD\ndataset,,,,\nmnist,1.0,1.1,0.01,0.012"
    flat = "dataset,AdamW (mean),AdamW (std),SGD (mean),SGD (std)\nmnist,1.0,0.01,1.1,0.012"
    for judged in (judge(json.dumps(means)), judge(pivot, columns={"n": "4"}), judge(flat, columns={"n": "4"})):
        (c,) = judged
        assert (c.optimizer, c.baseline, c.n_optimizer, c.verdict) == ("AdamW", "SGD", 4, "better")
        assert (c.std_optimizer, c.std_baseline) == (0.01, 0.012)


CURVE = [3.0, 2.2, 1.7, 1.5, 1.41, 1.42, 1.3]


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({name: {"train_loss": CURVE, "val_loss": CURVE} for name in ("AdamW", "SGD")}),
        json.dumps([{"optimizer": name, "val_loss": CURVE} for name in ("AdamW", "SGD")]),
        json.dumps([{"optimizer": name, "epoch": [*range(7)], "val_loss": CURVE} for name in ("AdamW", "SGD")]),
    ],
)
def test_a_list_below_a_metric_is_a_curve(text):
    with pytest.raises(UsageError, match="begins a curve over steps; give --at last"):
        judge(text, metric="val_loss")
    (c,) = judge(text, metric="val_loss", at="last")
    assert (c.n_optimizer, c.mean_optimizer) == (1, 1.3)


def test_rows_without_names_that_fall_are_no_runs():
    curves = "\n".join(["AdamW,SGD", *(f"{value},{value + 0.1}" for value in CURVE)])
    with pytest.raises(UsageError, match="--columns step=rows with --at last"):
        judge(curves)
    (c,) = judge(curves, columns={"step": "rows"}, at="last")
    assert (c.n_optimizer, c.mean_optimizer) == (1, 1.3)
    (c,) = judge(curves, columns={"seed": "rows"})
    assert (c.n_optimizer, c.test) == (7, "welch")


def test_short_rows_that_fall_together_are_no_runs():
    """Three rows of one optimizer fall by chance one time in six, those of two optimizers one time in 36."""
    with pytest.raises(UsageError, match="the values fall from row to row"):
        judge("AdamW,SGD\n3.0,3.3\n2.0,2.4\n1.5,1.9\n", better="lower")
    (c,) = judge("AdamW,SGD\n3.0,2.4\n2.0,3.3\n1.5,1.9\n", better="lower")
    assert (c.n_optimizer, c.test) == (3, "welch")
    (c,) = judge("AdamW,SGD\n3.0,3.3\n2.0,2.4\n", better="lower")
    assert c.n_optimizer == 2


SUMMARIES = [
    *("Avg.", "Overall", "Total", "Mean:", "Average (4 seeds)", "SEM", "stderr", "var", "p-value", "25%", "best"),
    *("Mittelwert", "Moyenne", "Durchschnitt", "Std. dev.", "mean ± std", "95% CI", "Mean of 4 runs", "Avg. rank"),
]


@pytest.mark.parametrize("word", SUMMARIES)
def test_a_summary_at_the_end_is_no_seed_and_no_arena(word):
    seeds = "seed,AdamW,SGD\n0,1.0,1.1\n1,1.01,1.15\n2,1.02,1.17\n"
    (c,) = judge(f"{seeds}{word},1.01,1.14")
    assert (c.n_optimizer, c.test) == (3, "paired")
    tasks = ",AdamW,SGD\nmnist,1.0,1.1\nsvhn,1.01,1.15\n"
    assert [c.arena for c in judge(f"{tasks}{word},1.01,1.14")] == ["mnist", "svhn"]


def test_a_text_among_seeds_that_are_numbers_is_named_with_its_line():
    with pytest.raises(UsageError, match="line 5: 'foo' is no seed"):
        judge("seed,AdamW,SGD\n0,1.0,1.1\n1,1.01,1.15\n2,1.02,1.17\nfoo,1,2")


@pytest.mark.parametrize(
    ("head", "rows"),
    [
        ("optimizer,schedule,seed", ("cosine,0", "cosine,1", "linear,2", "linear,3")),
        ("optimizer,schedule,x", ("cosine,0", "cosine,0", "linear,0", "linear,0")),
        ("optimizer,width,x", ("64,0", "64,0", "128,0", "128,0")),
        ("optimizer,lr,trial", ("0.1,0", "0.03,1", "0.02,2", "0.07,3")),
        ("optimizer,params_weight_decay,seed", ("0.1,0", "0.03,1", "0.02,2", "0.07,3")),
        ("optimizer,batch size,x", ("64,0", "64,0", "128,0", "128,0")),
    ],
)
def test_runs_of_other_settings_are_no_seeds(head, rows):
    column = head.split(",")[1]
    lines = [f"{head},loss"]
    for optimizer, added in (("AdamW", 0), ("SGD", 0.5)):
        for number, row in enumerate(rows):
            lines.append(f"{optimizer},{row},{1 + added + 0.1 * (number * 3 % 4)}")
    text = "\n".join(lines)
    with pytest.raises(UsageError, match=f"runs of one optimizer differ in {column}; give --columns"):
        judge(text)
    assert len(judge(text, columns={"ignore": column})) == 1


def test_what_differs_between_equal_runs_is_no_setting():
    lines = ["optimizer,seed,hostname,runtime,final_loss"]
    for optimizer in ("AdamW", "SGD"):
        for seed in range(4):
            lines.append(f"{optimizer},{seed},node{seed % 2},{seed * 3.5},{len(optimizer) + seed * 0.1}")
    assert len(judge("\n".join(lines))) == 1


@pytest.mark.parametrize("setting", ["lr", "width", "samples"])
def test_a_first_column_of_settings_is_no_optimizer(setting):
    with pytest.raises(UsageError, match=f"differ in {setting}; give --columns"):
        judge(f"{setting},AdamW,SGD\n1,1.0,1.1\n10,1.5,1.3\n100,1.2,1.4")


def test_optimizers_by_data_sets_are_one_family():
    lines = [
        "Method,MNIST,CIFAR-10,SVHN,Avg.",
        "Ours,0.1 ± 0.01,0.2 ± 0.01,0.3 ± 0.01,0.2",
        "SGD,0.2 ± 0.01,0.21 ± 0.01,0.4 ± 0.02,0.27",
    ]
    judged = judge("\n".join(lines), columns={"n": "5"})
    assert [c.arena for c in judged] == ["MNIST", "CIFAR-10", "SVHN"]
    smallest = min(judged, key=lambda c: c.p)
    assert smallest.p_holm == pytest.approx(3 * smallest.p)


def test_arrows_tell_the_direction_of_each_arena():
    text = "Method,MNIST acc ↑,PTB ppl ↓\nOurs,0.9 ± 0.01,20 ± 0.5\nSGD,0.8 ± 0.01,30 ± 0.5"
    with pytest.raises(UsageError, match="which metric"):
        fb.verdicts(io.StringIO(text), columns={"n": "5"})
    names = "Method,MNIST ↑,PTB ↓\nOurs,0.9 ± 0.01,20 ± 0.5\nSGD,0.8 ± 0.01,30 ± 0.5"
    judged = fb.verdicts(io.StringIO(names), columns={"n": "5"})
    assert [(c.arena, c.direction, c.verdict) for c in judged] == [("MNIST", "max", "better"), ("PTB", "min", "better")]


@pytest.mark.parametrize("keys", [("0.1", "0.01"), ("32", "64"), ("10", "100")])
def test_a_level_of_settings_is_refused(keys):
    runs = {keys[0]: [1.0, 1.2, 1.1], keys[1]: [1.3, 1.1, 1.2]}
    with pytest.raises(UsageError, match="level 2"):
        judge(json.dumps({"AdamW": runs, "SGD": runs}))


@pytest.mark.parametrize("heading", ["MNIST (95% CI)", "MNIST (mean ± SE)", "MNIST [min-max]"])
def test_a_heading_may_say_that_the_second_number_is_no_deviation(heading):
    text = f"Method,{heading},SVHN\nAdamW,1 ± .1,1 ± .1\nSGD,2 ± .1,2 ± .1"
    with pytest.raises(UsageError, match="is no standard deviation"):
        judge(text, columns={"n": "5"})


def test_what_describe_writes_is_one_summary():
    text = "optimizer,count,mean,std,min,25%,50%,75%,max\nAdamW,5,1,.1,.8,.9,1,1.1,1.2\nSGD,5,2,.1,1.8,1.9,2,2.1,2.2"
    (c,) = judge(text)
    assert (c.n_optimizer, c.mean_optimizer, c.std_optimizer) == (5, 1, 0.1)


@pytest.mark.parametrize("ending", ["acc (%)", "(accuracy ↑)", "accuracy", "[acc]"])
def test_columns_of_data_sets_that_end_in_one_metric_are_arenas(ending):
    rows = ["| Adam | 89.9 ± 0.38 | 82.2 ± 0.35 |", "| Lion | 90.5 ± 0.27 | 82.6 ± 0.53 |"]
    head = f"| optimizer | CIFAR-10 {ending} | Imagenette {ending} |\n|---|---|---|\n"
    text = head + "\n".join(rows)
    judged = fb.verdicts(io.StringIO(text), columns={"n": "5"})
    assert pairs(judged) == [("CIFAR-10", "Adam", "Lion", 5, 5), ("Imagenette", "Adam", "Lion", 5, 5)]
    assert judged[0].direction == "max"
    unknown = text.replace("CIFAR-10", "here").replace("Imagenette", "there")
    with pytest.raises(UsageError, match="; or --columns arena=columns, if they are one metric of several data sets"):
        fb.verdicts(io.StringIO(unknown), columns={"n": "5"})
    told = fb.verdicts(io.StringIO(unknown), columns={"n": "5", "arena": "columns"})
    assert [c.arena for c in told] == ["here", "there"]
    assert [c.p_holm for c in told] == [c.p_holm for c in judged]


def test_one_column_alone_has_the_values():
    text = "optimizer,seed,a,b\nAdam,1,2,3\nAdam,2,3,4\nLion,1,2,3\nLion,2,4,5"
    with pytest.raises(UsageError, match=r"--columns value=a\+b: only arena, .* may join columns; name one of them"):
        judge(text, columns={"value": "a+b"})
