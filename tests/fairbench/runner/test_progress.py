"""Progress: what is told, with a clock that the test moves."""

import io
from dataclasses import replace

from rich.console import Console

from fairbench.common.formatting import duration
from fairbench.runner.progress.live import Progress
from fairbench.study.plan import Study, arms
from fairbench.study.schedule import Outlook


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_plain_lines_tell_trials_loss_and_time_left(tiny_study: Study) -> None:
    first, second, third = [spec for arm in arms(tiny_study, lambda spec: None)[:2] for spec in arm.sweep][:3]
    console, clock = Console(file=io.StringIO(), width=200), Clock()
    with Progress(console, clock=clock) as progress:
        assert progress.eta() is None
        for spec in (first, second, third):
            progress.started(spec)
        clock.now = 20.0
        progress.running(first, 5, 2.5)
        progress.planned(Outlook(done=1, trials=10, steps_left={"vit": 90}))
        progress.ended(first, {"status": "finished", "result": {"steps": 10}, "cost": {"data_on": "cpu"}})
        assert progress.eta() == 90 * 2.0 / 2  # two run
        clock.now = 40.0
        progress.running(second, 5, 2.25)
        progress.running(second, 6, 2.0)  # too soon after the last line
        progress.ended(second, {"status": "failed", "error": {"type": "ValueError", "message": "no [bold]"}})
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert lines == [
        "0 of 0 trials | vit AdamW lr=0.001 sweep seed 0 step 5/10 loss 2.5",
        "1 of 10 trials, about 1:30 left | vit AdamW lr=0.01 sweep seed 0 step 5/10 loss 2.25",
        "failed: vit AdamW lr=0.01 sweep seed 0: ValueError: no [bold]",
    ]


def test_a_terminal_shows_a_table(tiny_study: Study) -> None:
    spec = arms(tiny_study, lambda spec: None)[0].sweep[0]
    console, clock = Console(file=io.StringIO(), width=100, force_terminal=True), Clock()
    with Progress(console, clock=clock) as progress:
        progress.planned(Outlook(done=3, trials=10, steps_left={"vit": 70}))
        progress.started(spec)
        clock.now = 3.0
        progress.running(spec, 2, 1.5)
        with console.capture() as captured:
            console.print(progress._view())
    shown = captured.get()
    assert "3 of 10 trials" in shown.replace("\x1b[1;36m", "").replace("\x1b[0m", "")
    assert "2/10" in shown
    assert "1.5000" in shown
    assert "0:12" in shown


def test_data_without_room_on_the_gpu_are_told_of_once_in_each_arena(tiny_study: Study) -> None:
    trials = arms(tiny_study, lambda spec: None)[0].sweep[:2]
    console = Console(file=io.StringIO(), width=200)
    with Progress(console, clock=Clock()) as progress:
        for spec in trials:
            spec = replace(spec, training=replace(spec.training, device="cuda"))
            progress.started(spec)
            progress.ended(spec, {"status": "finished", "result": {"steps": 10}, "cost": {"data_on": "cpu"}})
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert shown == "vit: the data do not fit on the GPU, batches are sent from pinned memory\n"


def test_durations() -> None:
    assert [duration(seconds) for seconds in (0.4, 59.6, 3599, 3600)] == ["0:00", "1:00", "59:59", "1:00:00"]
