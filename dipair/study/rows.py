"""Students that each table and figure of the paper compares, as pure data.

A row is a student by the flags in which it differs from the run's own. Its cross-attention students
(§4.2) have flags of their own: 'cross_attention', the layers of a BERT of BERT-Tiny's shape (0) or the
first so many of the checkpoint.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

CROSS = 'cross_attention'
TINY = 'bert-tiny'


class Row(NamedTuple):
  """A student: its name in the table, and the flags that differ from the run's."""

  name: str
  flags: dict[str, Any]

  @property
  def is_cross(self) -> bool:
    """Whether it reads both texts together."""
    return CROSS in self.flags


@dataclasses.dataclass(frozen=True)
class Base:
  """The run's own student, as far as rows depend on it.

  Attributes:
    tokens: N, M.
    lengths: Most tokens of each text.
    layers: K.
    depth: Layers of the checkpoint.
    cross_depth: Layers of the checkpoint that cross-attention students are the first of; 0: there are none.
    cross_from: Its name, where it is not the one that the run's teacher was trained from.
  """

  tokens: tuple[int, int]
  lengths: tuple[int, int]
  layers: int
  depth: int
  cross_depth: int
  cross_from: str = ''

  def kept(self, left: int, right: int) -> dict[str, Any]:
    """Flag of N and M, at the most the texts' lengths."""
    most, least = self.lengths
    return {'output_tokens': (min(left, most), min(right, least))}


class Comparison(NamedTuple):
  """A table, or a figure.

  Attributes:
    key: What its files are named by.
    title: Its title.
    rows: A function of the run's own student to the students compared.
    timed: Whether the students' speeds are measured.
    encoders: Whether their encoders' are too.
    crossed: Whether cross-attention students are among them.
    fitting: Whether a student whose loss does not fit the task or the tuples is left out, not refused.
    axis: Of a figure over one number: the number's name.
  """

  key: str
  title: str
  rows: Callable[[Base], list[Row]]
  timed: bool = False
  encoders: bool = False
  axis: str = ''
  crossed: bool = False
  fitting: bool = False

  @property
  def untimed(self) -> 'Comparison':
    """The same one without speeds."""
    return self._replace(timed=False, encoders=False)


_DIPAIR = 'DiPair, transformer'
_TRANSFORMER = {'head': 'transformer'}
_CLS = {'token_selection': 'first'}  # where one token is the text's vector (§4.2)
_DE = {'output_tokens': (1, 1), 'projection_dim': 0, **_CLS}
_EQ1 = {'loss': 'cross_entropy', 'alpha': 1.0}
_ALIKE = {'left_encoder_layers': 0, 'right_encoder_layers': 0}  # encoders of one depth
_CROSS_LAYERS = (1, 2, 3)


def _ffnn(*dims: int) -> dict[str, Any]:
  return {'head': 'ffnn', 'ffnn_dims': dims}


def _main(base: Base) -> list[Row]:
  left, right = base.tokens
  of = f' of {base.cross_from}' if base.cross_from else ''
  cross = [
    Row(f'cross-attention, first {f"{n} layers" if n > 1 else "layer"}{of}', {CROSS: str(n)})
    for n in _CROSS_LAYERS
    if n < base.cross_depth
  ]
  return [
    Row('DE-Cos', {'head': 'cosine', **_DE}),
    Row('DE-FFNN', {**_ffnn(128, 128), **_DE}),
    Row('DiPair, FFNN', _ffnn(128, 128)),
    Row('MaxSim', {'head': 'max_sim'}),
    Row('LITE', {'head': 'lite'}),
    Row('Poly-encoder', {'head': 'poly_encoder', **base.kept(left + right - 1, 1), **_CLS}),
    Row(_DIPAIR, _TRANSFORMER),
    Row("cross-attention, BERT-Tiny's shape", {CROSS: TINY}),
    *cross,
  ]


def _heads(base: Base) -> list[Row]:
  left, right = base.tokens
  twice = base.kept(2 * left, 2 * right)
  more = 'x'.join(map(str, twice['output_tokens']))
  return [
    Row(_DIPAIR, _TRANSFORMER),
    Row(f'{_DIPAIR}, {more} tokens', {**_TRANSFORMER, **twice}),
    *(
      Row(f'{_DIPAIR}, {name}: {n}', {**_TRANSFORMER, flag: n})
      for name, flag, sizes in (
        ('layers', 'head_layers', (1, 4)),
        ('attention heads', 'head_attention_heads', (2, 4)),
        ('inner width', 'head_inner_dim', (256, 512)),
      )
      for n in sizes
    ),
    Row('DiPair, FFNN 128x128', _ffnn(128, 128)),
    Row('DiPair, FFNN 1024x1024', _ffnn(1024, 1024)),
    Row(f'DiPair, FFNN 1024x1024, {more} tokens', {**_ffnn(1024, 1024), **twice}),
    Row('DE-FFNN 128x128', {**_ffnn(128, 128), **_DE}),
    Row('DE-FFNN 1024x1024', {**_ffnn(1024, 1024), **_DE}),
    Row('DE-FFNN 1024x1024x1024x1024', {**_ffnn(1024, 1024, 1024, 1024), **_DE}),
  ]


def _projections(base: Base) -> list[Row]:
  del base
  sizes = [Row(f'D={n}', {'projection_dim': n}) for n in (256, 128, 64, 16)]
  return [*sizes, Row('no projection', {'projection_dim': 0})]


def _tokens(base: Base) -> list[Row]:
  sizes = ((8, 16, 2), (8, 4, 2), (4, 8, 4), (4, 8, 2), (2, 2, 2), (1, 11, 2), (11, 1, 2))
  fit = [s for s in sizes if s[0] <= base.lengths[0] and s[1] <= base.lengths[1]]
  own = f'N={base.tokens[0]}, M={base.tokens[1]}'
  return [
    *(
      Row(f'{own}, {name}', {**_TRANSFORMER, 'token_selection': selection})
      for selection, name in (
        ('first', 'the first'),
        ('last', 'the last'),
        ('mean', 'the first, the mean of all for [CLS]'),
      )
    ),
    *(
      Row(f'N={n}, M={m}, L={layers}', {**_TRANSFORMER, **base.kept(n, m), 'head_layers': layers})
      for n, m, layers in fit
    ),
  ]


def _poly_encoder(base: Base) -> list[Row]:
  plain = {'projection_dim': 0}
  rows = []
  for both in (12, 6):  # N + M
    half, most = base.kept(both // 2, both // 2), base.kept(both - 1, 1)
    poly = {'head': 'poly_encoder', **most, **plain, **_CLS}
    rows.append(Row(f'{_DIPAIR}, N=M={both // 2}', {**_TRANSFORMER, **half, **plain}))
    codes = (4, 8, 16, 64) if both == 12 else (8,)
    one = f'Poly-encoder, {most["output_tokens"][0]}+1 tokens'
    rows += [Row(f'{one}, {n} codes', {**poly, 'poly_codes': n}) for n in codes]
  return rows


def _stages(base: Base) -> list[Row]:
  del base
  heads = {
    _DIPAIR: _TRANSFORMER,
    'DiPair, FFNN': _ffnn(128, 128),
    'DE-FFNN': {**_ffnn(128, 128), **_DE},
  }
  ways = {'both stages': {}, 'stage 1 alone': {'stage2_steps': 0}, 'one stage': {'stage1_steps': 0}}
  return [
    Row(f'{head}: {way}', {**own, **steps})
    for head, own in heads.items()
    for way, steps in ways.items()
  ]


def _depths(base: Base) -> list[Row]:
  return [Row(str(n), {'encoder_layers': n, **_ALIKE}) for n in range(1, base.depth + 1)]


def _lengths(base: Base) -> list[Row]:
  """The own most tokens, and quarters of them; N and M at the most as many."""
  rows = []
  for quarters in (1, 2, 3, 4):
    left, right = (max(2, n * quarters // 4) for n in base.lengths)
    n, m = base.tokens
    own = {'max_lengths': (left, right), 'output_tokens': (min(n, left), min(m, right))}
    rows.append(Row(f'{left}+{right}', own))
  return rows


def _temperatures(base: Base) -> list[Row]:
  del base
  own = Row("Eq. 1 on the run's soft labels", _EQ1)
  of = {**_EQ1, 'loss': 'kd'}
  return [own, *(Row(f'T={t:g}', {**of, 'loss_temperature': float(t)}) for t in (0.5, 1, 2, 4))]


def _losses(base: Base) -> list[Row]:
  del base
  names = {
    'squared_error': 'squared error',
    'margin_mse': 'margin-MSE',
    'listwise_kl': 'listwise KL',
  }
  own = Row("Eq. 1 on the run's soft labels", _EQ1)
  return [own, *(Row(name, {**_EQ1, 'loss': loss}) for loss, name in names.items())]


def _encoders(base: Base) -> list[Row]:
  del base
  ways = {'shared': True, 'one a text': False}
  return [Row(way, {'shared_encoder': shared, **_ALIKE}) for way, shared in ways.items()]


def _query_depths(base: Base) -> list[Row]:
  """Two encoders each; at the run's own depth, where they are alike, one encoder for both beside them."""
  own = {**_ALIKE, 'shared_encoder': False}
  depths = range(1, base.depth + 1)
  rows = [
    Row(f'K={n}', {**own, 'left_encoder_layers': n if n != base.layers else 0}) for n in depths
  ]
  return [*rows, Row(f'K={base.layers}, one encoder for both', {**own, 'shared_encoder': True})]


_MAIN = Comparison('table2', 'Main results (Tables 2 and 3)', _main, timed=True, crossed=True)
TABLES = {
  '2': _MAIN,
  '3': _MAIN,
  '4': Comparison('table4', 'Settings of the head (Table 4)', _heads, timed=True),
  '5': Comparison('table5', 'Width of the projection (Table 5)', _projections),
  '6': Comparison('table6', 'Output tokens that are kept (Table 6)', _tokens),
  '7': Comparison('table7', 'DiPair and Poly-encoders (Table 7)', _poly_encoder),
  'losses': Comparison('losses', 'Losses of distillation', _losses, fitting=True),
  'temperature': Comparison('temperature', 'Temperature of the soft labels', _temperatures),
  'encoders': Comparison('encoders', "The texts' encoders, shared or not (§4.2)", _encoders),
  'query_depth': Comparison('query_depth', "Depth of the left text's encoder alone", _query_depths),
}
FIGURES = {
  '1': Comparison('figure1', 'Speed and quality (Figure 1)', _main, timed=True, crossed=True),
  '3a': Comparison('figure3a', 'One stage and two (Figure 3a)', _stages),
  '3b': Comparison('figure3b', 'Depth of the encoders (Figure 3b)', _depths, axis='layers'),
  '4': Comparison(
    'figure4', 'Length of the texts (Figure 4)', _lengths, axis='most tokens, left+right'
  ),
}
