"""What an invented trial records of its optimizer's mechanism."""

from fairbench.study.record import MechanismReport, Series

TENSOR_STEPS = "tensor steps"
SHARE = "share of the tensor"
QUANTITIES = {
    "tensor_steps": (TENSOR_STEPS, {"a": 20.0, "b": 20.0}),
    "fired": (TENSOR_STEPS, {"a": 15.0, "b": 5.0}),
    "acted": (TENSOR_STEPS, {"a": 10.0, "b": 0.0}),
    "cancellation": (SHARE, {"a": 0.002, "b": 0.0}),
    "weight_decay": (SHARE, {"a": 0.008, "b": 0.008}),
}
"""The unit of each quantity, and its value in each tensor."""


def mechanism(quantities=QUANTITIES):
    """The report of a mechanism after a trial of ten steps; each tensor has a norm of 3.

    A quarter of each quantity is reached by step 5, the rest by step 10.
    """
    units = {}
    totals = {}
    course = {}
    path_length = {}
    by_tensor = {}
    for name, (unit, tensors) in quantities.items():
        total = sum(tensors.values())
        units[name] = unit
        totals[name] = total
        course[name] = (total / 4, total * 0.75)
        by_tensor[name] = dict(tensors)
        if unit == SHARE:
            path_length[name] = 3 * total
    return MechanismReport(
        units=units,
        totals=totals,
        course=Series((5, 10), course),
        path_length=path_length,
        tensors=by_tensor,
    )
