"""The files of a study that nobody ran."""

import json

from fabricated.records import sha
from fabricated.studies import history
from fairbench.study.history import write_history
from fairbench.study.plan import arms
from fairbench.study.records import Store


def stored(path):
    """The plain values in the file of a record."""
    return json.loads(path.read_text().splitlines()[0])


def sealed(text):
    """The content of the file of a record with this JSON."""
    return f"{text}\n{sha(text)}\n"


def saved(directory, the_study, records):
    """Write what a run of the study leaves in the directory; returns its path as text."""
    write_history(directory, history(the_study))
    store = Store(directory)
    for arm in arms(the_study, records):
        for spec in arm.trials:
            record = records(spec)
            if record is not None:
                store.write(spec, record)
    return str(directory)
