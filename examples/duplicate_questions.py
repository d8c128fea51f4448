"""Duplicates in a list of questions: a DSE student learns from pairs, then scores all with all.

  python examples/duplicate_questions.py                               # a useful student
  python examples/duplicate_questions.py --toy --run_dir=runs/toy_dse  # quick, useless scores

The questions are made up here, so that it runs as it is; put your own pairs in their place.
"""

import argparse
import itertools

import dse

PHRASINGS = (  # of one question each
  ('How do I reset my {} password?', 'I forgot my {} password, what can I do?'),
  ('How do I delete my {} account?', 'Is there a way to close a {} account for good?'),
  ('Why is {} so slow today?', 'What makes {} take so long to load?'),
  ('Is {} free to use?', 'What does {} cost a month?'),
  ('Can I use {} offline?', 'Does {} work without an internet connection?'),
)
SERVICES = ('Gmail', 'Netflix', 'Dropbox', 'Zoom', 'Reddit', 'PayPal', 'Uber', 'Airbnb', 'Twitter')
SERVICES += ('Amazon', 'eBay', 'Yahoo', 'LinkedIn', 'Pinterest', 'Telegram', 'Notion', 'GitHub')
SERVICES += ('Evernote', 'Hulu', 'Steam', 'Shazam', 'Duolingo', 'Strava', 'Evite', 'Etsy', 'Quora')
REAL = {'teacher_steps': 150, 'teacher_warmup_steps': 15, 'steps': 150, 'warmup_steps': 15}
REAL |= {'teacher_learning_rate': 1e-4, 'learning_rate': 1e-4}
TOY = {'teacher_steps': 4, 'teacher_warmup_steps': 1, 'steps': 4, 'warmup_steps': 1}
TOY |= {'pretrained': 'random-tiny', 'teacher_pretrained': 'random-tiny'}
TOY |= {'teacher_similarity': 'random-tiny', 'encoder_layers': 1, 'pooled_layers': 1}
TOY |= {'max_lengths': (16, 16), 'teacher_max_length': 32}


def questions(*services: str) -> list[tuple[int, str, str]]:
  """(number of the question, service that it is about, text)."""
  return [(n, s, t.format(s)) for n, texts in enumerate(PHRASINGS) for t in texts for s in services]


def pairs(*services: str) -> list[dict]:
  """Pairs of one question and service, labelled 1, and twice as many that share one of the two."""
  both = list(itertools.combinations(questions(*services), 2))
  same = [(a, b) for a, b in both if a[:2] == b[:2]]
  near = [(a, b) for a, b in both if (a[0] == b[0]) != (a[1] == b[1])]
  kept = [*same, *near[:: len(near) // (2 * len(same))]]
  return [{'one': a[2], 'other': b[2], 'duplicate': int(a[:2] == b[:2])} for a, b in kept]


def main(run_dir: str, toy: bool) -> None:
  """Distils, then prints each question of a list with its likeliest duplicate."""
  result = dse.distill(
    train=pairs(*SERVICES),  # the teacher's, too
    valid=pairs('Spotify', 'Slack'),
    test=pairs('Trello', 'Skype'),
    run_dir=run_dir,
    task='binary',
    text_columns=('one', 'other'),
    label_column='duplicate',
    **(TOY if toy else REAL),
  )
  embedder = result.scorer()
  texts = [text for _, _, text in questions('Trello', 'Skype')]
  vectors = embedder.encode(texts)  # one vector a text
  found, scores = embedder.score_all_pairs(vectors, top_k=2)  # two: a question may find itself
  for row, text in enumerate(texts):
    place = int(found[row, 0] == row)
    print(f'{scores[row, place]:.3f}  {text}  {texts[found[row, place]]}')


if __name__ == '__main__':
  parser = argparse.ArgumentParser()
  parser.add_argument('--run_dir', default='runs/duplicate_questions')
  parser.add_argument('--toy', action='store_true')
  main(**vars(parser.parse_args()))
