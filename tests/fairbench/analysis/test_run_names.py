"""Names of runs, in a column or in the names of columns, say optimizer, data set and seed as the paths of files do."""

import csv
import io
import re
import shlex
from itertools import product

import pytest

import fairbench as fb
from fairbench.common.errors import UsageError

BASE = {"cifar10": 0.9, "svhn": 0.4, "tinyimagenet": 1.5}
GAIN = {"AdamW": 0.0, "Muon": 0.06, "Lion": -0.01, "PsiLogic": 0.02}
FORMS = ("{0}-{1}-seed{2}", "{0}_{1}_{2}", "{1}/{0}/seed_{2}", "{0} {1} run {2}")


def final_loss(optimizer, data_set, seed):
    scatter = len(optimizer) * (seed + 2) * len(data_set) % 7
    return BASE[data_set] - GAIN[optimizer] + 0.004 * scatter


def curve(optimizer, data_set, seed):
    last = final_loss(optimizer, data_set, seed)
    return {step: f"{last + 2 / (1 + step):.6f}" for step in (0, 100, 2000)}


RUNS = [*product(GAIN, BASE, range(3))]


def chart_of_wandb(form):
    """What W&B downloads of a chart: a column of each run, and two of the range of its group."""
    curves = {form.format(*run): curve(*run) for run in RUNS}
    lines = ["Step"]
    for name in curves:
        lines[0] += "".join(f",{name} - val/loss{end}" for end in ("", "__MIN", "__MAX"))
    for step in (0, 100, 2000):
        lines.append(f"{step}" + "".join(f",{losses[step]}" * 3 for losses in curves.values()))
    return "\n".join(lines)


def history_of_runs(form, column="Name"):
    """A row for each run and step."""
    file = io.StringIO()
    writer = csv.writer(file)
    writer.writerow([column, "Step", "val/loss"])
    for run in RUNS:
        writer.writerows([form.format(*run), step, loss] for step, loss in curve(*run).items())
    return file.getvalue()


def judge(text, **asked):
    return fb.verdicts(io.StringIO(text), at="last", **asked)


def judged_by_hand(verdicts, data_sets=tuple(BASE)):
    """Whether each data set has a comparison of each optimizer with AdamW over the same three seeds."""
    assert [c.pair for c in verdicts] == [(arena, name, "AdamW") for arena in data_sets for name in list(GAIN)[1:]]
    for c, data_set in zip(verdicts, [arena for arena in BASE for _ in range(3)], strict=True):
        losses = [final_loss(c.optimizer, data_set, seed) for seed in range(3)]
        others = [final_loss("AdamW", data_set, seed) for seed in range(3)]
        assert (c.test, c.n_optimizer, c.n_baseline) == ("paired", 3, 3)
        assert c.gain == pytest.approx(sum(others) / 3 - sum(losses) / 3, abs=1e-5)


@pytest.mark.parametrize("form", FORMS)
def test_a_column_of_each_run(form):
    verdicts = judge(chart_of_wandb(form), baselines="AdamW")
    judged_by_hand(verdicts)
    name = form.format("AdamW", "cifar10", 0)
    assert f"the name {name} says optimizer = AdamW, arena = cifar10, seed = 0; step = Step" in verdicts.read_as


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("column", "columns"), [("Name", {}), ("run", {}), ("Name", {"optimizer": "Name"})])
def test_a_column_of_the_names_of_runs(form, column, columns):
    judged_by_hand(judge(history_of_runs(form, column), baselines="AdamW", columns=columns))


@pytest.mark.parametrize("table", [chart_of_wandb, history_of_runs])
def test_a_pattern_tells_the_parts_of_names(table):
    name = r"(?P<seed>\d)x(?P<task>\w+?)x(?P<optimizer>\w+)"
    verdicts = judge(table("{2}x{1}x{0}"), baselines="AdamW", name=name, columns={"arena": "task"})
    judged_by_hand(verdicts)
    with pytest.raises(UsageError, match=r"--name .* is not in 0xcifar10xAdamW; change it, or leave this run out"):
        judge(table("{2}x{1}x{0}"), name="(?P<optimizer>Z)")


@pytest.mark.parametrize("table", [chart_of_wandb, history_of_runs])
def test_parts_that_do_not_say_the_optimizer_are_refused_with_a_pattern_that_works(table):
    text = table("{0}-{1}-{2}")
    for word, unknown in zip((*GAIN, *BASE), ("a", "b", "c", "d", "here", "there", "far"), strict=True):
        text = text.replace(word, unknown)
    with pytest.raises(UsageError) as raised:
        judge(text)
    message = str(raised.value)
    assert "the names of its runs differ in 2 parts: a, b, c, d; here, there, far. Which is the optimizer?" in message
    (name,) = shlex.split(re.search(r"--name ('[^']*')", message)[1])
    exchanged = name.replace("arena", "x").replace("optimizer", "arena").replace("x", "optimizer")
    assert {c.arena for c in judge(text, name=exchanged)} == {"here", "there", "far"}


def test_a_run_without_any_value_is_not_lost_sight_of():
    text = chart_of_wandb("{0}-{1}-seed{2}")
    lines = list(csv.reader(io.StringIO(text)))
    place = lines[0].index("Lion-svhn-seed1 - val/loss")
    for line in lines[1:]:
        line[place] = ""
    verdicts = judge("\n".join(map(",".join, lines)), baselines="AdamW")
    (lost,) = (c for c in verdicts if c.verdict == "incomplete")
    assert (lost.pair, lost.note) == (("svhn", "Lion", "AdamW"), "Lion without a value 1/3")


def test_a_data_set_in_names_is_an_arena_next_to_a_column_of_optimizers():
    lines = ["Name,optimizer,val_loss"]
    for optimizer, data_set, seed in RUNS:
        lines.append(f"{optimizer}-{data_set}-{seed},{optimizer},{final_loss(optimizer, data_set, seed)}")
    verdicts = fb.verdicts(io.StringIO("\n".join(lines)), baselines="AdamW")
    judged_by_hand(verdicts)


def test_names_may_not_contradict_a_column_of_arenas():
    lines = ["Name,task,val_loss"]
    for optimizer, data_set, seed in RUNS:
        lines.append(f"{optimizer}-{data_set}-{seed},vision,{final_loss(optimizer, data_set, seed)}")
    with pytest.raises(UsageError, match="the names in Name say cifar10, svhn, tinyimagenet, which task does not tell"):
        fb.verdicts(io.StringIO("\n".join(lines)))
    judged_by_hand(fb.verdicts(io.StringIO("\n".join(lines)), baselines="AdamW", columns={"ignore": "task"}))


@pytest.mark.parametrize("column", ["optimizer", "method"])
def test_a_data_set_in_the_names_of_optimizers(column):
    lines = [f"{column},seed,val_loss"]
    for optimizer, data_set, seed in RUNS:
        lines.append(f"{optimizer}-{data_set},{seed},{final_loss(optimizer, data_set, seed)}")
    judged_by_hand(fb.verdicts(io.StringIO("\n".join(lines)), baselines="AdamW"))


def test_variants_of_optimizers_are_no_arenas():
    names = ["Adam-cosine", "Adam-linear", "SGD-cosine", "SGD-linear"]
    lines = [f"seed,{','.join(names)}", "0,1,2,3,4", "1,2,2,5,4", "2,1,5,3,4"]
    assert len(fb.verdicts(io.StringIO("\n".join(lines)), better="lower")) == 6


def test_settings_that_differ_between_the_seeds_of_names_are_asked_for():
    lines = ["Name,lr,val_loss"]
    for number, optimizer in enumerate(("AdamW", "Lion")):
        lines += [f"{optimizer}-{seed},{0.1 + seed},{1 + number + seed / 10}" for seed in range(3)]
    with pytest.raises(UsageError, match="runs of one optimizer differ in lr"):
        fb.verdicts(io.StringIO("\n".join(lines)))


UNLIKE = {"AdamW": "adamw", "Muon": "sgd-momentum", "Lion": "lion", "PsiLogic": "psilogic"}


@pytest.mark.parametrize("data_sets", [{"cifar10": "cifar-10"}, {}])
def test_names_with_different_numbers_of_parts(data_sets):
    text = history_of_runs("{0}-{1}-seed{2}")
    for word, other in {**UNLIKE, **data_sets}.items():
        text = text.replace(word, other)
    verdicts = judge(text, baselines="adamw")
    assert len(verdicts) == 9
    assert {c.arena for c in verdicts} == {*data_sets.values(), *BASE} - {*data_sets}
    assert {c.optimizer for c in verdicts} == {"sgd-momentum", "lion", "psilogic"}
    assert all(c.n_optimizer == 3 for c in verdicts)


def test_names_of_data_sets_that_do_not_have_the_same_optimizers_are_refused():
    text = history_of_runs("{0}-{1}-seed{2}").replace("tinyimagenet", "tiny-imagenet")
    with pytest.raises(UsageError, match="and not the same optimizers in each"):
        judge(text)


@pytest.mark.parametrize("head", ["optimizer,Name", "Group,Name"])
def test_data_sets_in_one_of_two_columns_are_arenas(head):
    lines = [f"{head},val_loss"]
    for optimizer, data_set, seed in RUNS:
        cells = [optimizer, f"{data_set}-{seed}"]
        if head.startswith("Group"):
            cells = [f"{optimizer}_{data_set}", f"icy-sun-{seed}"]
        lines.append(",".join([*cells, f"{final_loss(optimizer, data_set, seed)}"]))
    verdicts = fb.verdicts(io.StringIO("\n".join(lines)), baselines="AdamW")
    assert [c.pair for c in verdicts] == [(arena, name, "AdamW") for arena in BASE for name in list(GAIN)[1:]]
    assert [(c.n_optimizer, c.n_baseline) for c in verdicts] == [(3, 3)] * 9
    if head.startswith("optimizer"):
        judged_by_hand(verdicts)


def test_a_chart_of_each_data_set_in_a_file_of_its_own(tmp_path):
    for data_set in BASE:
        chart = {f"{name}-seed{seed}": curve(name, data_set, seed) for name in GAIN for seed in range(3)}
        lines = ["Step," + ",".join(f"{name} - val/loss" for name in chart)]
        lines += [f"{step}," + ",".join(losses[step] for losses in chart.values()) for step in (0, 100, 2000)]
        (tmp_path / f"wb_{data_set}.csv").write_text("\n".join(lines))
    judged_by_hand(fb.verdicts(tmp_path, at="last", baselines="AdamW"))


def test_seeds_in_the_paths_next_to_a_column_of_seeds_are_no_optimizers(tmp_path):
    for optimizer, seed in product(GAIN, range(3)):
        file = tmp_path / optimizer / f"seed_{seed}.json"
        file.parent.mkdir(exist_ok=True)
        loss = final_loss(optimizer, "svhn", seed)
        file.write_text(f'{{"config": {{"seed": {seed}}}, "test": {{"loss": {loss}}}}}')
    verdicts = fb.verdicts(str(tmp_path / "*" / "*.json"), baselines="AdamW")
    assert [(c.optimizer, c.test, c.n_optimizer) for c in verdicts] == [
        (name, "paired", 3) for name in ("Lion", "Muon", "PsiLogic")
    ]


@pytest.mark.parametrize(
    ("names", "without"),
    [
        ("adamw_s1 adamw_s2 adamw lion_s1 lion_s2", "adamw, and others have one, such as adamw_s1"),
        ("adamw lion adamw-seed2 lion-seed2", "adamw, lion, and others have one, such as adamw-seed2"),
        ("adamw_1 adamw_2 lion_1 lion_2 lion_last", "lion_last, and others have one, such as adamw_1"),
    ],
)
def test_names_of_which_some_lack_a_seed_are_refused(names, without):
    table = "run,loss\n" + "\n".join(f"{name},1.{number}" for number, name in enumerate(names.split()))
    with pytest.raises(UsageError, match=f"no seed in {without}; .*: --columns optimizer=run"):
        fb.verdicts(io.StringIO(table))
    assert {c.optimizer for c in fb.verdicts(io.StringIO(table), columns={"optimizer": "run"})} <= {*names.split()}


def test_numbers_from_1_on_behind_a_letter_are_seeds_next_to_names_without():
    table = "run,loss\nadamw_s1,1.0\nadamw_s2,1.1\nadamw_s3,1.3\nlion,0.9\nlion,0.8\nlion,0.95\nvit-s16,1\n"
    verdicts = fb.verdicts(io.StringIO(table))
    assert verdicts[0].pair[1:] == ("adamw", "lion")
    assert (verdicts[0].n_optimizer, verdicts[0].mean_baseline) == (3, pytest.approx(0.8833, abs=1e-4))
