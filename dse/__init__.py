"""DSE: distilled sentence embedding (Barkan et al., 2019)."""
