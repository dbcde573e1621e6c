"""Each flag, provoked by trials that really ran where that takes no more than seconds, else by made-up records."""

import io
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from fabricated import Records, finals, history, study
from rich.console import Console
from tiny import TINY, study_of, write_tiny

from fairbench.analysis.audit import CHECKS, audit
from fairbench.analysis.audit.flag import SEVERITIES, Flag
from fairbench.cli import main
from fairbench.executors import Place, failure
from fairbench.history import History, Plan, write_history
from fairbench.optimizers import decay_kind
from fairbench.plan import Record, Schedule, Study
from fairbench.report import judged
from fairbench.report.console import print_audit, print_flags
from fairbench.spec import TrialSpec
from fairbench.store import Store
from fairbench.suite import OptimizerPlan
from fairbench.suite_file import load_suite
from fairbench.trial import trial

pytestmark = pytest.mark.xdist_group("libraries")  # one worker imports what studies need

PAGE = Path(__file__).parents[2] / "docs" / "audit.md"
BY_CHANCE = {
    *("low power", "still improving", "selected by chance", "order not settled", "gap still changes"),
    *("fewer rates", "data-bound timing"),
}
"""What trials as short as these may raise or not, by the last bits of their numbers and by the machine's mood."""


def found(the_study: Study, records: Callable[[TrialSpec], Record | None], plans: History | None = None) -> list[Flag]:
    plans = plans or history(the_study)
    results, comparisons, first = judged(plans, records)
    return audit(results, comparisons, plans, first)


def names(flags: Sequence[Flag]) -> set[str]:
    return {flag.name for flag in flags}


def evidence(flags: Sequence[Flag], name: str) -> str:
    (flag,) = [flag for flag in flags if flag.name == name]
    return flag.evidence


class Bench:
    """Trials that really ran, in this process; one that several studies share ran once."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.records = folder, dict[str, Record]()
        self.tiny = load_suite(str(write_tiny(folder, TINY.replace("steps = 40", "steps = 12"))))

    def __call__(self, spec: TrialSpec) -> Record | None:
        return self.records.get(spec.id)

    def run(self, **changed: Any) -> Study:
        """The study of the tiny suite with other entries, every trial of it on record."""
        the_study = study_of(replace(self.tiny, **changed))
        schedule = Schedule(the_study, self)
        while spec := schedule.next():
            self.records[spec.id] = json.loads(json.dumps(self._record(spec)))
            schedule.ended(spec)
        return the_study

    def _record(self, spec: TrialSpec) -> Record:
        try:
            return trial(spec, Place(alone=False))
        except ArithmeticError as error:
            return failure(spec, type(error).__name__, str(error), "")

    def with_every(self, change: Callable[[Record], Record]) -> Callable[[TrialSpec], Record | None]:
        """The same records, each changed."""

        def lookup(spec: TrialSpec) -> Record | None:
            record = self(spec)
            return change(record) if record and record["result"] else record

        return lookup


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(tmp_path_factory.mktemp("audited"))


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
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(bench.folder)
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


def elsewhere(record: Record) -> Record:
    device = f"machine of {record['spec']['optimizer']['name']}"
    return {**record, "environment": {**record["environment"], "device": device}}


def of_unknown_origin(record: Record) -> Record:
    return {**record, "environment": {**record["environment"], "data": "archive, not verified"}}


def shuffled(record: Record) -> Record:
    hashes = {**record["result"]["hashes"], "batches": record["spec"]["optimizer"]["name"]}
    return {**record, "result": {**record["result"], "hashes": hashes}}


@pytest.mark.parametrize(
    ("change", "name", "text"),
    [
        (elsewhere, "mixed machines", "In vit against AdamW it goes with the optimizer"),
        (of_unknown_origin, "unverified data", "in vit their hash is not the known one"),
        (shuffled, "unequal conditions", "vit sweep seed 0, vit final seed 1, vit final seed 2"),
    ],
)
def test_records_from_elsewhere(
    bench: Bench, plain: Study, change: Callable[[Record], Record], name: str, text: str
) -> None:
    flags = found(plain, bench.with_every(change))
    assert text in evidence(flags, name)
    assert names(flags) - names(found(plain, bench)) == {name}


def test_late_and_unknown_plans(bench: Bench, plain: Study) -> None:
    wider = replace(plain, suite=replace(plain.suite, alpha=0.2))
    late = History((Plan(plain, "morning", 0), Plan(wider, "noon", 3)))
    assert "suite.alpha from 0.05 to 0.2" in evidence(found(plain, bench, late), "changed afterwards")
    assert "unknown plan" not in names(found(plain, bench, late))
    unknown = History((Plan(plain, "morning", 7),))
    assert evidence(found(plain, bench, unknown), "unknown plan").startswith("7 final trials are older")


class Shaped(Records):
    """Records whose validation curve is said: `curves[arena, optimizer][step]`; seeds differ a little."""

    def __init__(self, scores: Any, curves: Any, **options: Any) -> None:
        super().__init__(scores, **options)
        self.curves = curves

    def result(self, spec: TrialSpec, outcome: Any, status: str) -> Any:
        made = super().result(spec, outcome, status)
        curve = self.curves.get((spec.arena.name, spec.optimizer.name))
        if curve and spec.stage == "final":
            metrics, nudge = made["evaluations"][0]["val"], 1e-5 * spec.seed
            made["evaluations"] = [{"step": s, "val": {**metrics, "accuracy": y + s * nudge}} for s, y in curve.items()]
        return made


TWO = ("AdamW", "PsiLogic")
FLAT = {5: 0.5, 8: 0.5, 10: 0.5}


def shaped(ours: dict[int, float], theirs: dict[int, float] = FLAT, margin: float = 0.02) -> list[Flag]:
    the_study = study(("vit",), TWO, margin=margin)
    curves = {("vit", "PsiLogic"): ours, ("vit", "AdamW"): theirs}
    return found(the_study, Shaped(finals(the_study), curves))


@pytest.mark.parametrize(
    ("before", "after", "raised"), [(0.54, 0.499, True), (0.501, 0.54, False), (0.51, 0.49, False), (0.501, 0.47, True)]
)
def test_an_order_that_flips_at_the_end(before: float, after: float, raised: bool) -> None:
    """Whoever leads at the end led before, or both were within the margin of 0.02."""
    flags = shaped({5: 0.3, 8: before, 10: after})
    assert ("order not settled" in names(flags)) == raised
    if raised:
        assert f"against AdamW {before - 0.5:+.3g} at step 8" in evidence(flags, "order not settled")


def test_a_gain_that_both_share_is_the_schedules() -> None:
    both = {5: 0.5, 10: 0.6}
    assert "gap still changes" not in names(shaped(both, both))
    assert evidence(shaped(both, both), "still improving") == "vit: AdamW 0.1, PsiLogic 0.1 (margin 0.02)"
    one = shaped(both)
    assert evidence(one, "gap still changes") == "vit against AdamW gains +0.1 more, margin 0.02"
    assert evidence(one, "still improving") == "vit: PsiLogic 0.1 (margin 0.02)"
    assert not {"gap still changes", "still improving"} & names(shaped(both, margin=0.2))
    assert not {"gap still changes", "still improving"} & names(shaped({10: 0.6}, {10: 0.5})), "one evaluation: no gain"


def two_horizons(short: dict[str, Any], long: dict[str, Any], **changed: Any) -> list[Flag]:
    """Two arenas of one task; `changed` are entries of the longer one."""
    base = study(("vit",), TWO, margin=0.02)
    arena = base.suite.arenas["vit"]
    plans = {"vit": replace(arena, task="vit"), "vit-4x": replace(arena, task="vit", steps=40, **changed)}
    the_study = replace(
        base,
        suite=replace(base.suite, arenas=plans),
        arenas=dict.fromkeys(plans, base.arenas["vit"]),
    )
    seeds = the_study.suite.final.seeds
    scores = {
        (name, optimizer): dict(zip(seeds, of_arena.get(optimizer, [0.50, 0.51, 0.52]), strict=True))
        for name, of_arena in (("vit", short), ("vit-4x", long))
        for optimizer in TWO
    }
    return found(the_study, Horizons(scores))


class Horizons(Records):
    """Records of two arenas that are one task."""

    def result(self, spec: TrialSpec, outcome: Any, status: str) -> Any:
        one = replace(spec, arena=replace(spec.arena, name="vit"))
        return super().result(one, outcome, status)


HIGH, LOW, NOISY = [0.90, 0.91, 0.92], [0.10, 0.11, 0.12], [0.40, 0.5, 0.60]


@pytest.mark.parametrize(
    ("short", "long", "raised"),
    [
        ({"PsiLogic": HIGH}, {"PsiLogic": LOW}, True),  # better, then worse
        ({"PsiLogic": HIGH}, {"PsiLogic": [0.499, 0.510, 0.518]}, True),  # better, then equivalent
        ({"PsiLogic": HIGH}, {"PsiLogic": HIGH}, False),
        ({"PsiLogic": HIGH}, {"PsiLogic": [0.4, 0.55, 0.7]}, False),  # better, then nobody knows
        ({"PsiLogic": [0.4, 0.55, 0.7]}, {"PsiLogic": [0.3, 0.45, 0.6]}, True),  # the order, by more than the margin
        ({"PsiLogic": [0.4, 0.51, 0.63]}, {"PsiLogic": [0.4, 0.51, 0.60]}, False),  # the order, by less
    ],
)
def test_what_flips_between_horizons(short: dict[str, Any], long: dict[str, Any], raised: bool) -> None:
    flags = two_horizons(short, long)
    assert ("flip between horizons" in names(flags)) == raised
    if raised:
        assert re.match(
            r"vit against AdamW \w+ \(\+.*\), vit-4x against AdamW \w+ \(-.*\)",
            evidence(flags, "flip between horizons"),
        )


def test_another_model_is_no_horizon() -> None:
    other = two_horizons({"PsiLogic": HIGH}, {"PsiLogic": LOW}, model={"hidden_size": 9, "layers": 1, "heads": 1})
    assert "flip between horizons" not in names(other)


def fabricated(sweeps: Any = None, records: type[Records] = Records, **scores: Any) -> list[Flag]:
    the_study = study(("vit",), TWO, margin=0.02)
    given = {"PsiLogic": HIGH, "AdamW": LOW} | scores
    return found(the_study, records(finals(the_study, **given), sweeps))


def test_a_complete_study_of_good_practice_raises_nothing() -> None:
    assert fabricated() == []


def test_few_seeds_that_cannot_tell() -> None:
    flags = fabricated(PsiLogic=NOISY, AdamW=[0.40, 0.52, 0.60])
    assert "at least 3.1 standard deviations between seeds (a single comparison at 0.05)." in evidence(
        flags, "low power"
    )
    assert "vit against AdamW (0.3" in evidence(flags, "low power")


def test_searches() -> None:
    close = {("vit", "AdamW"): {1e-4: 0.495}}  # 0.5 at 1e-3, final seeds differ by 0.01
    assert evidence(fabricated(close), "selected by chance") == "vit AdamW (leads by 0.005, seeds differ by 0.01)."
    longer = {("vit", "PsiLogic"): {1e-2: 0.7, 0.1: 0.5}}
    assert evidence(fabricated(longer), "fewer rates") == "vit AdamW 3, PsiLogic 4."
    assert "fewer rates" not in names(fabricated({("vit", "AdamW"): {1e-2: 0.7, 0.1: 0.5}}))


class Slow(Records):
    """Records of trials that waited for their data."""

    def record(self, spec: TrialSpec, outcome: Any) -> Record:
        record: Record = super().record(spec, outcome)
        record["cost"]["seconds"]["data"] = 0.06 if spec.optimizer.name == "AdamW" else 0.0
        return record


def test_data_bound_timing() -> None:
    assert evidence(fabricated(records=Slow), "data-bound timing") == "vit: AdamW 40% of the step"


def test_an_option_that_a_plan_gets_later_is_compared_too() -> None:
    @dataclass(frozen=True)
    class Wider(OptimizerPlan):
        wrapped: dict[str, float] = field(default_factory=dict)

    the_study = study(("vit",), TWO)
    clipped = {"AdamW": OptimizerPlan(), "PsiLogic": OptimizerPlan(clip_norm=0.5)}
    own = replace(the_study, suite=replace(the_study.suite, optimizers=clipped))
    assert evidence(found(own, Records(finals(own))), "unequal treatment") == (
        "vit: clip_norm 1 (AdamW), 0.5 (PsiLogic)"
    )
    plans: dict[str, OptimizerPlan] = {"AdamW": Wider(), "PsiLogic": Wider(wrapped={"ema": 0.5})}
    grouped = replace(the_study, suite=replace(the_study.suite, optimizers=plans))
    flags = found(grouped, Records(finals(grouped, PsiLogic=HIGH)))
    assert evidence(flags, "unequal treatment") == "vit: wrapped off (AdamW), {'ema': 0.5} (PsiLogic)"


@pytest.mark.parametrize(
    ("factory", "options", "kind"),
    [
        ("torch.optim:Adam", {}, "coupled"),
        ("torch.optim:Adam", {"decoupled_weight_decay": True}, "decoupled"),
        ("torch.optim:AdamW", {}, "decoupled"),
        ("pytorch_optimizer:Lion", {"weight_decouple": False}, "coupled"),
        ("own:Thing", {}, "unknown"),
    ],
)
def test_kinds_of_decay(factory: str, options: dict[str, Any], kind: str) -> None:
    assert decay_kind(factory, options) == kind


def test_flags_come_by_severity() -> None:
    order = [SEVERITIES.index(check.severity) for check in CHECKS]
    assert order == sorted(order)
    assert len({check.name for check in CHECKS}) == len(CHECKS)


def test_the_table_of_the_docs_is_the_code() -> None:
    rows = re.findall(r"^\| ([^|]+) \| (fail|warn|note) \| ([^|]+) \| ([^|]+) \|$", PAGE.read_text(), re.MULTILINE)
    assert rows == [(check.name, check.severity, check.raised, check.advice) for check in CHECKS]


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """0 for warnings, 1 for a fail; nothing is written."""
    the_study = study(("vit",), TWO)
    records = Records(finals(the_study, PsiLogic=[0.3, 0.5, 0.9], AdamW=[0.4, 0.5, 0.7]))
    write_history(tmp_path, history(the_study))
    store, schedule = Store(tmp_path), Schedule(the_study, lambda spec: None)
    while spec := schedule.next():
        store.write(records(spec))
    assert main(["audit", str(tmp_path)]) == 1
    assert "fail  INCOMPLETE: of 12 trials" in capsys.readouterr().out
    for stage in ("final", "sweep"):
        for spec in _specs(the_study, records, stage):
            store.write(records(spec))
    before = sorted(tmp_path.rglob("*"))
    assert main(["audit", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert "warn  Low power: With 3 seeds" in shown
    assert "Take more final seeds" in shown
    assert shown.endswith("0 fail, 1 warn, 1 note\n")
    assert sorted(tmp_path.rglob("*")) == before


def _specs(the_study: Study, records: Records, stage: str) -> list[TrialSpec]:
    from fairbench.plan import arms

    return [spec for arm in arms(the_study, records) for spec in getattr(arm, stage)]


def test_terminal() -> None:
    flags = [Flag("at odds", severity, f"says {severity}", "do something") for severity in SEVERITIES]
    console = Console(record=True, width=80, force_terminal=True, file=io.StringIO())
    print_flags(flags, console)
    assert console.export_text(clear=False) == "AT ODDS: says fail\nAt odds: says warn\n"
    assert "\x1b[1;31mAT ODDS" in (styled := console.export_text(styles=True))
    assert "\x1b[33mAt odds" in styled
    print_audit(flags, console)
    shown = console.export_text()
    assert "note  At odds: says note\n      do something\n" in shown
    assert shown.endswith("1 fail, 1 warn, 1 note\n")
