"""The order in which trials are given."""

from fabricated import Records
from fabricated import study as fabricated_study

from fairbench.optimizers.resolve import resolve_optimizer
from fairbench.study.resolved_suite import ResolvedArena, ResolvedSuite
from fairbench.study.trial_queue import TrialQueue
from fairbench.suites.loader import load_suite
from fairbench.suites.overrides import Overrides
from fairbench.suites.variants import parsed_variants


def test_variants_of_a_seed_run_next_to_each_other_and_in_alternating_order():
    variants = parsed_variants(["a", "b: --clip", "c: --drop"], "python train.py")
    suite = load_suite("program", Overrides(seeds=[5, 3, 4], variants=variants))
    study = ResolvedSuite(
        suite=suite,
        device="cpu",
        arenas={"program": ResolvedArena("", {}, starts={})},
        optimizers={name: resolve_optimizer(name, plan) for name, plan in suite.optimizers.items()},
        environment={},
    )
    queue = TrialQueue(study, lambda spec: None)
    given = [(spec.seed, spec.optimizer.name) for spec in iter(queue.next, None)]
    assert given == [(seed, name) for seed, names in ((5, "abc"), (3, "cba"), (4, "abc")) for name in names]


def test_arenas_run_one_after_the_other():
    """So that the verdicts on the first one are known early."""
    the_study = fabricated_study(("gpt", "vit"), ("AdamW", "PsiLogic"))
    truth = Records(the_study)
    known = {}
    queue = TrialQueue(the_study, lambda spec: known.get(spec.id))
    stages = []
    ended = []
    while spec := queue.next():
        known[spec.id] = truth(spec)
        queue.ended(spec)
        stages.append((spec.arena.name, spec.stage))
        ended.append(queue.has_ended("gpt"))
    assert list(dict.fromkeys(stages)) == [("gpt", "sweep"), ("gpt", "final"), ("vit", "sweep"), ("vit", "final")]
    assert stages == sorted(stages, key=lambda stage: (stage[0], stage[1] == "final"))
    of_gpt = sum(arena == "gpt" for arena, _ in stages)
    assert ended == [False] * (of_gpt - 1) + [True] * (len(stages) - of_gpt + 1)
