"""The audit of two studies that really ran: one of good practice, and one that breaks nearly every rule."""

from dataclasses import replace

import pytest
from fabricated import flags_of
from tiny import TINY, here, write_tiny

from fairbench.optimizers.spec import OptimizerPlan
from fairbench.runner.preflight import run_preflight
from fairbench.study.records import Record
from fairbench.study.trial_queue import TrialQueue
from fairbench.suites.loader import load_suite
from fairbench.training.device_slot import DeviceSlot
from fairbench.training.trial import trial

pytestmark = pytest.mark.xdist_group("audit_of_trials")

BY_CHANCE = {
    *("low power", "still improving", "order not settled", "gap still changes"),
    *("rate at the edge", "limits of the test", "modified checkout"),
}
"""Flags that trials as short as these may raise or not, by the last bits of their numbers and by the machine."""


@pytest.fixture(scope="module")
def audited(tmp_path_factory):
    """Runs the tiny suite with other entries; returns the evidence of each flag."""
    folder = tmp_path_factory.mktemp("audited")
    tiny = load_suite(str(write_tiny(folder, TINY.replace("steps = 40", "steps = 12"))))

    def run(**changed):
        slot = DeviceSlot(data_root=str(folder), alone=False)
        records: dict[str, Record] = {}
        fields = {}
        for name, made in changed.items():
            fields[name] = made(tiny) if callable(made) else made
        suite = replace(tiny, **fields)
        study = run_preflight(suite, slot, here).study
        queue = TrialQueue(study, lambda spec: records.get(spec.id))
        while spec := queue.next():
            records[spec.id] = trial(spec, slot)
            queue.ended(spec)
        return flags_of(study, lambda spec: records.get(spec.id))

    return run


def test_good_practice_raises_little(audited):
    flags = audited()
    assert flags.keys() - BY_CHANCE == {"selected by one search"}


def test_each_broken_rule_raises_its_flag(audited):
    same = {"weight_decay": 0.01}
    different = {"weight_decay": 0.1, "chaos_warmup": 1000, "grad_centralize": True}
    optimizers = {
        "AdamW": OptimizerPlan(options=same),
        "Copy": OptimizerPlan("torch.optim:AdamW", same),
        "Adam": OptimizerPlan(options=same, lr_scale=0.5),
        "PsiLogic": OptimizerPlan(options=different, arenas={"vit": {"agc_clip": 0.01}}, lr=1e-3),
    }
    flags = audited(
        optimizers=optimizers,
        training=lambda tiny: replace(tiny.training, clip_norm=1e-6),
        breaks=["split"],
        final=lambda tiny: replace(tiny.final, seeds=[0]),
        deviations=["Nothing here is as it should be."],
    )
    assert flags.keys() - BY_CHANCE == {
        *("selection on what is reported", "deviations", "unequal treatment", "coupled decay", "inactive mechanism"),
        *("duplicate results", "clipped almost always", "untuned", "selected by one search"),
    }
    assert "selected on the split that the report is about" in flags["selection on what is reported"]
    assert flags["deviations"] == "Nothing here is as it should be."
    assert flags["coupled decay"] == "vit: 0.01 is coupled in Adam and decoupled in AdamW, Copy"
    inactive = "vit: PsiLogic its gate opened only while its term was off; it changed nothing"
    assert flags["inactive mechanism"] == inactive
    assert flags["duplicate results"] == "the same final weights: vit AdamW seed 0 = Copy seed 0."
    assert "Adam in 100% of the steps, at 1e-06" in flags["clipped almost always"]
    assert flags["unequal treatment"].split("; ") == [
        "vit: gradient centralization off (AdamW, Copy, Adam), on (PsiLogic)",
        "vit: adaptive gradient clipping off (AdamW, Copy, Adam), 0.01 (PsiLogic)",
        "vit: options for this arena: none (AdamW, Copy, Adam), agc_clip (PsiLogic)",
        "vit: weight decay 0.01 (AdamW, Copy, Adam), 0.1 (PsiLogic)",
        "vit: lr_scale default (AdamW, Copy), 0.5 instead of 1 (Adam)",
    ]
    assert flags["untuned"] == "PsiLogic (lr 0.001): final trials only."
