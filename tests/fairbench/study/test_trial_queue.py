"""The order in which final trials are given."""

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
