"""PsiLogic: Adam with a chaos-gated multiplicative damping, for torch."""

from psilogic.optimizer import PsiLogic

__all__ = ["PsiLogic"]
__version__ = "0.7.0"
