"""The audit of a study: named flags, each with its evidence and what to do about it; `docs/audit.md` lists them."""

from functools import partial

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.audit import assumptions, declaration, horizon, records, search, treatment, trials
from fairbench.common.checks import SEVERITIES, Check, Flag
from fairbench.common.errors import attempted

AUDIT_CHECKS: tuple[Check[Analyses], ...] = (
    declaration.unknown_plan,
    declaration.changed_afterwards,
    declaration.of_another_plan,
    trials.incomplete,
    records.damaged,
    trials.mixed_machines,
    trials.unequal_conditions,
    records.contradictory,
    records.unequal_evaluation,
    declaration.selection_on_report,
    trials.unverified_data,
    declaration.deviations,
    treatment.unequal_treatment,
    search.untuned,
    treatment.coupled_decay,
    treatment.inactive_mechanism,
    treatment.unused_parts,
    trials.diverged,
    records.duplicates,
    horizon.flips_between_horizons,
    horizon.order_not_settled,
    horizon.gap_changes,
    horizon.horizon_not_tuned,
    horizon.too_few_sizes,
    horizon.law_does_not_hold,
    search.at_edge,
    search.by_one_search,
    search.depends_on_setting,
    assumptions.low_power,
    assumptions.beyond_test,
    treatment.clipped,
    treatment.not_finite,
    horizon.still_improving,
    horizon.beyond_horizons,
    search.extra_at_end,
    trials.not_shown,
    trials.shared_examples,
    trials.modified,
    trials.data_bound,
    trials.shared_device,
)
"""Every check, the weightiest first."""


def audit(case: Analyses) -> list[Flag]:
    """Every flag that a study raises, by severity, then in the order of `AUDIT_CHECKS`."""
    flags = [attempted(partial(check.flag, case), partial(_not_judged, check)) for check in AUDIT_CHECKS]
    raised = [flag for flag in flags if flag.severity != "pass"]
    return sorted(raised, key=lambda flag: SEVERITIES.index(flag.severity))


def _not_judged(check: Check[Analyses], reason: str) -> Flag:
    return Flag(check.name, "warn", f"this cannot be judged: {reason}.", "See whether a value is far too large.")
