"""All that the report of a study shows, in the order of the page; a new analysis is an output in one of these files."""

from fairbench.analysis.analyses import Analyses
from fairbench.report.document import Section
from fairbench.report.sections.budget import BUDGET
from fairbench.report.sections.causes import CAUSES
from fairbench.report.sections.cost import COST
from fairbench.report.sections.mechanism import MECHANISM
from fairbench.report.sections.provenance import PROVENANCE
from fairbench.report.sections.rates import CURVES, RATES
from fairbench.report.sections.results import RESULTS
from fairbench.report.sections.speedup import SPEEDUP
from fairbench.report.sections.trials import TRIALS
from fairbench.report.sections.verdicts import AUDIT, VERDICT_SECTION

SECTIONS: tuple[Section[Analyses], ...] = (
    VERDICT_SECTION,
    CURVES,
    RATES,
    AUDIT,
    RESULTS,
    SPEEDUP,
    CAUSES,
    MECHANISM,
    COST,
    BUDGET,
    TRIALS,
    PROVENANCE,
)
