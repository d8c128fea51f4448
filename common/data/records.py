"""Sharded TFRecords of examples, with a manifest; what every stage of a run reads and writes.

A record is a `tf.train.Example`: `id`, `text_0` … `text_{n-1}` (UTF-8 bytes), `label` (absent where
unlabelled), `teacher_logits` and `soft_labels` (floats, one an output). Records are matched by
`id`, never by position. The manifest is written last: a folder that has one is whole.
"""

import dataclasses
import hashlib
import itertools
import json
import os
from collections.abc import Iterable, Iterator
from typing import Any

import tensorflow as tf

from common.data.examples import Example
from common.errors import InputError

SCHEMA_VERSION = 1
MANIFEST = 'manifest.json'


@dataclasses.dataclass(frozen=True)
class Shard:
  """One file of a record set: its name in the folder, records, bytes and sha256."""

  name: str
  count: int
  bytes: int
  sha256: str


@dataclasses.dataclass(frozen=True)
class Manifest:
  """What a folder of records holds.

  `block` is the number of consecutive records that share texts (1: none do); shards hold whole
  blocks. `info` is free: temperature, teacher, source.
  """

  texts: int
  count: int
  shards: tuple[Shard, ...]
  block: int
  info: dict[str, Any]
  schema_version: int = SCHEMA_VERSION


def write(
  folder: str,
  examples: Iterable[Example],
  *,
  shard_size: int = 16_384,
  block: int = 1,
  info: dict[str, Any] | None = None,
) -> Manifest:
  """Streams examples into `folder`: shards of about `shard_size`, then the manifest.

  Args:
    folder: Made if need be.
    examples: Of the same number of texts.
    shard_size: Records a shard, rounded up to whole blocks.
    block: Consecutive records that share texts.
    info: Goes into the manifest.

  Returns:
    The manifest.
  """
  tf.io.gfile.makedirs(folder)
  size = -(-shard_size // block) * block
  shards, stream, texts = [], iter(examples), 0
  while chunk := list(itertools.islice(stream, size)):
    texts = len(chunk[0].texts)
    shards.append(write_shard(folder, len(shards), chunk))
  manifest = Manifest(texts, sum(s.count for s in shards), tuple(shards), block, info or {})
  write_manifest(folder, manifest)
  return manifest


def write_shard(folder: str, index: int, examples: Iterable[Example]) -> Shard:
  """Writes shard number `index` whole or not at all, and returns its entry of the manifest."""
  name = f'{index:05d}.tfrecord'
  path, count = os.path.join(folder, name), 0
  with tf.io.TFRecordWriter(path + '.tmp') as writer:
    for count, example in enumerate(examples, 1):  # noqa: B007
      writer.write(serialize(example))
  tf.io.gfile.rename(path + '.tmp', path, overwrite=True)
  return _entry(folder, name, count)


def find_shard(folder: str, index: int, count: int) -> Shard | None:
  """The entry of a shard of `count` records that `write_shard` left earlier; None: not there."""
  name = f'{index:05d}.tfrecord'
  if not tf.io.gfile.exists(os.path.join(folder, name)):
    return None
  return _entry(folder, name, count)


def write_manifest(folder: str, manifest: Manifest) -> None:
  """Writes the manifest, which declares the folder whole."""
  path = os.path.join(folder, MANIFEST)
  with tf.io.gfile.GFile(path + '.tmp', 'w') as file:
    file.write(json.dumps(dataclasses.asdict(manifest), indent=2) + '\n')
  tf.io.gfile.rename(path + '.tmp', path, overwrite=True)


def read_manifest(folder: str) -> Manifest:
  """Reads the manifest of a record set; a missing or foreign one is refused."""
  path = os.path.join(folder, MANIFEST)
  try:
    with tf.io.gfile.GFile(path) as file:
      fields = json.loads(file.read())
  except tf.errors.NotFoundError as error:
    raise InputError(f'{folder}: no {MANIFEST}; not a whole record set') from error
  if fields.get('schema_version') != SCHEMA_VERSION:
    version = fields.get('schema_version')
    raise InputError(f'{path}: schema version {version}; this program reads {SCHEMA_VERSION}')
  fields['shards'] = tuple(Shard(**shard) for shard in fields['shards'])
  return Manifest(**fields)


def paths(folder: str) -> list[str]:
  """The shards' paths, in order; a shard that is not of its size in the manifest is refused."""
  found = []
  for shard in read_manifest(folder).shards:
    path = os.path.join(folder, shard.name)
    size = tf.io.gfile.stat(path).length if tf.io.gfile.exists(path) else None
    if size != shard.bytes:
      state = 'missing' if size is None else f'{size} bytes'
      remedy = 'delete its folder and run again'
      raise InputError(f'{path}: {state}; the manifest says {shard.bytes} bytes; {remedy}')
    found.append(path)
  return found


def read(folder: str) -> Iterator[Example]:
  """Streams a record set's examples in order."""
  return itertools.chain.from_iterable(read_shard(path) for path in paths(folder))


def read_shard(path: str) -> Iterator[Example]:
  """Streams one shard's examples; a damaged file is refused."""
  try:
    for record in tf.data.TFRecordDataset(path).as_numpy_iterator():
      yield parse(record)
  except tf.errors.DataLossError as error:
    raise InputError(f'{path}: damaged records; delete its folder and run again') from error


def serialize(example: Example) -> bytes:
  """The example as a serialized `tf.train.Example`."""
  feature = {'id': _bytes(example.id)}
  feature |= {f'text_{i}': _bytes(text) for i, text in enumerate(example.texts)}
  if example.label is not None:
    feature['label'] = _floats([example.label])
  if example.teacher_logits is not None:
    feature['teacher_logits'] = _floats(example.teacher_logits)
  if example.soft_labels is not None:
    feature['soft_labels'] = _floats(example.soft_labels)
  return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()


def parse(record: bytes) -> Example:
  """The inverse of `serialize` (floats in float32)."""
  feature = tf.train.Example.FromString(record).features.feature
  texts = []
  while f'text_{len(texts)}' in feature:
    texts.append(feature[f'text_{len(texts)}'].bytes_list.value[0].decode())

  def floats(name: str) -> tuple[float, ...] | None:
    return tuple(feature[name].float_list.value) if name in feature else None

  label = floats('label')
  return Example(
    feature['id'].bytes_list.value[0].decode(),
    tuple(texts),
    None if label is None else label[0],
    floats('teacher_logits'),
    floats('soft_labels'),
  )


def _entry(folder: str, name: str, count: int) -> Shard:
  digest, path = hashlib.sha256(), os.path.join(folder, name)
  with tf.io.gfile.GFile(path, 'rb') as file:
    while chunk := file.read(1 << 20):
      digest.update(chunk)
  return Shard(name, count, tf.io.gfile.stat(path).length, digest.hexdigest())


def _bytes(text: str) -> tf.train.Feature:
  return tf.train.Feature(bytes_list=tf.train.BytesList(value=[text.encode()]))


def _floats(values: Iterable[float]) -> tf.train.Feature:
  return tf.train.Feature(float_list=tf.train.FloatList(value=list(values)))
