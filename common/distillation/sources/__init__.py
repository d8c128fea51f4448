"""Where a run's items and tuples come from, a file each; `common.distillation.dataset` lists them."""
