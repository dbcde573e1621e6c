"""The sections of the report of a study, in the order of the page.

A new analysis is an output in one of these files.
"""

from fairbench.analysis.analyses import Analyses
from fairbench.report.document import Section
from fairbench.report.sections import (
    audit,
    budget,
    causes,
    cost,
    mechanism,
    provenance,
    rates,
    results,
    speedup,
    trials,
    verdicts,
)

SECTIONS: tuple[Section[Analyses], ...] = (
    verdicts.VERDICT_SECTION,
    rates.CURVES,
    rates.RATES,
    audit.AUDIT,
    results.RESULTS,
    speedup.SPEEDUP,
    causes.CAUSES,
    mechanism.MECHANISM,
    cost.COST,
    budget.BUDGET,
    trials.TRIALS,
    provenance.PROVENANCE,
)
