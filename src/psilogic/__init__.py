"""PsiLogic: Adam with a chaos-gated multiplicative damping, for torch."""

from psilogic.monitor import ChaosTally
from psilogic.optimizer import PsiLogic

__all__ = ["ChaosTally", "PsiLogic"]
__version__ = "0.7.0"
