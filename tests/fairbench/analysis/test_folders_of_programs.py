"""Folders and tables as programs leave them are read as their makers mean them, and no run becomes an arena."""

import io
import json
from itertools import product

import pytest

import fairbench as fb
from fairbench.common.errors import UsageError

OPTIMIZERS = {"adamw": 0.0, "lion": 0.02, "muon": -0.05}
DATA_SETS = {"cifar10": 0.9, "svhn": 0.4}
RUNS = [*product(OPTIMIZERS, DATA_SETS, range(3))]


def final_loss(optimizer, data_set, seed):
    return DATA_SETS[data_set] + OPTIMIZERS[optimizer] + 0.003 * (len(optimizer + data_set) * (seed + 1) % 5)


def write(file, text):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def judged_by_hand(verdicts):
    """Whether each data set has the three pairs of optimizers, compared over the same three seeds."""
    pairs = {(arena, a, b) for arena in DATA_SETS for a, b in (("adamw", "lion"), ("adamw", "muon"), ("lion", "muon"))}
    assert {(c.arena, *sorted((c.optimizer, c.baseline))) for c in verdicts} == pairs
    assert len(verdicts) == len(pairs)
    for c in verdicts:
        assert (c.test, c.n_optimizer, c.n_baseline) == ("paired", 3, 3)
        losses = [final_loss(c.optimizer, c.arena, seed) for seed in range(3)]
        assert c.mean_optimizer == pytest.approx(sum(losses) / 3)
    assert not verdicts.across


RESULT = '{{"val_loss": {loss}, "epoch": 10}}'
CURVE = "epoch,step,val_loss\n0,49,2.0\n1,99,{loss}\n"
OVERRIDES = "- optimizer={optimizer}\n- +dataset={data_set}\n- seed={seed}\n"
NESTED = "optimizer:\n  name: {optimizer}\n  lr: 0.001\ndataset: {data_set}\nseed: {seed}\n"
FLAT = "dataset: {data_set}\nlr: 0.001\noptimizer: {optimizer}\nseed: {seed}\n"
IN_JSON = '{{"optimizer": "{optimizer}", "dataset": "{data_set}", "seed": {seed}}}'


@pytest.mark.parametrize(
    ("result", "content", "settings", "text"),
    [
        ("{number}/results.json", RESULT, ".hydra/overrides.yaml", OVERRIDES),
        ("{number}/results.json", RESULT, ".hydra/config.yaml", NESTED),
        ("lightning_logs/version_{number}/metrics.csv", CURVE, "hparams.yaml", FLAT),
        ("{number}/results.json", RESULT, "args.json", IN_JSON),
        ("dataset={data_set},optimizer={optimizer},seed={seed}/results.json", RESULT, "", ""),
        ("{optimizer}/{data_set}/version_{seed}/metrics.csv", CURVE, "", ""),
    ],
)
def test_settings_of_hydra_and_lightning_say_optimizer_data_set_and_seed(tmp_path, result, content, settings, text):
    for number, (optimizer, data_set, seed) in enumerate(RUNS):
        run = {"number": number, "optimizer": optimizer, "data_set": data_set, "seed": seed}
        file = tmp_path / "multirun" / result.format(**run)
        write(file, content.format(loss=final_loss(optimizer, data_set, seed)))
        if settings:
            write(file.parent / settings, text.format(**run))
    at = "last" if content == CURVE else ""
    judged_by_hand(fb.verdicts(tmp_path / "multirun", metric="val_loss", at=at))


def test_settings_of_runs_that_differ_without_a_seed_are_asked_for(tmp_path):
    for number, (optimizer, rate) in enumerate(product(OPTIMIZERS, (0.1, 0.01, 0.001))):
        folder = tmp_path / f"version_{number}"
        write(folder / "metrics.csv", CURVE.format(loss=1 + rate))
        write(folder / "hparams.yaml", f"optimizer: {optimizer}\nlr: {rate}\n")
    with pytest.raises(UsageError, match="runs of one optimizer differ in lr"):
        fb.verdicts(tmp_path, at="last")


def write_tensorboard(folder, *tags):
    """What TensorBoard downloads: a file for each run and tag."""
    for run, tag in product(RUNS, tags):
        optimizer, data_set, seed = run
        loss = final_loss(*run) + len(tag) - len("val_loss")
        rows = [f"1700000000.5,{step},{loss + 1 / (1 + step) - 1 / 1001}" for step in (0, 100, 1000)]
        name = f"run-{optimizer}_{data_set}_seed{seed}_version_0-tag-{tag}.csv"
        write(folder / name, "\n".join(["Wall time,Step,Value", *rows]))


def test_the_files_of_tensorboard(tmp_path):
    write_tensorboard(tmp_path / "one", "val_loss")
    judged_by_hand(fb.verdicts(tmp_path / "one", at="last"))
    write_tensorboard(tmp_path / "two", "val_loss", "train_loss")
    with pytest.raises(UsageError, match="which metric is judged"):
        fb.verdicts(tmp_path / "two", at="last")
    judged_by_hand(fb.verdicts(tmp_path / "two", at="last", metric="val_loss"))


def test_the_states_of_trainers(tmp_path):
    for optimizer, data_set, seed in RUNS:
        loss = final_loss(optimizer, data_set, seed)
        history = [{"step": 500, "loss": 9.0}, {"step": 500, "eval_loss": 2.0}, {"step": 1000, "eval_loss": loss}]
        folder = tmp_path / f"{optimizer}-{data_set}-seed{seed}" / "checkpoint-1000"
        write(folder / "trainer_state.json", json.dumps({"best_metric": 0.1, "log_history": history}))
    judged_by_hand(fb.verdicts(tmp_path, metric="eval_loss", at="last"))


def test_the_runs_of_mlflow_have_names_next_to_parameters():
    lines = ["run_id,status,metrics.val_loss,params.opt,params.dataset,params.seed,tags.mlflow.runName"]
    for number, (optimizer, data_set, seed) in enumerate(RUNS):
        name = f"{optimizer}-{data_set}-{seed}"
        loss = final_loss(optimizer, data_set, seed)
        lines.append(f"{number:032x},FINISHED,{loss},{optimizer},{data_set},{seed},{name}")
    judged_by_hand(fb.verdicts(io.StringIO("\n".join(lines)), metric="val_loss"))


def test_the_splits_of_scikit_learn_are_seeds_and_no_arenas():
    head = ["", "mean_fit_time", "param_solver", "params", *(f"split{number}_test_score" for number in range(5))]
    lines = [",".join([*head, "mean_test_score", "std_test_score", "rank_test_score"])]
    for number, solver in enumerate(("adam", "sgd", "lbfgs")):
        scores = [0.9 + 0.01 * number + 0.002 * (fold * (number + 2) % 5) for fold in range(5)]
        cells = [number, 0.1, solver, f"{{'solver': '{solver}'}}", *scores, sum(scores) / 5, 0.01, number + 1]
        lines.append(",".join(map(str, cells)))
    verdicts = fb.verdicts(io.StringIO("\n".join(lines)), better="higher")
    assert [(c.arena, c.test, c.n_optimizer) for c in verdicts] == [("test_score", "paired", 5)] * 3
    assert not verdicts.across
    assert "the folds of a cross-validation share training examples" in str(verdicts.notes)


def test_the_names_of_groups_in_a_chart_of_wandb():
    text = "Step,Group: adamw - val/loss,Group: lion - val/loss\n0,2,2\n100,1,1.1\n"
    (c,) = fb.verdicts(io.StringIO(text), at="last")
    assert (c.optimizer, c.baseline) == ("adamw", "lion")


def test_epochs_in_a_column_without_a_name_are_steps_and_no_arenas(tmp_path):
    for optimizer, seed in product(OPTIMIZERS, range(3)):
        rows = [f"{epoch},{final_loss(optimizer, 'svhn', seed) + 4 - epoch}" for epoch in range(5)]
        write(tmp_path / f"{optimizer}_{seed}" / "history.csv", "\n".join([",val_loss", *rows]))
    with pytest.raises(UsageError, match='give --columns step="column 1", or'):
        fb.verdicts(tmp_path, at="last")
    verdicts = fb.verdicts(tmp_path, at="last", columns={"step": "column 1"})
    assert [(c.test, c.n_optimizer) for c in verdicts] == [("paired", 3)] * 3


def test_a_table_in_latex_is_refused_with_a_way_out():
    text = "\\begin{tabular}{lc}\nMethod & SVHN \\\\\nAdamW & $95.1 \\pm 0.2$ \\\\\n\\end{tabular}"
    with pytest.raises(UsageError, match="is LaTeX; save its table as CSV or Markdown"):
        fb.verdicts(io.StringIO(text))
