"""Scoring with an export: texts encoded once, pairs scored by the head. No training code."""

import functools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from tqdm import tqdm

from common.errors import InputError, check_whole
from common.scoring import best, exported, hub, runtimes
from common.scoring.first_stage import FirstStageWeight, finite_scores
from common.scoring.runtime import EncoderRuntime, HeadRuntime, Inputs, Vectors
from common.scoring.sides import Side, Texts, checked, listed
from common.vectors.store import VectorStore, row_numbers
from common.vectors.values import Stored, are_vectors, finite

if TYPE_CHECKING:
  from common.vectors.neighbors import Index

_TOGETHER = 8192  # pairs whose vectors are gathered at a time
# Vectors [U, ...] of a slot's distinct texts, and the row among them of each pair's [pairs].
Gathered = tuple[np.ndarray, np.ndarray]


class PairScorer:
  """An exported student of any kind; each has a class of its own with its `kind`.

  A slot of `widths` takes vectors [n, width] wherever another takes texts. What a caller gives is
  looked at once, by the method that takes it; methods named here as unchecked do not look.

  Args:
    export: The export.
    encoder: Its encoders.
    head: Its head.

  Attributes:
    slots: Names of the slots: ('left', 'right') for pairs.
    vector_shapes: Shape of a text's vectors, by slot.
    widths: Of slots that take vectors (an image's, a user's) in place of texts, the vectors' width.
    outputs: Logits a pair.
    temperature: Of its calibration: a score is of the logit / temperature; 1 if there is none.
    first_stage_weight: The weight for a first stage's scores, where the export has one.
    fingerprint: Fingerprint of the encoders.
    fingerprints: By slot, the fingerprint that its vectors are stored under; a frozen encoder's is
      an earlier export's.
  """

  kind = ''

  def __init__(self, export: exported.Export, encoder: EncoderRuntime, head: HeadRuntime):
    self._export, self._encoder, self._head = export, encoder, head
    description = export.description
    self.slots = tuple(description['slots'])
    self.vector_shapes = {
      slot: tuple(shape)
      for slot, shape in zip(self.slots, description['vector_shapes'], strict=True)
    }
    self.widths: dict[str, int] = description['widths']
    self.outputs = description['outputs']
    self.temperature: float = description['calibration']['temperature']
    self.first_stage_weight = FirstStageWeight.of(export.folder)
    self.fingerprint = description['fingerprint']
    self.fingerprints = exported.fingerprints(description)

  @classmethod
  def load(
    cls,
    folder: str | exported.Export,
    runtime: str = '',
    threads: int = 0,
    *,
    encoder_runtime: str = '',
  ) -> Self:
    """Loads the `export` folder of a run.

    Args:
      folder: The export, an archive of `dipair.release`, 'medquad' (which comes with the package),
        or `hf://org/name[@revision]`; an `exported.Export`, given to several calls, is read once.
      runtime: Runtime of the head: 'tensorflow', 'litert' (float32) or 'litert-int8'; empty:
        'tensorflow', or an archive's only one, 'litert-int8'.
      threads: Threads of LiteRT, each with the weights in memory; 0: one a core, 16 at the most.
      encoder_runtime: Runtime of the encoders, one of these too. Vectors in int8 may be kept beside
        the others', with what the run's report says it costs; empty: as for `runtime`.

    Raises:
      InputError: If it holds no export of this kind, or nothing for the runtimes.
    """
    export = folder if isinstance(folder, exported.Export) else exported.Export(folder)
    if cls.kind not in ('', kind := export.description['kind']):
      raise InputError(f'{export.folder}: an export of {kind}, not of {cls.kind}')
    names = export.runtime(runtime), export.runtime(encoder_runtime, 'encoder_runtime')
    return cls(export, *runtimes.load(export, *names, threads))

  def push(
    self,
    name: str,
    *,
    license: str = '',
    language: str | list[str] = '',
    datasets: str | list[str] = '',
  ) -> str:
    """Uploads the export as `org/name` of the hub, with its run's model card.

    Args:
      name: The repository, which is made if need be.
      license: The card's licence, as the hub names it: 'apache-2.0'; empty: as the card has it.
      language: Languages of the texts, as the hub names them: 'en'; empty: as the card has it.
      datasets: Ids of the training data on the hub; empty: as the card has them.

    Returns:
      Its `hf://` name, which `load` takes.

    Raises:
      InputError: If the name is none, huggingface_hub is not installed, the hub refuses, or there
        is no card for what is given.
    """
    given = {'license': license, 'language': language, 'datasets': datasets}
    return hub.push(self._export.folder, name, **given)

  def encode(
    self, texts: Texts, side: str, *, batch_size: int = 128, progress: bool = False
  ) -> np.ndarray:
    """Encodes texts of one side; their vectors are for keeping.

    Args:
      texts: Any number; batched by length.
      side: 'left' or 'right' (one of `slots`).
      batch_size: Texts at a time, by TensorFlow; LiteRT has batches of its own.
      progress: Whether a progress bar is shown.

    Returns:
      [len(texts), *vector shape] float32.

    Raises:
      InputError: If the side is none, or a row holds no text; names it.
    """
    self._check_side(side)
    check_whole('batch_size', batch_size, 1)
    texts = listed(texts, side, self.widths.get(side, 0))
    return self.encode_listed(texts, side, batch_size, progress)

  def encode_listed(
    self, texts: list[str] | np.ndarray, side: str, batch_size: int = 128, progress: bool = False
  ) -> np.ndarray:
    """Encodes texts as `sides.listed` gives them, unchecked; the rest as for `encode`."""
    vectors = np.zeros([len(texts), *self.vector_shapes[side]], np.float32)
    with tqdm(total=len(texts), desc=f'encode {side}', disable=not progress, unit=' texts') as bar:
      self._encoder.encode(texts, side, vectors, batch_size, bar.update)
    return vectors

  def encode_to(
    self,
    folder: str,
    rows: Iterable[tuple[str, Any]],
    side: str,
    *,
    dtype: str = 'float32',
    replace: bool = False,
    shard_size: int = 16_384,
    total: int | None = None,
    progress: bool = True,
  ) -> VectorStore:
    """Encodes any number of texts into a vector store, by shards; holds 25 bytes an id and new ids.

    Killed at any moment, the same call by the same encoder runtime goes on with the first missing
    shard. A store that is there gets the texts added whose ids it does not have. With `replace`, a
    row of another text is deleted, and stands anew at the end. All changes at once, when all is
    encoded.

    Args:
      folder: Folder of the store.
      rows: (id, text); an id may come again with the same text, which changes nothing.
      side: 'left' or 'right' (one of `slots`).
      dtype: 'float32', 'float16' or 'int8'.
      replace: Whether another text for an id that is there replaces its vectors; else an error.
      shard_size: Texts a shard; those alike in it are encoded once.
      total: Number of rows, for the progress bar.
      progress: Whether a progress bar is shown.
    """
    from common.vectors.writer import VectorWriter

    self._check_side(side)
    of_side = self.fingerprints[side], side, self._encoder.name
    writer = VectorWriter(folder, self.vector_shapes[side], dtype, *of_side)
    return writer.fill(
      rows,
      lambda texts: self.encode(texts, side),
      replace=replace,
      shard_size=shard_size,
      total=total,
      progress=f'encode {side}' if progress else '',
    )

  def parts(self, vectors: Vectors, side: str) -> np.ndarray:
    """Per-text computation of the head, whatever the text is paired with.

    Of DiPair's transformer three or four times the vectors' size, of most others no more than it.

    Args:
      vectors: [n, *vector shape], from `encode`.
      side: 'left' or 'right' (one of `slots`).

    Returns:
      [n, *part shape] float32.
    """
    self._check_side(side)
    return self._parts(self._vectors(self._checked(vectors, side), side), side)

  def score(self, *sides: Texts | Stored) -> np.ndarray:
    """Scores pairs (tuples), row by row.

    Args:
      *sides: One argument a slot, of equal lengths: vectors from `encode`, `stored` ones, or texts.

    Returns:
      [pairs] probabilities in float32; [pairs, C] for C classes.
    """
    return self._scored('serving_default', *self._pairs(sides))[1]

  def scored(self, *sides: Gathered) -> tuple[np.ndarray, np.ndarray]:
    """Logits [pairs, outputs] before calibration, and scores, of pairs whose texts come again.

    Logits rank: in float32, high ones have equal scores.
    """
    gathered = (
      [vectors[rows[start : start + _TOGETHER]] for vectors, rows in sides]
      for start in range(0, max(1, len(sides[0][1])), _TOGETHER)
    )
    found = [self._scored('serving_default', *self._pairs(some)) for some in gathered]
    logits, scores = (np.concatenate(of) for of in zip(*found, strict=True))
    return logits.reshape(-1, self.outputs), scores

  def rank(
    self,
    query: str | Sequence[str] | np.ndarray,
    candidates: Texts | Stored | VectorStore,
    top_k: int = 10,
    *,
    parts: np.ndarray | None = None,
    rows: Sequence[int] | np.ndarray | None = None,
    first_stage: 'Index | None' = None,
    shortlist: int = 1000,
    first_stage_scores: Sequence[Any] | np.ndarray | None = None,
    first_stage_name: str = '',
  ) -> Any:
    """Ranks candidates (right) for a query (left); computes the query's part once.

    Args:
      query: A text, or its vectors; or several of either, for which candidates are read once. In a
        slot of `widths`, [k, D] as `encode` gives one are one query where D is not the width; k
        queries where it is.
      candidates: Vectors from `encode`, texts, `stored` rows, or a vector store, read in blocks.
      top_k: Results at the most.
      parts: The candidates', where they have been computed.
      rows: The candidates to be ranked, where it is not all: a first stage's.
      first_stage: The `common.vectors.neighbors.Index` of a store. The head ranks the `shortlist`
        nearest alone.
      shortlist: Candidates of the first stage.
      first_stage_scores: Own scores of a first stage that the export has a weight for: [n], one a
        candidate, or one a row of `rows`; [queries, n] for several queries. The candidates are then
        ranked by the sum with the logits.
      first_stage_name: Name of that first stage, as in its runs.

    Returns:
      [(index, score)], best first, by logits; equal ones in the candidates' order; a list of such
      lists for several queries. `VectorStore.ids` has the ids of indices. A score is the calibrated
      one of the logit, or of the sum.

    Raises:
      InputError: If an argument does not fit, a score is NaN, or the export has no weight for the
        first stage.
    """
    check_whole('top_k', top_k, 1)
    check_whole('shortlist', shortlist, 1)
    if first_stage is not None:
      _check_index(first_stage, candidates, rows)
    weight = None
    if first_stage_name or first_stage_scores is not None:
      if first_stage is not None:
        raise InputError('first_stage_scores: of given candidates; first_stage finds others')
      weight = self.weight_of(first_stage_name)
    self.check_ranks()
    queries, several = self._queries(query)
    given = self._candidates(candidates)
    rows = None if rows is None else row_numbers(rows, len(given), 'candidates')
    needed = None if parts is None else (len(given), *self._part_shape)
    if (found := getattr(parts, 'shape', None)) != needed:
      raise InputError(f'parts: of shape {found}; {needed} is needed')
    terms = None
    if weight:
      shape = len(queries), len(given if rows is None else rows)
      scores = finite_scores(first_stage_scores, shape if several else shape[1:])
      terms = weight.terms(scores.reshape(shape))
    left = self._vectors(queries, self.slots[0])  # nothing is encoded before
    # `best.ranked` looks at the numbers of what it reads.
    right = self._encoded(given, self.slots[1]) if isinstance(given, Side) else given
    left_parts = self._parts(left, self.slots[0])
    if first_stage is not None:
      near = first_stage.nearest(left := left[:], shortlist)
      ranked = [
        self._ranked(u[None], part[None], right, top_k, parts, np.sort(own[own >= 0]))[0]
        for u, part, own in zip(left, left_parts, near, strict=True)
      ]
    else:
      ranked = self._ranked(left, left_parts, right, top_k, parts, rows, terms)
    return ranked if several else ranked[0]

  def check_ranks(self) -> None:
    """Refuses a model of a tuple of more than two, or of classes, which have no order."""
    if len(self.slots) != 2 or self.outputs != 1:
      raise InputError('rank takes a model of two sides and one output')

  def check_ranks_texts(self, name: str) -> None:
    """Refuses what `check_ranks` does, and a model that takes vectors, by the export's name."""
    if len(self.slots) != 2 or self.outputs != 1 or self.widths:
      raise InputError(f'{name}: a model of two texts and one score is needed')

  def weight_of(self, first_stage: str) -> FirstStageWeight:
    """The weight for the scores of a first stage; one that the export has none for is refused."""
    weight = self.first_stage_weight
    if weight and weight.name == first_stage:
      return weight
    there = f'a weight for {weight.name!r} alone' if weight else 'no weight for its scores'
    raise InputError(
      f'first stage {first_stage!r}: the export has {there}; fit one '
      '(python -m common.rerank --fit_first_stage), or rank without its scores'
    )

  def calibrated(self, logits: np.ndarray) -> np.ndarray:
    """Scores of logits by a model of one output: sigmoid(z / temperature), of the same shape."""
    return np.exp(-np.logaddexp(0, -logits / self.temperature))

  def one_to_many(
    self, left: np.ndarray, left_part: np.ndarray, right: Vectors, parts: np.ndarray | None
  ) -> tuple[np.ndarray, np.ndarray]:
    """Logits, which rank, and scores of one left row with every right one: [rights] each.

    Nothing is checked. Of classes scores are [rights, C].

    Args:
      left: [1, *vector shape].
      left_part: [1, *part shape].
      right: [rights, *vector shape].
      parts: [rights, *part shape], where they have been computed.
    """
    signature = 'one_to_many' if parts is None else 'of_parts'
    one, other = self.slots
    given: Any = {one: left, f'{one}_part': left_part, other: right, f'{other}_part': parts}
    inputs = {name: given[name] for name in self._head.inputs(signature)}
    return self._scored(signature, inputs, len(right))

  def _scored(self, signature: str, inputs: Inputs, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Logits and scores, [rows] or [rows, C] each, by a signature of the head."""
    if not rows:
      none = np.zeros([0] if self.outputs == 1 else [0, self.outputs], np.float32)
      return none, none
    found = self._head.run(signature, inputs)
    return found['logits'].reshape(found['score'].shape), found['score']

  def _pairs(self, sides: Sequence[Texts | Stored]) -> tuple[Inputs, int]:
    """Vectors by slot, and how many of each."""
    if len(sides) != len(self.slots):
      raise InputError(f'{len(sides)} sides given; this model takes {", ".join(self.slots)}')
    rows = {slot: self._checked(side, slot) for side, slot in zip(sides, self.slots, strict=True)}
    counts = [len(side) for side in rows.values()]
    if len(set(counts)) > 1:  # before anything is encoded
      raise InputError(f'sides of {counts} rows; pairs need one row on each')
    return {slot: self._vectors(side, slot) for slot, side in rows.items()}, counts[0]

  def _queries(self, query: str | Sequence[str] | np.ndarray) -> tuple[Side, bool]:
    """The left side, [q, ...], and whether several queries were asked for."""
    slot = self.slots[0]
    shape, width = self.vector_shapes[slot], (self.widths.get(slot, -1),)
    ones = {width} if shape[1:] == width else {width, shape}
    if isinstance(query, str):
      one: Any = [query]
    elif isinstance(query, np.ndarray) and are_vectors(query) and query.shape in ones:
      one = query[None]
    else:
      return self._checked(query, slot), True
    return self._checked(one, slot), False

  def _candidates(self, candidates: Texts | Stored | VectorStore) -> Side | VectorStore:
    """Candidates, checked; a store is given back if its vectors are this model's."""
    side = self.slots[-1]
    if not isinstance(candidates, VectorStore):
      return self._checked(candidates, side)
    if candidates.fingerprint != self.fingerprints[side]:
      raise InputError(f'{candidates.folder}: vectors of another encoder; encode the texts anew')
    if candidates.side != side:
      raise InputError(f'{candidates.folder}: vectors of the {candidates.side} side, not {side}')
    return candidates

  def _checked(self, side: Any, slot: str) -> Side:
    return checked(side, slot, self.vector_shapes[slot], self.widths.get(slot, 0))

  def _check_side(self, side: Any) -> None:
    if side not in self.slots:
      raise InputError(f'side={side!r}: one of {", ".join(self.slots)}')

  def _encoded(self, side: Side, slot: str) -> Vectors:
    return side.rows if side.encoded else self.encode_listed(side.rows, slot)

  def _vectors(self, side: Side, slot: str) -> Vectors:
    """A side's vectors, all their numbers finite."""
    found = self._encoded(side, slot)
    return found if isinstance(found, Stored) else finite(found, slot)

  def _parts(self, vectors: Vectors, slot: str) -> np.ndarray:
    count = len(vectors)
    vectors = vectors if count else np.zeros([1, *self.vector_shapes[slot]], np.float32)
    return self._head.run(f'{slot}_part', {slot: vectors})['part'][:count]

  @functools.cached_property
  def _part_shape(self) -> tuple[int, ...]:  # asked of the head once, not at every query
    slot = self.slots[1]
    return self._parts(np.zeros([0, *self.vector_shapes[slot]], np.float32), slot).shape[1:]

  def _ranked(
    self,
    left: Vectors,
    left_parts: np.ndarray,
    right: Vectors | VectorStore,
    top_k: int,
    parts: np.ndarray | None,
    rows: np.ndarray | None,
    terms: np.ndarray | None = None,
  ) -> list[list[tuple[int, float]]]:
    """`best.ranked` of left rows; no right vectors are read that the head does not take.

    `terms` [left rows, candidates or `rows`], if given, are added to the logits.
    """

    def score(query: int, block: Vectors, block_parts: np.ndarray | None, places: slice) -> Any:
      one = slice(query, query + 1)
      found = self.one_to_many(left[one], left_parts[one], block, block_parts)
      if terms is None:
        return found
      logits = found[0] + terms[query, places]
      return logits, self.calibrated(logits)

    read = parts is None or self.slots[1] in self._head.inputs('of_parts')
    return best.ranked(score, len(left), right, top_k, parts, rows, read)


def _check_index(index: Any, candidates: Any, rows: Any) -> None:
  """Refuses a first stage that is no index of the candidates, all of a store."""
  from common.vectors.neighbors import Index

  stored = isinstance(candidates, VectorStore) and rows is None
  if not stored or not isinstance(index, Index):
    raise InputError('first_stage: neighbors.Index.of_store(candidates), of a store without rows')
  if len(index) != len(candidates):
    raise InputError(
      f'first_stage: an index of {len(index)} texts; the store has {len(candidates)}: '
      'make the index anew'
    )
