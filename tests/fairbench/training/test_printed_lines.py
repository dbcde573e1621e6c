"""What programs print is read as they mean it, and a number that can mean two things is no result."""

import math

import pytest

from fairbench.arenas.program import ProgramOptions, own_folder
from fairbench.training.program_results import read_reported
from fairbench.training.result_files import Folders

OPTIONS = ProgramOptions("python train.py", {"loss": "min"})


def read(folder, text, options=OPTIONS):
    """What is read from an output."""
    own = own_folder(folder)
    own.mkdir()
    (own / "output.txt").write_text(text)
    return read_reported(Folders(folder), options, ({},))


PRINTED = {
    "step 250: train loss 2.41, val loss 2.50": {"train/loss": {250: 2.41}, "val/loss": {250: 2.5}},
    "step:250/5100 val_loss:3.28 train_time:12ms": {"val/loss": {250: 3.28}},
    "val/loss=3.28": {"val/loss": {1: 3.28}},
    "val_loss: nan": {"val/loss": {1: "nan"}},
    "val loss 1,250.5\nval loss 8,192\nval loss 2.5, perplexity 12.2": {"val/loss": {1: 1250.5, 2: 8192.0, 3: 2.5}},
    "val loss 0,75\nval loss 1.250,5": {"val/loss": {1: 0.75, 2: 1250.5}},
    "val loss 1'250.5\nval loss 1\u202f250.5\nval loss 1_250.5": {"val/loss": {1: 1250.5, 2: 1250.5, 3: 1250.5}},
    "step 1,000/5,000: val loss \u22121.5e\u22123": {"val/loss": {1000: -0.0015}},
    "val_loss: 85.3%\nval_loss: 85.2 %\nval_loss: 85.1% (0.851)": {"val/loss": {1: 85.3, 2: 85.2, 3: 85.1}},
    "val_loss: 3.5 (best 3.1)\nval_loss=0.5;\n(val_loss=0.4)": {"val/loss": {1: 3.5, 2: 0.5, 3: 0.4}},
    "val_loss=tensor(0.5, device='cuda:0')\n{'val_loss': np.float64(0.25)}": {"val/loss": {1: 0.5, 2: 0.25}},
    "\x1b[?25l\x1b[1mval_loss\x1b(B\x1b[m 0.5\x1b[K": {"val/loss": {1: 0.5}},
    "Epoch 1: 50% 5/10 [00:01, val_loss=0.9]\rEpoch 1: 100% 10/10 [00:02, val_loss=0.5]\n": {"val/loss": {1: 0.5}},
    "val loss 5.3\nstep 0: train loss 5.4 (took 12.3 ms)\nstep 1: train loss 5.2 (took 12.3 ms)\nval loss 4.4": {
        "val/loss": {0: 5.3, 1: 4.4},
        "train/loss": {0: 5.4, 1: 5.2},
    },
    "| epoch   3 | lr 1.2.3 | valid loss  4.07 | valid ppl 58 |": {"val/loss": {3: 4.07}},
    "Epoch 1/2\n10/10 - loss: 0.5 - val_loss: 0.6\nEpoch 2/2\n10/10 - val_loss: 0.4": {"val/loss": {1: 0.6, 2: 0.4}},
    "{'eval_loss': 2.1, 'epoch': 1.0}": {"val/loss": {1: 2.1}},
    "{'loss': '3', 'epoch': '0.5'}\n{'eval_loss': '2.1', 'epoch': '0.5'}\n{'eval_loss': '2', 'epoch': '1'}": {
        "val/loss": {1: 2.1, 2: 2.0}
    },
    "eval: {'val': {'loss': 2.1}, 'train': {'loss': 2.0}}": {"val/loss": {1: 2.1}, "train/loss": {1: 2.0}},
    "step 1: val loss 2.0\nstep 1: ema val loss 1.5": {"val/loss": {1: 2.0}},
    "epoch 1 step 9/9\nval loss 2.0\nepoch 2 step 9/9\nval loss 1.5": {"val/loss": {1: 2.0, 2: 1.5}},
    "done: final val loss 1.5": {"val/loss": {1: 1.5}},
    "epoch 2: val_loss 0.5312\nsaving 'a/epoch=1-val_loss=0.50.ckpt', b/val_loss=0.4/last.pt": {
        "val/loss": {2: 0.5312}
    },
    r"val: {'loss': 1.5, 'file': 'C:\data'}": {"val/loss": {1: 1.5}},
    "Validation loss is 1.5 nats": {"val/loss": {1: 1.5}},
    "\u2502  val_loss  \u2502  1.5  \u2502\n|    val_loss  | 1.25 |": {"val/loss": {1: 1.5, 2: 1.25}},
    '{"step": 2, "val": {"loss": 1e-3}}': {"val/loss": {2: 0.001}},
    "iter 1: val loss 2.0\niter 2: val loss 1.5\nbest val loss 1.5": {"val/loss": {1: 2.0, 2: 1.5}},
    "\x1b[32mtraining done: val loss\x1b[0m 2.0\rval loss -inf": {"val/loss": {1: 2.0, 2: "-inf"}},
}


@pytest.mark.parametrize("text", PRINTED)
def test_lines_of_output(tmp_path, text):
    found = {}
    for key, column in read(tmp_path, text + "\n").values.items():
        found[key] = {step: value if math.isfinite(value) else str(value) for step, value in column.items()}
    assert found == PRINTED[text]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("epoch 1 val: loss 0.6 acc 0.7 train: loss 0.5 acc 0.8", {"val/acc": {1: 0.7}, "train/loss": {1: 0.5}}),
        ("Val: loss 0.6, acc 0.7\nTrain: loss 0.5, acc 0.8", {"val/acc": {1: 0.7}, "train/loss": {2: 0.5}}),
        ("[val] step 1 acc 0.7\n[test] step 1 acc 0.6", {"val/acc": {1: 0.7}, "test/acc": {1: 0.6}}),
        ("[train] step 1 acc 0.8", {}),
        ("Validation set: epoch 3, acc 0.7", {"val/acc": {3: 0.7}}),
        ("epoch 1 val loss 0.6, acc 0.7; train loss 0.5, acc 0.8", {"val/acc": {1: 0.7}, "train/loss": {1: 0.5}}),
        ("epoch 1 train loss 0.5, acc 0.8", {"train/loss": {1: 0.5}}),
        ("Train metrics: {'acc': 0.9}\nValidation metrics: {'acc': 0.7}", {"val/acc": {1: 0.7}}),
    ],
)
def test_a_split_before_names_is_theirs(tmp_path, text, values):
    read_values = read(tmp_path, text, ProgramOptions("x", {"acc": "max"})).values
    assert {key: column for key, column in read_values.items() if column} == values


def test_a_progress_line_that_is_written_over_and_a_summary_with_other_counts(tmp_path):
    """As autoresearch's train.py prints them: `num_steps` and `epoch` are not the step of the metric."""
    progress = "\rstep {:05d} (0.0%) | loss: 6.2 | lrm: 1.00 | dt: 25ms | tok/sec: 20,479 | epoch: 1 | remaining: 1s "
    summary = "---\nval_bpb:          3.394282\ntraining_seconds: 300.1\nnum_steps:        953\ndepth:            8\n"
    text = progress.format(0) + progress.format(51) + "\n" + summary
    assert read(tmp_path, text, ProgramOptions("x", {"val_bpb": "min"})).values == {"val/val_bpb": {51: 3.394282}}


def test_a_pattern_of_the_user_reads_the_output(tmp_path):
    text = "Epoch 2\nTest set: Accuracy: 98/100 (98%), val loss 3\n"
    options = ProgramOptions("x", {"accuracy": "max"}, patterns={"val/accuracy": r"Accuracy: .*\((\d+)%\)"})
    assert read(tmp_path, text, options).values == {"val/accuracy": {2: 98.0}}


UNCLEAR = [
    "val loss 8,192",
    "val loss 1.5\nval loss 0,75",
    "val loss 97/100",
    "val loss: 97 of 100",
    "val loss 2.2 (2.1)",
    "val loss 1 234.5",
    "val loss 2.5k",
    "val loss 1.#INF",
    "val loss 0.5\nval loss 85%",
    "val loss 12:30",
    "val loss 1.5 --> 1.25",
    "| val loss | 1.5 | 1.25 |",
    "step 1: val loss 2.0\nstep 1: val loss 3.0",
    "0: step 1: val loss 2.0\n1: step 1: val loss 3.0",  # as srun -l labels the lines of ranks
]


@pytest.mark.parametrize("text", UNCLEAR)
def test_a_number_that_can_be_several_is_no_result(tmp_path, text):
    assert "val loss must be one number, got '" in read(tmp_path, text).unclear["val/loss"]


@pytest.mark.parametrize(
    "prefix",
    [
        "[rank{}]: ",
        "[default{}]:",
        "Rank {} | ",
        "[GPU{}] ",
        "[1,{}]<stdout>:",
        "(Worker pid=71{}) ",
        "12:30:01 INFO [rank: {}] ",
    ],
)
@pytest.mark.parametrize("ranks", [(0, 1), (1, 0)])
def test_the_first_rank_of_several_processes_counts(tmp_path, prefix, ranks):
    lines = [prefix.format(rank) + f"step {step}: val loss {step}.{rank}" for step in (1, 2) for rank in ranks]
    lines.append(prefix.format(1) + "train loss 0.5")
    values = read(tmp_path, "\n".join(lines)).values
    assert values == {"val/loss": {1: 1.0, 2: 2.0}, "train/loss": {2: 0.5}}


def test_the_trainer_evaluates_its_best_weights_at_the_last_epoch_again(tmp_path):
    last = ["{'eval_loss': 1.9, 'epoch': 1.0}", "{'train_loss': 2.3, 'epoch': 1.0}", "{'eval_loss': 1.7, 'epoch': 1.0}"]
    found = read(tmp_path, "\n".join(last))
    assert found.values["val/loss"] == {1: 1.7}
    assert not found.unclear
