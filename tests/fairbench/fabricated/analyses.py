"""What fairbench finds in studies with invented records."""

from fabricated.records import Records
from fabricated.studies import history
from fairbench.analysis.audit import audit


def analysed(the_study, records=None, **scores):
    """The analyses of a study with these records, or with records of these scores, see `Records`."""
    from fairbench.analysis.analyses import Analyses  # scipy, which most users of this module do not need

    if records is None:
        records = Records(the_study, **scores)
    return Analyses(history(the_study), records)


def given(analyses, found):
    """The analyses, of which some are given by their functions instead of computed."""
    compute = analyses.of

    def of(analysis):
        if analysis in found:
            return found[analysis]
        return compute(analysis)

    analyses.of = of
    return analyses


def flags_of(the_study, records):
    """The evidence of each flag that the audit of a study raises, by its name."""
    flags = analysed(the_study, records).of(audit)
    return {flag.name: flag.evidence for flag in flags}
