"""Encoders in OpenVINO, of the export's SavedModel."""

import os

from common.scoring import litert_encoder
from common.scoring.exported import VERSION, Export
from common.scoring.openvino_model import Signatures
from common.scoring.runtime import ANY_SLOT
from common.scoring.sorted_encoder import DENSE, SortedEncoder


class OpenVINOEncoder(SortedEncoder):
  """`EncoderRuntime` of an export.

  Args:
    export: The export; an encoder that all its slots have in common is loaded once.
    threads: As of `Signatures`.
  """

  def __init__(self, export: Export, threads: int = 0):
    described = export.description
    slots, longest = described['slots'], described['max_lengths']
    alike = len(set(zip(described['encoded_as'], longest, strict=True))) == 1
    signatures, lengths = {}, {}
    for slot, length in zip(slots, longest, strict=True):
      name, width = ANY_SLOT if alike else slot, described['widths'].get(slot)
      signatures[name] = (slot, DENSE) if width else (f'{slot}_ids', 'ids')
      lengths[name] = [width or length]
    functions = Signatures(
      os.path.join(export.folder, 'encoder', VERSION),
      signatures,
      lengths,
      [name for name, (_, argument) in signatures.items() if argument == DENSE],
      threads,
    )
    super().__init__(functions, os.path.join(export.folder, litert_encoder.FOLDER))
