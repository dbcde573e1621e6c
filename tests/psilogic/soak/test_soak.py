"""A few trials of the fuzz, which `make soak` runs for longer, and a check that it finds a fault."""

import fuzz


def test_a_few_trials(capsys):
    assert fuzz.main(["--small", "--trials", "5", "--seed", "100"]) == 0, capsys.readouterr().out


def test_a_fault_is_found(compiled_kernels, monkeypatch, capsys):
    """A weight decay that only one execution has."""
    step_ = fuzz.kernels.step_

    def faulty(work, *rest):
        work.group = {**work.group, "weight_decay": work.group["weight_decay"] * 1.001}
        return step_(work, *rest)

    monkeypatch.setattr(fuzz.kernels, "step_", faulty)
    assert fuzz.main(["--small", "--trials", "10"]) == 1
    assert "each_step_is_foreach_in_float64" in capsys.readouterr().out
