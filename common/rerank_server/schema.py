"""Requests and answers, as clients of rerank servers send and read them; FastAPI checks them."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, model_validator

MOST_DOCUMENTS = 10_000  # of a request
_Query = Annotated[str, Field(max_length=100_000)]
_Id = Annotated[str, Field(max_length=1000)]


class Document(BaseModel):
  """A document as an object; other fields are ignored."""

  text: str


class FirstStage(BaseModel):
  """A first stage's own scores: documents are ranked by their sum with the model's logits.

  Attributes:
    name: Name of the first stage; the export has a weight for it, as `/v1/models` says.
    scores: A score for each document, in their order.
  """

  name: _Id
  scores: list[FiniteFloat] = Field(max_length=MOST_DOCUMENTS)


class RerankRequest(BaseModel):
  """A query, and the documents to rank for it: texts, or ids of the store."""

  model_config = ConfigDict(
    json_schema_extra={
      'examples': [
        {
          'query': 'what causes gout',
          'documents': ['Uric acid causes gout.', 'Take the stairs.'],
          'return_documents': True,
        }
      ]
    }
  )
  query: _Query
  documents: list[str | Document] | None = Field(None, min_length=1, max_length=MOST_DOCUMENTS)
  document_ids: list[_Id] | None = Field(None, min_length=1, max_length=MOST_DOCUMENTS)
  top_n: int | None = Field(None, ge=1, description='results at the most; all, where not given')
  first_stage: FirstStage | None = None
  return_documents: bool = False
  model: str | None = Field(None, description='any name: the server has one model')

  @model_validator(mode='after')
  def _fits(self) -> 'RerankRequest':
    if (self.documents is None) == (self.document_ids is None):
      raise ValueError('documents, or document_ids of the store: one of them is needed')
    needed = len(self.documents or self.document_ids or ())
    if self.first_stage and (given := len(self.first_stage.scores)) != needed:
      raise ValueError(f'first_stage.scores: {given} scores for {needed} documents')
    return self


class SearchRequest(BaseModel):
  """A query for the store."""

  model_config = ConfigDict(json_schema_extra={'examples': [{'query': 'what causes gout'}]})
  query: _Query
  top_n: int = Field(10, ge=1, le=MOST_DOCUMENTS)
  shortlist: int = Field(1000, ge=1, le=MOST_DOCUMENTS, description='texts that the head ranks')
  return_documents: bool = False
  model: str | None = None


class Result(BaseModel):
  """A document of an answer, best first.

  Attributes:
    index: Its place among the given ones, from 0.
    relevance_score: Its score.
    document: Its text or id, where asked for.
  """

  index: int
  relevance_score: float
  document: dict[str, Any] | None = None


class Usage(BaseModel):
  """Documents that were ranked, and those of them that were encoded for it."""

  documents: int
  encoded_documents: int


class RerankAnswer(BaseModel):
  """The documents, best first."""

  id: str
  model: str
  results: list[Result]
  usage: Usage


class Found(BaseModel):
  """A text of the store.

  Attributes:
    first_stage_rank: Its place in the first stage's order, from 1.
  """

  id: str
  relevance_score: float
  first_stage_rank: int
  document: dict[str, Any] | None = None


class SearchAnswer(BaseModel):
  """The best texts of the store.

  Attributes:
    results: By the head, best first.
    first_stage: As many, in the first stage's order.
    ms: Milliseconds of 'encode' (the query), 'first_stage' and 'head'.
  """

  id: str
  model: str
  results: list[Found]
  first_stage: list[Found]
  ms: dict[str, float]
  usage: Usage


class Model(BaseModel):
  """The served model.

  Attributes:
    stored: Texts in the store.
    search: Whether `/v1/search` answers.
    texts: Whether the store's texts are known.
    first_stage: Name of the first stage whose scores the export has a weight for; empty: none.
    meaning: A sentence on a score of 0.70.
  """

  id: str
  object: str = 'model'
  owned_by: str = 'dipair'
  kind: str
  task: str
  vector_shape: list[int]
  stored: int
  search: bool
  texts: bool
  first_stage: str
  meaning: str


class Models(BaseModel):
  """The served models: one."""

  object: str = 'list'
  data: list[Model]
