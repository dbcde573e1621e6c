"""Hugging Face's Trainer takes PsiLogic as it is; it is imported in the tests, since only one worker needs it."""

import pytest
import torch
from training import assert_same, classification_batches, classifier, train

from psilogic import PsiLogic, PsiLogicGPT, monitor

pytestmark = pytest.mark.xdist_group("trainer")  # one worker imports it

OPTIONS = {"lr": 0.02, "gamma": 5.0, "total_steps": 8, "chaos_warmup": 2}
STEPS = 8


class Classifier(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = classifier()

    def forward(self, features, labels):
        logits = self.layers(features)
        return {"loss": torch.nn.functional.cross_entropy(logits.float(), labels), "logits": logits}


def examples():
    rows = []
    for batch in classification_batches(8, size=4):
        for features, label in zip(batch.features, batch.labels, strict=True):
            rows.append({"features": features, "labels": label})
    return rows


def trainer(directory, model, data, optimizer, **arguments):
    from transformers import Trainer, TrainingArguments

    defaults = {"save_strategy": "no", "logging_strategy": "no", "report_to": [], "disable_tqdm": True}
    settings = TrainingArguments(
        str(directory),
        max_steps=STEPS,
        per_device_train_batch_size=4,
        use_cpu=True,
        **{**defaults, **arguments},
    )
    return Trainer(model, settings, train_dataset=data, **optimizer)


def by_class():
    return {"optimizer_cls_and_kwargs": (PsiLogic, dict(OPTIONS))}


@pytest.mark.parametrize("bf16", [False, True])
def test_equals_a_loop_by_hand(tmp_path, bf16) -> None:
    from transformers import default_data_collator, get_cosine_schedule_with_warmup

    batches = []

    def collate(rows):
        batch = default_data_collator(rows)
        batches.append(batch)
        return batch

    training = trainer(
        tmp_path,
        Classifier(),
        examples(),
        by_class(),
        bf16=bf16,
        weight_decay=0.1,
        gradient_accumulation_steps=2,
        max_grad_norm=0.5,
        lr_scheduler_type="cosine",
        warmup_steps=2,
    )
    training.data_collator = collate
    training.train()

    model = Classifier()
    names_with_decay = training.get_decay_parameter_names(model)
    decayed = {"params": [], "weight_decay": 0.1}
    not_decayed = {"params": [], "weight_decay": 0.0}
    for name, p in model.named_parameters():
        group = decayed if name in names_with_decay else not_decayed
        group["params"].append(p)
    groups = [decayed, not_decayed]
    optimizer = PsiLogic(groups, **OPTIONS)
    watching = monitor(optimizer)
    scheduler = get_cosine_schedule_with_warmup(optimizer, num_warmup_steps=2, num_training_steps=STEPS)

    def loss_of(batch):
        return model(**batch)["loss"]

    train(model, optimizer, scheduler, batches[: 2 * STEPS], loss_of, accumulate=2, max_norm=0.5, bf16=bf16)
    assert [len(group["params"]) for group in groups] == [2, 4]
    assert_same(training.optimizer.optimizer, optimizer)
    assert watching.totals()["cancellation"] > 0


def test_resumed_equals_never_stopped(tmp_path) -> None:
    through = trainer(tmp_path, Classifier(), examples(), by_class(), save_strategy="steps", save_steps=3)
    through.train()
    resumed = trainer(tmp_path / "resumed", Classifier(), examples(), by_class())
    resumed.train(resume_from_checkpoint=str(tmp_path / "checkpoint-3"))
    assert resumed.state.global_step == STEPS
    assert_same(resumed.optimizer.optimizer, through.optimizer.optimizer)


def test_the_groups_of_a_preset(tmp_path) -> None:
    model = Classifier()
    optimizer = PsiLogicGPT(model, lr=0.01, total_steps=STEPS)

    def groups():
        return [(group["name"], group["gamma"], group["weight_decay"]) for group in optimizer.param_groups]

    before = groups()
    training = trainer(tmp_path, model, examples(), {"optimizers": (optimizer, None)})
    training.train()
    assert training.optimizer.optimizer is optimizer
    assert groups() == before
    assert {weight_decay for _, _, weight_decay in before} == {0.0, 0.1}
    assert {state["step"].item() for state in optimizer.state.values()} == {STEPS}
