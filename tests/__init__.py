"""Tests; a regular package, as a dependency (tf2onnx) brings a `tests` of its own."""
