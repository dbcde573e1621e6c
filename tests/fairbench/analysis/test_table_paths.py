"""Paths of runs that say a data set next to the optimizer: they are told apart, or the way to say it is offered."""

import re
import shlex
from itertools import product

import pytest

import fairbench as fb
from fairbench.common.errors import UsageError

LOSSES = {"Adam": (1.01, 1.02, 1.05), "Lion": (1.11, 1.13, 1.14)}
DATA_SETS = {"cifar10": 0.0, "imagenette": 7.0}


def write(folder, path, optimizers=("Adam", "Lion"), data_sets=tuple(DATA_SETS)):
    """Write a run for each optimizer, data set and seed. The second data set has losses that are 7 higher."""
    for (optimizer, losses), (data_set, more) in product(
        zip(optimizers, LOSSES.values(), strict=True), zip(data_sets, DATA_SETS.values(), strict=True)
    ):
        for seed, loss in enumerate(losses):
            file = folder / path.format(optimizer=optimizer, data_set=data_set, seed=seed)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f'{{"step": 1, "val_loss": 9}}\n{{"step": 2, "val_loss": {loss + more}}}\n')
    return folder


def judged_by_hand(verdicts):
    """Whether both data sets have one comparison of three pairs of seeds, with the gain of the losses as written."""
    gain = sum(LOSSES["Lion"]) / 3 - sum(LOSSES["Adam"]) / 3
    assert [c.gain for c in verdicts] == [pytest.approx(gain)] * 2
    assert [(c.test, c.n_optimizer, c.n_baseline) for c in verdicts] == [("paired", 3, 3)] * 2


@pytest.mark.parametrize(
    "path",
    [
        "{data_set}/{optimizer}/seed_{seed}/log.jsonl",
        "{optimizer}/{data_set}/seed_{seed}/log.jsonl",
        "seed{seed}/{optimizer}/{data_set}/log.jsonl",
        "{optimizer}_{data_set}_seed_{seed}.jsonl",
        "{data_set}-{optimizer}-s{seed}/metrics.jsonl",
        "{optimizer}-{data_set}-{seed}.jsonl",
        "{data_set}/{optimizer}_seed{seed}/version_0/log.jsonl",
    ],
)
def test_a_data_set_in_the_paths_is_an_arena(tmp_path, path):
    verdicts = fb.verdicts(write(tmp_path, path), metric="val_loss", at="last")
    assert [c.pair for c in verdicts] == [("cifar10", "Adam", "Lion"), ("imagenette", "Adam", "Lion")]
    judged_by_hand(verdicts)
    example = path.partition("/log")[0].partition("/metrics")[0].partition("/version")[0].removesuffix(".jsonl")
    example = example.format(optimizer="Adam", data_set="cifar10", seed=0)
    said = f"the path {example} says optimizer = Adam, arena = cifar10, seed = 0; step = step"
    assert said in verdicts.read_as.replace("/version_0", "")


def test_an_own_optimizer_stands_with_the_names_of_data_sets(tmp_path):
    folder = write(tmp_path, "{data_set}_{optimizer}_seed{seed}.jsonl", optimizers=("foo", "bar"))
    verdicts = fb.verdicts(folder, metric="val_loss", at="last")
    assert [c.pair for c in verdicts] == [("cifar10", "bar", "foo"), ("imagenette", "bar", "foo")]


def test_a_missing_optimizer_does_not_join_the_data_sets(tmp_path):
    folder = write(tmp_path, "{data_set}/{optimizer}/seed_{seed}/log.jsonl")
    for seed in range(3):
        file = folder / f"extra/Adam/seed_{seed}/log.jsonl"
        file.parent.mkdir(parents=True)
        file.write_text('{"step": 1, "val_loss": 9}\n')
    judged_by_hand(fb.verdicts(folder, metric="val_loss", at="last"))


def test_one_optimizer_on_several_data_sets_is_not_compared_with_itself(tmp_path):
    folder = tmp_path / "runs"
    write(tmp_path, "runs/{data_set}/{optimizer}/seed_{seed}/log.jsonl")
    files = sorted(folder.glob("*/Adam/*/log.jsonl"))
    with pytest.raises(UsageError, match="Adam shares no arena with another optimizer"):
        fb.verdicts(files, metric="val_loss", at="last")


@pytest.mark.parametrize(
    ("path", "data_sets"),
    [
        ("{data_set}/{optimizer}/seed_{seed}/log.jsonl", ("here", "there")),
        ("{data_set}-{optimizer}-{seed}.jsonl", ("here", "there")),
        ("{data_set}_{optimizer}/log_{seed}.jsonl", ("lr0.1", "lr0.2")),
    ],
)
def test_parts_that_do_not_say_which_is_the_optimizer_are_refused_with_an_option_that_works(tmp_path, path, data_sets):
    folder = write(tmp_path, path, optimizers=("foo", "bar"), data_sets=data_sets)
    with pytest.raises(UsageError) as raised:
        fb.verdicts(folder, metric="val_loss", at="last", baselines=["bar"])
    message = str(raised.value)
    assert re.search(r"differ in 2 parts: .*\. Which is the optimizer\? Give --name", message)
    assert "did you mean" not in message
    option = re.search(r"--name ('[^']*')", message)
    (name,) = shlex.split(option[1])
    verdicts = fb.verdicts(folder, metric="val_loss", at="last", baselines=["foo"], name=name)
    assert sorted(c.pair for c in verdicts) == [(data_set, "bar", "foo") for data_set in data_sets]


def test_variants_of_optimizers_are_no_grid(tmp_path):
    for name in ("sgd_momentum", "sgd_nesterov", "adam_amsgrad"):
        for seed in range(2):
            (tmp_path / f"{name}_seed{seed}.jsonl").write_text(f'{{"val_loss": {1 + seed / 10}}}\n')
    verdicts = fb.verdicts(tmp_path, metric="val_loss")
    assert [(c.optimizer, c.baseline) for c in verdicts][1:] == [
        ("adam_amsgrad", "sgd_nesterov"),
        ("sgd_momentum", "sgd_nesterov"),
    ]


@pytest.mark.parametrize(
    ("content", "message"), [("", "Lion/seed_1/log.jsonl is empty"), ('{"a', "Lion/seed_1/log.jsonl, line 1, column")]
)
def test_an_empty_or_broken_file_is_named_with_its_folder(tmp_path, content, message):
    folder = write(tmp_path, "{data_set}/{optimizer}/seed_{seed}/log.jsonl")
    (folder / "cifar10" / "Lion" / "seed_1" / "log.jsonl").write_text(content)
    with pytest.raises(UsageError, match=f"cifar10/{message}"):
        fb.verdicts(folder, metric="val_loss", at="last")


@pytest.fixture
def by_seed(tmp_path, monkeypatch):
    """Results in JSON by seed, two of which have a file of settings that is no table next to them."""
    for optimizer, losses in LOSSES.items():
        for data_set, seed in product(DATA_SETS, range(3)):
            file = tmp_path / "seeds" / data_set / optimizer / f"seed_{seed}.json"
            file.parent.mkdir(parents=True, exist_ok=True)
            loss = losses[seed] + DATA_SETS[data_set]
            file.write_text(f'{{"config": {{"lr": 0.1, "seed": {seed}}}, "test": {{"loss": {loss}}}}}')
    (tmp_path / "seeds" / "machine.json").write_text("{}")
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("options", [{}, {"baselines": ["Adam"]}, {"metric": "test.loss"}])
def test_a_folder_of_other_files_is_told_the_pattern_that_reads_them(by_seed, options):
    with pytest.raises(UsageError, match=r"seeds holds no study, .* give (.*)$") as raised:
        fb.verdicts("seeds", **options)
    pattern = str(raised.value).rpartition(" ")[2]
    assert pattern == "seeds/*/*/*.json"
    judged_by_hand(fb.verdicts(pattern, metric="test.loss"))


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("sedes/*/*/*.json", r"there is no file sedes/.* in .*; did you mean 'seeds'\?"),
        ("seeds/cifar1/Adam/seed_0.json", r"there is no file .*; did you mean 'cifar10'\?"),
        ("sedes", r"there is neither a file nor a publication sedes; did you mean 'seeds'\?"),
        ("papr", r"unknown publication 'papr'; did you mean 'paper'\?"),
    ],
)
def test_a_mistyped_path_is_told_the_nearest_one(by_seed, path, message):
    with pytest.raises(UsageError, match=message):
        fb.verdicts(path)
