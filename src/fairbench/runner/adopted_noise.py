"""The runs of `fairbench noise` that are trials of a study."""

from msgspec.structs import replace

from fairbench.study.folder import NOISE
from fairbench.study.plan import arms
from fairbench.study.record import WholeRecord
from fairbench.study.records import Store
from fairbench.study.resolved_suite import ResolvedSuite


def adopt_noise(study: ResolvedSuite, store: Store) -> int:
    """Add the runs of `fairbench noise` that are trials of this study. Returns their number.

    They belong to no plan: a plan that is declared after them has seen one variant only.
    """
    folder = store.directory / NOISE
    if not folder.is_dir():
        return 0
    measured = Store(folder)
    adopted = 0
    for arm in arms(study, lambda spec: None):
        for spec in arm.final:
            record = measured.read(spec, WholeRecord)
            if record and record.status != "failed":
                adopted += store.write(spec, replace(record, plan=""))
    return adopted
