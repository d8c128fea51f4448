"""Sources of a run's items and tuples, a file each; `common.distillation.dataset` lists them."""
