"""PsiLogic in Hugging Face's Trainer, which needs no adapter, and a callback that logs the chaos detector.

python examples/transformers_trainer.py
"""

import tempfile
from pathlib import Path

import torch
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainerCallback, TrainingArguments

from psilogic import PsiLogic, monitor

STEPS = 30
LENGTH = 32


class ChaosCallback(TrainerCallback):
    """Adds the detector's totals to the Trainer's logs."""

    def on_train_begin(self, args, state, control, *, model, optimizer, **others):
        self.chaos = monitor(optimizer, model.named_parameters())

    def on_log(self, args, state, control, *, logs, **others):
        for name, value in self.chaos.totals().items():
            logs[f"chaos/{name}"] = value


torch.manual_seed(0)
text = torch.tensor(list(Path(__file__).read_bytes()))  # the model learns to write this file
config = LlamaConfig(
    vocab_size=256,
    hidden_size=64,
    intermediate_size=128,
    num_hidden_layers=2,
    num_attention_heads=4,
)
model = LlamaForCausalLM(config)
windows = [{"input_ids": row, "labels": row} for row in text.unfold(0, LENGTH, 4)]

with tempfile.TemporaryDirectory() as directory:
    arguments = TrainingArguments(
        directory,
        max_steps=STEPS,
        per_device_train_batch_size=16,
        weight_decay=0.1,  # of the groups that the Trainer makes: a weight_decay for PsiLogic would be without effect
        lr_scheduler_type="cosine",
        warmup_steps=5,
        max_grad_norm=1.0,
        bf16=True,
        use_cpu=True,
        logging_steps=10,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
    )
    options = {"lr": 3e-3, "total_steps": STEPS, "chaos_warmup": 10}  # the Trainer passes neither lr nor steps on
    trainer = Trainer(
        model,
        arguments,
        train_dataset=windows,
        optimizer_cls_and_kwargs=(PsiLogic, options),
        callbacks=[ChaosCallback()],
    )
    trainer.train()
