"""Pretraining: a vocabulary and a masked language model, learnt from the user's own texts."""
