"""Trials of a user's training program. Before a study, each optimizer trains a few steps, to check the program."""

from pathlib import Path

from fairbench.arenas.program import ProgramOptions
from fairbench.arenas.program_code import code_of, content_hash, matched
from fairbench.optimizers.variant import VariantPlan
from fairbench.runner.trainings.first_check import first_steps
from fairbench.runner.trainings.measured import MeasuredArena
from fairbench.study.resolved_suite import ResolvedArena
from fairbench.suites.schema import Suite
from fairbench.training.device_slot import DeviceSlot
from fairbench.training.program import program_trial

__all__ = ["first_steps", "measured_arena", "run_trial", "variant_code"]
run_trial = program_trial


def measured_arena(suite: Suite, name: str, slot: DeviceSlot) -> MeasuredArena:
    """Resolve an arena: the hash of the files of its data, and its code.

    A program evaluates as a part of its steps and makes its own batches, so that neither is measured.
    """
    plan = suite.arenas[name]
    files = matched(plan.data.get("files", ()), "data.files")
    code: dict[str, str] = {}
    if suite.noun != "variant":  # the code of a variant is its own
        code = code_of(ProgramOptions(**plan.model))
    resolved = ResolvedArena(content_hash(files), code, starts={})
    return MeasuredArena(resolved=resolved, evaluation_seconds=0.0, probed=plan.batch_size)


def variant_code(suite: Suite, variant: VariantPlan) -> dict[str, str]:
    """The code of a variant in all arenas of a suite, without files in the folders of other variants."""
    if variant.commit:
        return {}  # the commit is its identity
    folder = Path(variant.folder)
    code = {}
    for plan in suite.arenas.values():
        options = ProgramOptions(**plan.model)
        code.update(code_of(options, variant.args, folder))
    own_folder = folder.resolve()
    others = []
    for plan_of_other in suite.optimizers.values():
        other = plan_of_other.variant
        if other and other.folder and not other.commit:
            others.append(Path(other.folder).resolve())
    others = [other for other in others if not own_folder.is_relative_to(other)]
    own = {}
    for file, sha in code.items():
        path = (folder / file).resolve()
        if not any(path.is_relative_to(other) for other in others):
            own[file] = sha
    return own
