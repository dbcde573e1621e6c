"""A small GPT-2 trained by the Trainer of transformers on this file; of fairbench are an import and four lines."""

from pathlib import Path

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments, set_seed

import fairbench.trial

LENGTH = 32

trial = fairbench.trial.current(steps=20, folder="huggingface_output")
text = torch.tensor(list(Path(__file__).read_bytes() * 4))
rows = text.unfold(0, LENGTH, LENGTH)
windows = [{"input_ids": row, "labels": row} for row in rows]
train = windows[:-40]
val = windows[-40:-20]
test = windows[-20:]

set_seed(trial.seed)
config = GPT2Config(vocab_size=256, n_positions=LENGTH, n_embd=32, n_layer=1, n_head=2)
model = GPT2LMHeadModel(config)
arguments = TrainingArguments(
    output_dir=str(trial.folder / "checkpoints"),
    max_steps=trial.steps,
    per_device_train_batch_size=8,
    save_steps=max(trial.steps // 4, 1),
    seed=trial.seed,
    use_cpu=True,
    report_to=[],
    disable_tqdm=True,
    logging_steps=1,
)


class Progress(TrainerCallback):
    """Prints the training loss."""

    def on_log(self, args, state, control, logs=None, **_):
        """Called by the Trainer with what it logs."""
        if "loss" in logs:
            print(f"step {state.global_step}: loss {logs['loss']:.4f}")
            trial.log(state.global_step, train_loss=logs["loss"])


optimizer = trial.optimizer(model, lr=1e-3)
trainer = Trainer(model, arguments, train_dataset=train, callbacks=[Progress()], optimizers=(optimizer, None))
has_checkpoint = any(trial.folder.glob("checkpoints/checkpoint-*"))
trainer.train(resume_from_checkpoint=trial.resumed and has_checkpoint)
val_loss = trainer.evaluate(val)["eval_loss"]
test_loss = trainer.evaluate(test)["eval_loss"]
trial.result(val={"loss": val_loss}, test={"loss": test_loss})
