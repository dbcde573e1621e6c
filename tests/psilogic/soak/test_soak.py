"""A few trials of the fuzz, which `make soak` runs for longer, and a check that it finds a fault."""

import fuzz


def test_a_few_trials(capsys):
    assert fuzz.main(["--small", "--trials", "5", "--seed", "100"]) == 0, capsys.readouterr().out


def test_a_fault_is_found(compiled_kernels, monkeypatch, capsys):
    """A decay that only one execution has."""
    update_ = fuzz.kernels.update_

    def faulty(tensors, step, *rest, **options):
        return update_(tensors, step._replace(decay=step.decay * 1.001), *rest, **options)

    monkeypatch.setattr(fuzz.kernels, "update_", faulty)
    assert fuzz.main(["--small", "--trials", "10"]) == 1
    assert "each_step_is_foreach_in_float64" in capsys.readouterr().out
