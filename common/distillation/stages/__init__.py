"""The stages of a run, beside their work; `common.distillation.experiment` lists them in order."""
