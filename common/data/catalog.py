"""A built-in product catalog with rated (term, product) pairs: SYNTHETIC, made by rules.

It stands in for P2T-REL, the private set of the DiPair paper (Sec. 4.1, Appendix A), so that the
project runs without a download. No product or rating is real: figures measured on it say how well
a student follows its teacher, not how well either would serve a shop.

A product is a choice of facets (kind, brand, color, size, material, style, audience) written as a
title and a short description. A term names one to three facets as a user would type them, and is
worth what they are worth jointly: "black", "wide footwear" and "nike shoes" each fit
"Black Sport Nike Shoes for Boys Size Wide" and do not fit one another.
"""

import dataclasses
import itertools
import json
import random
import re
from collections.abc import Iterable, Mapping
from importlib import resources
from typing import TypeVar

from common.errors import InputError

T = TypeVar('T')

BLOCK, KEPT = (32, 48), 3  # terms, products of a distillation block; one in KEPT pairs is in it
ROWS_PER_PRODUCT = 3  # in a rated split

# Families' values by facet, "/" between a value's spellings; broad words that cover several values,
# which only terms use; and what titles and descriptions are made of.
_WORDS = json.loads((resources.files('common.data') / 'catalog.json').read_text('utf-8'))
# Each facet's worth in a term when met, and what is left of the term's worth when it is not.
_WORTH = {'size': (0.82, 0.25), 'audience': (0.6, 0.25), 'color': (0.72, 0.2), 'style': (0.8, 0.35)}
_WORTH |= {'material': (0.75, 0.25), 'brand': (0.85, 0.3), 'kind': (0.9, 0.05)}
_WORTH |= {'generic': (1.0, 1.0), 'off-topic': (0.0, 0.0)}  # no product states these
_BROADER, _DESCRIPTION, _UNSTATED, _SIBLING = 0.85, 0.8, 0.15, 0.15  # fits short of a whole one


@dataclasses.dataclass(frozen=True)
class Pair:
  """A row: `relevance` is the mean of three raters, in [0, 1], or None where unlabelled."""

  id: str
  term: str
  product: str
  relevance: float | None


@dataclasses.dataclass(frozen=True)
class Product:
  """A text with its facets, the facets missing in its title, and values named in passing."""

  text: str
  facets: Mapping[str, str]
  described: frozenset[str] = frozenset()
  asides: Mapping[tuple[str, str], float] = dataclasses.field(default_factory=dict)


def _spellings(values: Iterable[str]) -> dict[str, list[str]]:
  """Each value's spellings, its own name first."""
  return {names[0]: names for names in (value.split('/') for value in values)}


_TABLES = {  # family -> facet -> value -> spellings
  family: {
    facet: _spellings(values) for facet, values in {'color': _WORDS['color'], **facets}.items()
  }
  for family, facets in _WORDS['families'].items()
}
_FAMILY_OF = {kind: family for family, tables in _TABLES.items() for kind in tables['kind']}


def _lexicon() -> dict[str, tuple[str, dict[str, float]]]:
  """Phrases that a term may hold: facet, and the values that it asks for with the fit of each."""
  lexicon: dict[str, tuple[str, dict[str, float]]] = {}
  for family, tables in _TABLES.items():
    broader = dict.fromkeys(tables['kind'], _BROADER)
    lexicon |= {word: ('kind', broader) for word in family.split('/')}
    for facet, values in tables.items():
      for value, names in values.items():
        lexicon |= {name: (facet, {value: 1.0}) for name in names if not name.isdigit()}
        if facet == 'size':
          lexicon |= {f'size {name}': (facet, {value: 1.0}) for name in names}
  for phrase, values in _WORDS['broad'].items():
    fits = {value: 1.0 if value == phrase else _BROADER for value in values}
    lexicon[phrase] = (lexicon[values[0]][0], fits)
  return lexicon | {phrase: ('generic', {}) for phrase in _WORDS['generic']}


_LEXICON = _lexicon()
_PHRASES: dict[tuple[str, str], list[str]] = {}  # (facet, value) -> what a term may call it
for _phrase, (_facet, _fits) in _LEXICON.items():
  for _value in _fits:
    _PHRASES.setdefault((_facet, _value), []).append(_phrase)
_LONGEST_FIRST = re.compile(rf'(?:{"|".join(sorted(_LEXICON, key=len)[::-1])})(?!\S)|\S+')


def _fit(facet: str, fits: Mapping[str, float], product: Product) -> float:
  """Degree, in [0, 1], to which the product has a value that a term's facet asks for."""
  value = product.facets.get(facet, '')
  if value in fits:
    return fits[value] * (_DESCRIPTION if facet in product.described else 1.0)
  named = [product.asides[facet, other] for other in fits if (facet, other) in product.asides]
  if named:
    return max(named)
  if facet == 'kind':
    return _SIBLING * (_FAMILY_OF[value] in [_FAMILY_OF[kind] for kind in fits])
  return 0.0 if value else _UNSTATED


def relevance(term: str, product: Product) -> float:
  """A term's relevance for a product, before the raters' noise, in [0, 1].

  (1 - prod_f (1 - w_f s_f)) * prod_f (r_f + (1 - r_f) s_f) over the term's facets f, of fit s_f,
  worth w_f and remainder r_f: facets that are met add up, a single one that is not spoils the rest.
  """
  missed, spoiled = 1.0, 1.0
  for phrase in _LONGEST_FIRST.findall(term.lower()):
    facet, fits = _LEXICON.get(phrase, ('off-topic', {}))
    fit = _fit(facet, fits, product)
    worth, left = _WORTH[facet]
    missed *= 1.0 - worth * fit
    spoiled *= left + (1.0 - left) * fit
  return (1.0 - missed) * spoiled


class _Dice:
  """Draws from `Random.random` alone: Python keeps its sequence on every platform and version."""

  def __init__(self, seed: int):
    self.uniform = random.Random(seed).random

  def pick(self, items: Iterable[T]) -> T:
    items = list(items)
    return items[int(self.uniform() * len(items))]

  def rating(self, truth: float) -> float:
    """The mean of three raters' grades in quarters; they agree best where the truth is plain."""
    spread = 0.4 + 1.8 * truth * (1.0 - truth)  # three uniform draws: a standard deviation of 1/2
    noises = [self.uniform() + self.uniform() + self.uniform() - 1.5 for _ in range(3)]
    return sum(min(4, max(0, int(4.0 * (truth + spread * noise) + 0.5))) for noise in noises) / 12

  def product(self, family: str, taken: set[str]) -> Product:
    """A product of the family, its text not among those taken, and added to them."""
    tables, odds = _TABLES[family], {'kind': 1.0, 'brand': 0.9, 'color': 0.9, 'audience': 0.6}
    facets = {f: self.pick(tables[f]) for f in tables if self.uniform() < odds.get(f, 0.75)}
    names = {facet: self.pick(tables[facet][value]) for facet, value in facets.items()}
    described = [facet for facet in facets if facet != 'kind' and self.uniform() < 0.25]
    segments = [
      (s, s[s.index('{') + 1 : s.index('}')]) for s in self.pick(_WORDS['layouts']).split('|')
    ]
    title = ' '.join(s.format(**names) for s, f in segments if f in names and f not in described)
    sentences = [f'{facet.capitalize()}: {names[facet]}.' for facet in described]
    aside = self.pick(_WORDS['asides'])  # a value in passing, and how far it counts
    facet, other = aside['facet'], self.pick(tables[aside['facet']])
    asides = {(facet, other): aside['counts']} if other != facets.get(facet) else {}
    sentences += [aside['text'].format(other) for _ in asides] + [self.pick(_WORDS['fillers'])]
    text = f'{title.title()}. {" ".join(sentences)}'
    if text in taken:
      return self.product(family, taken)
    taken.add(text)
    return Product(text, facets, frozenset(described), asides)

  def term(self, facets: Mapping[str, str], first: str = 'kind') -> str:
    """A term of one to three words for some facets, `first` likeliest, in the order of `_WORTH`."""
    count, phrases = self.pick((1, 1, 1, 2, 2, 2, 2, 3)), {}
    for facet in sorted(facets, key=lambda facet: self.uniform() - 0.5 * (facet == first))[:count]:
      phrase = self.pick(_PHRASES[facet, facets[facet]])
      if len(' '.join([*phrases.values(), phrase]).split()) <= 3:
        phrases[facet] = phrase
    return ' '.join(phrases[facet] for facet in _WORTH if facet in phrases)

  def any_term(self) -> str:
    """A term for no product in particular, at times too general or off-topic."""
    draw = self.uniform()
    if draw < 0.35:
      return self.pick(_WORDS['generic' if draw < 0.2 else 'off-topic'])
    return self.term(self.product(self.pick(_TABLES), set()).facets)

  def rated_term(self, product: Product) -> str:
    """A term that fits a product, does in part, contradicts it or has nothing to do with it."""
    draw = self.uniform()
    if draw < 0.45:
      return self.term(product.facets)
    if draw > 0.8:
      return self.any_term()
    tables = _TABLES[_FAMILY_OF[product.facets['kind']]]
    facet = self.pick(tables)
    wrong = (facet, self.pick(tables[facet]))
    facet, value = self.pick(product.asides) if product.asides and draw < 0.55 else wrong
    return self.term({**product.facets, facet: value}, first=facet)


def _rated(dice: _Dice, split: str, count: int, products: list[Product]) -> list[Pair]:
  """Rates each product for a few terms, no pair twice."""
  truths: dict[tuple[str, str], float] = {}
  while len(truths) < count:
    product = products[len(truths) % len(products)]
    term = dice.rated_term(product)
    truths[term, product.text] = relevance(term, product)
  rows = enumerate(truths.items())
  return [Pair(f'{split}-{row:06d}', *pair, dice.rating(truth)) for row, (pair, truth) in rows]


def _block(dice: _Dice, known: list[Product], taken: set[str]) -> list[tuple[str, str]]:
  """A block's pairs; half its products are of one family, half its terms from its products."""
  family, terms, products = dice.pick(_TABLES), {}, {}
  kin = [product for product in known if _FAMILY_OF[product.facets['kind']] == family]
  while len(products) < BLOCK[1]:
    alike = len(products) < BLOCK[1] // 2
    pool = (kin if alike else known) if dice.uniform() < 0.25 else []
    new = dice.pick(pool) if pool else dice.product(family if alike else dice.pick(_TABLES), taken)
    products[new.text] = new
  while len(terms) < BLOCK[0]:
    own = len(terms) < BLOCK[0] // 2
    terms[dice.term(dice.pick(products.values()).facets) if own else dice.any_term()] = None
  pairs = itertools.product(enumerate(terms), enumerate(products))
  return [(term, text) for (i, term), (j, text) in pairs if (i + j) % KEPT == 0]


def splits(
  seed: int = 7, train: int = 8000, valid: int = 1000, test: int = 2000, distillation: int = 40000
) -> dict[str, list[Pair]]:
  """Makes the four splits. Sizes are exact; distillation is rounded up to whole blocks.

  No two of train, valid and test share a product. A quarter of distillation's are train's, none are
  valid's or test's. Its rows come in blocks: one in `KEPT` pairs of `BLOCK` terms and products.
  Valid and test do not change with the sizes of train and distillation.

  >>> rows = splits(train=100, distillation=512)['train']
  """
  if min(train, valid, test, distillation) < 0:
    raise InputError(f'sizes {train}, {valid}, {test}, {distillation}: none may be negative')
  taken: set[str] = set()
  rows: dict[str, list[Pair]] = {'train': [], 'valid': [], 'test': []}
  for stream, (split, count) in enumerate({'test': test, 'valid': valid, 'train': train}.items()):
    dice, made = _Dice(4 * seed + stream), range(0, count, ROWS_PER_PRODUCT)
    products = [dice.product(dice.pick(_TABLES), taken) for _ in made]
    rows[split] = _rated(dice, split, count, products)
  dice, pairs = _Dice(4 * seed + 3), []
  while len(pairs) < distillation:
    pairs += _block(dice, products, taken)  # the products are train's, the last made above
  rows['distillation'] = [Pair(f'distillation-{i:06d}', *p, None) for i, p in enumerate(pairs)]
  return rows
