"""The paper's study from the authors' archives to the report, on small archives.

Its models are narrower, and full-size ones take a step; `soak` runs the study with these.
"""

import csv
from dataclasses import replace
from pathlib import Path

import archives
import pyarrow.parquet
import pytest
import torch
from fabricated import stored

from fairbench.arenas.registry import load_arena
from fairbench.data.batches import Batches
from fairbench.data.dataset_config import configs_of
from fairbench.data.loading import load_source
from fairbench.suites.loader import load_suite

pytestmark = pytest.mark.xdist_group("full_size")

VIT = 5_524_416 + 193 * 100
"""The parameters of timm's vit_tiny_patch16_224 without its head, and the head."""
RESNET = 11_176_512 + 513 * 200
"""The parameters of torchvision's resnet18 without its head, and the head."""
GPT = 257 * 256 + 128 * 256 + 4 * (12 * 256**2 + 13 * 256) + 2 * 256
"""Embeddings, positions, four blocks and the last norm: the formula of a GPT-2 with tied embeddings."""
DATASETS = ["tinystories", "cifar100", "tiny-imagenet", "celeba"]
SHORT = {
    "steps = 2000": "steps = 3",
    "sweep_steps = 500": "sweep_steps = 1",
    "warmup_steps = 100": "warmup_steps = 0",
    "log_every = 50": "log_every = 1",
    "batch_size = 64": "batch_size = 1",
    "points = 7": "points = 2",
    "evaluations = 10": "evaluations = 1",
    "seeds = [0, 1, 2]": "seeds = [0]",
    "evaluated = 4096": "evaluated = 1",
    "flip = true": "flip = true, evaluated = 1",
    'precision = "bfloat16"': 'precision = "float32"',
    "size = 64, crop = 140": "size = 32, crop = 140",
}
"""The lines of the suite `paper` that are replaced."""
NARROW = {
    "hidden_size = 256, layers = 4": "hidden_size = 16, layers = 1",
    "hidden_size = 192, layers = 12": "hidden_size = 12, layers = 1",
    "patch_size = 16": "patch_size = 32",
    "width = 64": "width = 4",
    "channels = [64, 128, 128]": "channels = [8, 16, 16]",
}
"""The sizes of models that are replaced besides: full-size ones take most of the time."""


def stories(split, count):
    return [f"{split}, {i}: {'once upon a time ' * 60}" for i in range(count)]


def colours(count):
    """Images of noise for Tiny ImageNet, encoded; few colours make small files."""
    images = archives.noise(count, 200, (64, 64), count)
    return archives.jpegs([(pixels // 8 * 8, label) for pixels, label in images])


@pytest.fixture
def data_root(tmp_path, monkeypatch, no_figures):
    """The four archives, small but for their numbers of classes, of which this test declares the hashes to be known."""
    root = tmp_path / "data"
    archives.write_stories(root, stories("a", 80), stories("b", 20))

    train = archives.noise(1000, 100, (32, 32), 0)
    test = archives.noise(100, 100, (32, 32), 1)
    members = archives.cifar_members(train, test, [f"class {i:02}" for i in range(100)])
    archives.write_tar(root / "cifar-100-python.tar.gz", members)

    wnids = [f"n{i:08}" for i in range(200)]
    members = archives.tiny_imagenet_members(colours(2000), colours(200), wnids)
    archives.write_zip(root / "tiny-imagenet-200.zip", members)

    faces = [data for data, _ in archives.jpegs(archives.noise(5, 1, (218, 178), 2))]
    archives.write_faces(root, {"train": faces[:3], "val": faces[3:4], "test": faces[4:]})

    for dataset in DATASETS:
        archives.register(monkeypatch, dataset, root)
    monkeypatch.chdir(tmp_path)
    return root


def short_paper(folder, replaced):
    """The suite `paper` but for three steps, one example, one seed, small faces, and float32, quick on every CPU."""
    text = (Path(__file__).parents[3] / "src/fairbench/suites/paper.toml").read_text()
    for old, new in replaced.items():
        assert old in text
        text = text.replace(old, new)
    (folder / "short.toml").write_text(text)
    return "short.toml"


def trained_parameters(name, plan, data):
    """The number of parameters that get a finite gradient from one example."""
    arena = load_arena(name)
    torch.manual_seed(0)
    model = arena.build_model(data, **plan.model)
    batch = next(Batches(data, batch_size=1, steps=1, seed=0, device=torch.device("cpu")))
    examples = arena.examples(batch, torch.Generator().manual_seed(0))
    arena.loss(model, *examples).backward()
    return sum(p.numel() for p in model.parameters() if p.grad.isfinite().all())


@pytest.mark.parametrize(
    "replaced", [SHORT | NARROW, pytest.param(SHORT, marks=pytest.mark.soak)], ids=["narrow", "full"]
)
def test_the_papers_study_on_its_own_data(data_root, tmp_path, command, replaced):
    suite = short_paper(tmp_path, replaced)
    run = f"run {suite} --optimizers AdamW,PsiLogic -o out -j 1 --data-root data --offline".split()
    assert "cifar100 is prepared by: fairbench data download" in command(*run, code=2)
    command("data", "prepare", "--suite", suite, "--data-root", "data")
    shown = command(*run)
    assert "By choice of the suite, settings are selected on the split" in " ".join(shown.split())
    assert "UNVERIFIED" not in shown

    rows = list(csv.DictReader((tmp_path / "out" / "summary.csv").open()))
    assert {row["arena"] for row in rows} == {"gpt", "vit", "resnet", "ddpm"}
    assert {row["status"] for row in rows} == {"finished"}
    table = pyarrow.parquet.read_table(tmp_path / "out" / "records.parquet")
    assert set(table["environment_data"].to_pylist()) == {"archive, verified"}
    assert {row["val"] for row in rows} == {""}  # the paper selects on what it reports
    records = [stored(path) for path in (tmp_path / "out" / "trials").glob("*.json")]
    finals = [record["result"]["final"] for record in records if record["spec"]["stage"] == "final"]
    assert len(finals) == 8
    assert all(final["val"] == final["test"] for final in finals)

    report = " ".join((tmp_path / "out" / "report.html").read_text().split())
    assert "In cifar100, 891 test images have near-duplicates in train (Barz and Denzler" in report
    command("compare", "out")

    full = load_suite("paper")
    assert full.training.precision == "bfloat16"
    assert [config.dataset for config in configs_of(full.data_tables)] == DATASETS
    short = load_suite(suite)
    counts = {}
    for arena, plan in full.arenas.items():
        data = load_source(short.arenas[arena].data, data_root)
        counts[arena] = trained_parameters(arena, plan, data)
    assert counts == {"gpt": GPT, "vit": VIT, "resnet": RESNET, "ddpm": 4_437_699}


def test_strict_and_paper_cpu_read_what_paper_reads():
    paper = load_suite("paper")
    strict = load_suite("strict")
    cpu = load_suite("paper-cpu")
    datasets = configs_of(paper.data_tables)
    assert configs_of(strict.data_tables) == datasets
    assert configs_of(cpu.data_tables) == datasets
    assert not strict.breaks
    assert len(strict.final.seeds) >= 10
    for name, arena in strict.arenas.items():
        task = strict.task(name)
        assert arena.model == paper.arenas[task].model
        assert replace(arena, task="", steps=2000, sweep_steps=500) == paper.arenas[task]
    assert not any(plan.options or plan.arenas for plan in strict.optimizers.values())
