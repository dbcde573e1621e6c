"""Preview of an optimizer: a few short trials in one arena, no statistics, nothing written."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from fairbench.common.errors import UsageError
from fairbench.optimizers.spec import ResolvedOptimizer
from fairbench.runner.executors.base import PausedTrial
from fairbench.runner.executors.local import ProcessExecutor
from fairbench.runner.preflight import run_preflight
from fairbench.runner.run_study import check_data, preload
from fairbench.study.measured import time_limits
from fairbench.study.plan import trial_spec
from fairbench.study.record import Record
from fairbench.study.trial_spec import TrialSpec
from fairbench.suites.schema import Suite
from fairbench.suites.search import search_for
from fairbench.suites.stages import Sweep
from fairbench.training.place import Place


def rates(optimizer: ResolvedOptimizer, sweep: Sweep, chosen: Sequence[float]) -> list[float]:
    """The learning rates of an optimizer in a preview: its fixed one, the chosen ones, or three of its grid."""
    if chosen and optimizer.lr is None:
        return list(chosen)
    known = [setting.lr for setting in search_for(sweep, optimizer.lr_scale, optimizer.lr).first()]
    return sorted({known[0], known[(len(known) - 1) // 2], known[-1]})


def run_preview(
    suite: Suite, chosen: Sequence[float], places: Sequence[Place], say: Callable[[str], None] = lambda text: None
) -> list[tuple[TrialSpec, Record]]:
    """Train every optimizer of a suite with one arena at the chosen rates, or three of its own, with one seed."""
    (arena,), seed = suite.arenas, suite.sweep.seeds[0]
    check_data(suite, places[0].data_root)
    measured = replace(suite, sweep=replace(suite.sweep, seeds=[seed]), final=replace(suite.final, seeds=[seed + 1]))
    with ProcessExecutor(places, preload=preload(suite)) as executor:
        preflight = run_preflight(measured, places[0], executor.call, say)
        limit = time_limits(preflight, suite.trial_timeout)[arena]
        planned = [
            trial_spec(preflight.study, arena, name, "sweep", lr, seed)
            for name, optimizer in preflight.study.optimizers.items()
            for lr in rates(optimizer, suite.sweep, chosen)
        ]
        specs, records = {spec.id: spec for spec in planned}, dict[str, Record]()
        waiting = list(reversed(planned))
        while len(records) < len(specs):
            while waiting and executor.has_free_slot():
                executor.submit(waiting.pop(), limit)
            for ended in executor.collect():
                if isinstance(ended, PausedTrial):  # something else stopped it, such as a batch system
                    waiting.append(specs[ended.id])
                else:
                    records[ended.id] = ended
    return [(spec, records[spec.id]) for spec in planned]


def read_rates(text: str) -> list[float]:
    """The learning rates of a text such as 3e-4,1e-3, each positive and there once."""
    try:
        values = [float(word) for word in text.split(",") if word.strip()]
    except ValueError:
        raise UsageError(f"--lr must be learning rates, as 3e-4,1e-3; got {text!r}") from None
    if not all(0 < lr < float("inf") for lr in values) or len(set(values)) < len(values):
        raise UsageError(f"--lr must be positive and finite, each once; got {text!r}")
    return values
