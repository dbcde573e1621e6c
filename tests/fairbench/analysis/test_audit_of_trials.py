"""Each flag, provoked by trials that really ran: a bad practice, an accident or a cheat for each of them."""

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import archives
import pytest
from audited import Bench, evidence, found, names, specs

from fairbench.cli.main import main
from fairbench.data.transforms import ImageTransform
from fairbench.optimizers.spec import OptimizerPlan
from fairbench.study.history import History
from fairbench.study.plan import Study
from fairbench.study.records import Store
from fairbench.study.snapshot import Snapshot
from fairbench.suites.schema import ArenaPlan
from fairbench.training import environment

pytestmark = pytest.mark.xdist_group("libraries")  # one worker imports what studies need

BY_CHANCE = {
    *("low power", "still improving", "selected by chance", "order not settled", "gap still changes"),
    *("fewer rates", "data-bound timing"),
}
"""What trials as short as these may raise or not, by the last bits of their numbers and by the speed of the machine."""

ODD_OPTIMIZERS = """
import torch


class Early(torch.optim.AdamW):
    '''Trains in its first step alone.'''

    trained = range(1)

    def step(self, closure=None):
        self.steps = getattr(self, "steps", -1) + 1
        return super().step(closure) if self.steps in self.trained else None


class Late(Early):
    '''Trains from its thirteenth step on.'''

    trained = range(12, 1000)


def antithetic(shape, randn=torch.randn, **options):
    half = randn((shape[0] // 2, *shape[1:]), **options)
    return torch.cat([half, -half])


class Meddles(torch.optim.AdamW):
    '''Draws less of the noise that everybody trains on.'''

    def step(self, closure=None):
        torch.randn = antithetic
        return super().step(closure)
"""


BYTES = ArenaPlan(
    metric="loss",
    margin=0.01,
    sweep_steps=8,
    steps=12,
    batch_size=8,
    data={"source": "stdlib", "context": 8, "evaluated": 32},
    model={"hidden_size": 8, "layers": 1, "heads": 1},
    task="gpt",
)
"""Which bytes are frequent is learned in a few steps."""


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    made = Bench(tmp_path_factory.mktemp("audited"))
    (made.folder / "odd_optimizers.py").write_text(ODD_OPTIMIZERS)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(made.folder)
        yield made


@pytest.fixture(scope="module")
def plain(bench: Bench) -> Study:
    """AdamW and PsiLogic, treated alike."""
    return bench.run()


@pytest.fixture(scope="module")
def bent(bench: Bench) -> Study:
    """Nearly everything that is no good practice at once."""
    tiny = bench.tiny
    same = {"weight_decay": 0.01}
    return bench.run(
        optimizers={
            "AdamW": OptimizerPlan(options=same),
            "Copy": OptimizerPlan("torch.optim:AdamW", same),
            "Adam": OptimizerPlan(options=same),
            "PsiLogic": OptimizerPlan(
                options={"weight_decay": 0.1, "chaos_warmup": 1000, "grad_centralize": True},
                arenas={"vit": {"agc_clip": 0.01}},
            ),
        },
        training=replace(tiny.training, clip_norm=1e-6),
        breaks=["split", "seeds"],
        final=replace(tiny.final, seeds=[0]),
        deviations=["Nothing here is as it should be."],
    )


@pytest.fixture(scope="module")
def broken(bench: Bench) -> Study:
    """An optimizer that diverges at every rate, and one that raises at some."""
    own = {name: OptimizerPlan(f"own_optimizers:{name}") for name in ("Explodes", "Raises")}
    return bench.run(optimizers={**bench.tiny.optimizers, **own})


def test_equal_treatment_raises_little(bench: Bench, plain: Study) -> None:
    """Of two rates with one extension the best is on the edge; and the trials said that they shared their device."""
    assert names(found(plain, bench)) - BY_CHANCE <= {"rate at the edge", "shared device"}
    assert "shared device" in names(found(plain, bench))
    assert evidence(found(plain, bench), "shared device").startswith("vit: AdamW 2 of 2 trials")


def test_bad_practice_is_named_flag_by_flag(bench: Bench, bent: Study) -> None:
    flags = found(bent, bench)
    assert names(flags) - BY_CHANCE - {"rate at the edge"} == {
        *("selection on what is reported", "deviations", "unequal treatment", "coupled decay", "inactive mechanism"),
        *("duplicate results", "cannot reach alpha", "clipped in every step", "shared device"),
    }
    leak = evidence(flags, "selection on what is reported")
    assert "selected on the split that the report is about" in leak
    assert "selected with seeds that the report is about" in leak
    assert evidence(flags, "deviations") == "Nothing here is as it should be."
    assert evidence(flags, "coupled decay") == "vit: 0.01 is coupled in Adam and decoupled in AdamW, Copy"
    assert evidence(flags, "inactive mechanism") == (
        "vit: PsiLogic gate open only while the term was off or held at 0, changed nothing"
    )
    assert evidence(flags, "duplicate results") == "the same final weights: vit AdamW seed 0 = Copy seed 0."
    assert "Adam in 100% of the steps, at 1e-06" in evidence(flags, "clipped in every step")
    assert evidence(flags, "unequal treatment").split("; ") == [
        "vit: gradient centralization off (AdamW, Copy, Adam), on (PsiLogic)",
        "vit: adaptive gradient clipping off (AdamW, Copy, Adam), 0.01 (PsiLogic)",
        "vit: options for this arena: none (AdamW, Copy, Adam), agc_clip (PsiLogic)",
        "vit: weight decay 0.01 (AdamW, Copy, Adam), 0.1 (PsiLogic)",
    ]


def test_lost_trials_are_named(bench: Bench, broken: Study) -> None:
    flags = found(broken, bench)
    assert {"incomplete", "diverged trials"} <= names(flags)
    assert "1 failed" in evidence(flags, "incomplete")
    assert "No learning rate is selected yet for vit Raises" in evidence(flags, "incomplete")
    assert "no final trial was run: vit Explodes" in evidence(flags, "diverged trials")


def test_too_narrow_a_grid_is_named(bench: Bench, plain: Study) -> None:
    narrow = replace(plain, suite=replace(plain.suite, sweep=replace(plain.suite.sweep, max_extensions=0)))
    assert "2 of 2 selected learning rates" in evidence(found(narrow, bench), "rate at the edge")


@pytest.fixture(scope="module")
def turning(bench: Bench) -> Study:
    """One optimizer that trains early, two that train late and differ by next to nothing; rates that do so too."""
    tiny = bench.tiny
    late = {
        name: OptimizerPlan("odd_optimizers:Late", {"weight_decay": x}) for name, x in (("Late", 0.01), ("Twin", 0))
    }
    return bench.run(
        arenas={"short": BYTES, "long": replace(BYTES, steps=24, tuned_on="short")},
        optimizers={"Early": OptimizerPlan("odd_optimizers:Early"), **late},
        reference="Late",
        sweep=replace(tiny.sweep, lr_min=1e-2, lr_max=1.001e-2),
        final=replace(tiny.final, seeds=[1, 2, 3]),
    )


def test_an_order_that_turns_is_named_in_all_its_aspects(bench: Bench, turning: Study) -> None:
    flags = found(turning, bench)
    assert evidence(flags, "flip between horizons").startswith("short against Early ")
    assert evidence(flags, "order not settled").startswith("long against Early -")
    assert evidence(flags, "gap still changes").startswith("long against Early gains +")
    assert evidence(flags, "still improving").startswith("long: Late 0.")
    assert "long against Twin" in evidence(flags, "low power")
    assert "short Early (leads by " in evidence(flags, "selected by chance")


def test_a_longer_search_is_named(bench: Bench) -> None:
    """The best rate of SGD is the highest, that of AdamW lies inside: only one of them gets another."""
    tiny = bench.tiny
    searched = bench.run(
        arenas={"bytes": BYTES},
        optimizers={"AdamW": OptimizerPlan(), "SGD": OptimizerPlan("torch.optim:SGD")},
        reference="SGD",
        sweep=replace(tiny.sweep, lr_min=1e-4, lr_max=1.0, points=3),
    )
    assert evidence(found(searched, bench), "fewer rates") == "bytes AdamW 3, SGD 4."


def test_slow_data_are_named(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Training reads from a disk that takes a tenth of a second for a batch."""
    tiny, read = bench.tiny, ImageTransform.__call__

    def slowly(self: ImageTransform, batch: Any, generator: Any) -> Any:
        if generator is not None:
            time.sleep(0.1)
        return read(self, batch, generator)

    monkeypatch.setattr(ImageTransform, "__call__", slowly)
    slow = bench.run(
        arenas={"vit": replace(tiny.arenas["vit"], sweep_steps=1, steps=2)}, final=replace(tiny.final, seeds=[1])
    )
    assert evidence(found(slow, bench), "data-bound timing").startswith("vit: AdamW ")


def test_trials_of_another_revision_are_named(
    bench: Bench, plain: Study, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """A seed that is added after the code was changed."""
    request.addfinalizer(environment.environment.cache_clear)
    environment.environment.cache_clear()
    monkeypatch.setattr(environment, "LOADED_REVISION", "the next commit")
    more = bench.run(final=replace(bench.tiny.final, seeds=[1, 2, 3]))
    flags = found(more, bench)
    assert "the next commit" in evidence(flags, "mixed machines")
    assert evidence(flags, "mixed machines").endswith("Concerned: vit against AdamW.")
    assert "mixed machines" not in names(found(plain, bench))


def test_data_of_unknown_origin_are_named(bench: Bench) -> None:
    """An archive that is not the one of the authors, taken by --unverified."""
    images = archives.noise(33, 3, (32, 32), 0), archives.noise(6, 3, (32, 32), 1)
    archives.write_tar(
        bench.folder / "cifar-100-python.tar.gz", archives.cifar_members(*images, ["apple", "bee", "can"])
    )
    words = ["data", "prepare", "--dataset", "cifar100", "--data-root", str(bench.folder), "--unverified"]
    assert main(words) == 0
    own = replace(bench.tiny.arenas["vit"], data={"source": "cifar100"}, batch_size=4, sweep_steps=2, steps=2)
    assert evidence(found(bench.run(arenas={"vit": own}), bench), "unverified data") == (
        "in vit their hash differs from the known one, or none is known."
    )


def test_an_optimizer_that_changes_what_all_train_on_is_named(bench: Bench) -> None:
    model = {"channels": [4, 4], "norm_groups": 2, "attention_levels": []}
    plan = replace(
        bench.tiny.arenas["vit"], metric="mse", batch_size=2, sweep_steps=2, steps=2, task="ddpm", model=model,
        data={"source": "digits", "evaluated": 8},
    )  # fmt: skip
    optimizers = {"AdamW": OptimizerPlan(), "Meddles": OptimizerPlan("odd_optimizers:Meddles")}
    cheated = bench.run(arenas={"ddpm": plan}, optimizers=optimizers, reference="Meddles")
    assert "differ between trials in ddpm sweep seed 0, ddpm final seed 1, ddpm final seed 2. " in evidence(
        found(cheated, bench), "unequal conditions"
    )


def test_plans_that_come_late_are_named(bench: Bench, plain: Study, tmp_path: Path) -> None:
    store, declared = Store(tmp_path), History()
    declared = declared.declare(plain, "morning", Snapshot(store.directory).final_trials())
    for spec in specs(plain, bench):
        store.write(bench.records[spec.id])
    wider = replace(plain, suite=replace(plain.suite, alpha=0.2))
    late = declared.declare(wider, "noon", Snapshot(store.directory).final_trials())
    assert "noon, when 4 final trials had a record: suite.alpha from 0.05 to 0.2." in evidence(
        found(plain, bench, late), "changed afterwards"
    )
    assert "unknown plan" not in names(found(plain, bench, late))
    unknown = History().declare(plain, "noon", Snapshot(store.directory).final_trials())
    assert evidence(found(plain, bench, unknown), "unknown plan").startswith("4 final trials are older")
