"""The audit of a study: named flags, each with its evidence and what to do about it; `docs/audit.md` lists them."""

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.audit.assumptions import beyond_welch
from fairbench.analysis.audit.declaration import (
    changed_afterwards,
    deviations,
    of_another_plan,
    selection_on_report,
    unknown_plan,
)
from fairbench.analysis.audit.horizon import (
    beyond_horizons,
    flips_between_horizons,
    gap_changes,
    horizon_not_tuned,
    law_does_not_hold,
    order_not_settled,
    still_improving,
    too_few_sizes,
)
from fairbench.analysis.audit.power import low_power
from fairbench.analysis.audit.records import contradictory, damaged, duplicates, unequal_evaluation
from fairbench.analysis.audit.search import at_edge, by_chance, extra_at_end, searched_shorter, untuned
from fairbench.analysis.audit.timing import data_bound, shared_device
from fairbench.analysis.audit.treatment import clipped, coupled_decay, inactive_mechanism, unequal_treatment
from fairbench.analysis.audit.trials import (
    diverged,
    images_in_two_splits,
    incomplete,
    mixed_machines,
    modified,
    unequal_conditions,
    unverified_data,
)
from fairbench.common.checks import SEVERITIES, Check, Flag

AUDIT_CHECKS: tuple[Check[Analyses], ...] = (
    unknown_plan,
    changed_afterwards,
    of_another_plan,
    incomplete,
    damaged,
    mixed_machines,
    unequal_conditions,
    contradictory,
    unequal_evaluation,
    selection_on_report,
    unverified_data,
    deviations,
    unequal_treatment,
    untuned,
    coupled_decay,
    inactive_mechanism,
    diverged,
    duplicates,
    flips_between_horizons,
    order_not_settled,
    gap_changes,
    horizon_not_tuned,
    too_few_sizes,
    law_does_not_hold,
    at_edge,
    by_chance,
    searched_shorter,
    low_power,
    beyond_welch,
    clipped,
    still_improving,
    beyond_horizons,
    extra_at_end,
    images_in_two_splits,
    modified,
    data_bound,
    shared_device,
)
"""Every check, the weightiest first."""


def audit(case: Analyses) -> list[Flag]:
    """Every flag that a study raises, by severity, then in the order of `AUDIT_CHECKS`."""
    raised = [flag for check in AUDIT_CHECKS if (flag := check.flag(case)).severity != "pass"]
    return sorted(raised, key=lambda flag: SEVERITIES.index(flag.severity))
