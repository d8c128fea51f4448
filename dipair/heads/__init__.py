"""The heads there are, by name, and their settings: this is the one place that lists them."""

import dataclasses
from collections.abc import Callable

from common import flags
from common.modeling.head import Head
from dipair.heads.cosine import CosineHead
from dipair.heads.feed_forward import FeedForwardConfig, FeedForwardHead
from dipair.heads.lite import LiteHead
from dipair.heads.max_sim import MaxSimHead
from dipair.heads.poly_encoder import PolyEncoderConfig, PolyEncoderHead
from dipair.heads.transformer import TransformerConfig, TransformerHead

# A head is made of (settings, None where it has none; tokens kept of each slot; their width D;
# outputs O; dropout). One whose `pairs_only` is true takes two slots and no more. Settings may have
# a `check(D)`, which refuses a width that does not fit them.
HEADS: dict[str, Callable[..., Head]] = {
  'transformer': TransformerHead,
  'ffnn': FeedForwardHead,
  'cosine': CosineHead,
  'max_sim': MaxSimHead,
  'lite': LiteHead,
  'poly_encoder': PolyEncoderHead,
}


@dataclasses.dataclass(frozen=True)
class HeadsConfig:
  """Each head's settings, by its name; a head that needs none has no field."""

  transformer: TransformerConfig = flags.group(TransformerConfig, 'head_')
  ffnn: FeedForwardConfig = flags.group(FeedForwardConfig, 'ffnn_')
  poly_encoder: PolyEncoderConfig = flags.group(PolyEncoderConfig, 'poly_')
