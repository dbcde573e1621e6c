"""Options whose values are all Python's are known as such, also where `betas` has a value of another library."""

import numpy as np
import pytest
import torch
from torch import nn

from psilogic import PsiLogic
from psilogic.options import has_plain, numbers_of_device_of, values_of


@pytest.mark.parametrize("chosen", [values_of, numbers_of_device_of], ids=["all options", "those of a device"])
@pytest.mark.parametrize("betas", [[0.9, 0.99], (np.float64(0.9), 0.99), (0.9, torch.tensor(0.99))], ids=repr)
def test_the_values_in_betas_are_looked_at(chosen, betas):
    (group,) = PsiLogic([nn.Parameter(torch.ones(2))]).param_groups
    assert has_plain(chosen(group))
    assert not has_plain(chosen({**group, "betas": betas}))
