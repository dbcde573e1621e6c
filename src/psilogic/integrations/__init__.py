"""PsiLogic in training frameworks; each module needs its framework, which `psilogic` alone does not."""
