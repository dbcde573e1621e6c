"""Sessions without a program: numbers stand for the runs."""

from fairbench.gate.ledger import Ledger
from fairbench.gate.session import Run
from fairbench.gate.verdicts import finish_step

FACTS = {"event": "session", "direction": "min", "metric": "loss", "base": "base", "nonce": "fixed"}


class Script:
    """Trains by taking the next values of a list, the first ones first."""

    def __init__(self, *values):
        self.values = list(values)

    def __call__(self, batch, seeds):
        runs = []
        for seed in seeds:
            for arm in batch.arms:
                runs.append(Run(arm, seed, "finished", self.values.pop(0), seconds=2.0, steps=4))
        return runs


def begun(folder):
    """A ledger with a calibration whose mean is 10 and whose standard deviation is 1."""
    folder.mkdir(exist_ok=True)
    ledger = Ledger(folder)
    ledger.append(FACTS)
    step(ledger, "calibration", {"base": "base"}, 10.0, 8.75, 11.25, 10.0, 9.25, 10.75)
    return ledger


def step(ledger, kind, arms, *values):
    """Begin a step of a session and end it; returns its verdict. All values must have been used."""
    ledger.append({"event": "begin", "kind": kind, "arms": arms, "subject": f"about {kind}"})
    script = Script(*values)
    end = finish_step(ledger, script)
    assert not script.values
    return end["verdict"]
