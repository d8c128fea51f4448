"""A rerank server: documents in, scores out; a document that was seen is not encoded again.

`schema` (requests and answers) → `cache` (vectors of documents by content) → `ranking` (the work,
in steps) → `app` (HTTP, in turns) behind `bounds` (keys, sizes, slow clients); `__main__` is the
command.
"""
