"""Other encoders, as sections of docs/results.md: language models of one's own texts, and their students."""

from typing import Any, NamedTuple

from benchmarks.committed import command, commands, markdown, read, section, shown
from common.evaluation import speeds
from common.evaluation.cells import chance, change, digits, label, mean, metric, times
from common.pretrain.language_model import LOSS
from experiments.study import tables as study_tables
from experiments.study.speeds import ENCODERS

_RUNS = {  # files of results, by what each run trains
  'MiniLM-L6, trained further': 'pretrain_minilm',
  'its every other layer, 3 of 6, taught by it (DistilBERT)': 'pretrain_distilbert',
  'the same layers, untaught: masked words alone': 'pretrain_untaught',
  '4 layers, 256 wide, own word pieces, from random weights': 'pretrain_scratch',
  'MiniLM-L6, trained further at three times the rate': 'pretrain_minilm_longer',
  'MiniLM-L6, trained further, on a GPU': 'pretrain_minilm_gpu',
  'its every other layer, taught by it, on a GPU': 'pretrain_distilbert_gpu',
  'the same layers, untaught, on a GPU': 'pretrain_untaught_gpu',
}
_OTHER_TEXTS = {  # likewise, of texts other than Home Depot's
  "MedQuAD's questions and answers": 'pretrain_medquad',
  'the same, on from MiniLM-L6': 'pretrain_minilm_medquad',
  "the catalogue's terms and products": 'pretrain_catalogue',
}


class _Teachers(NamedTuple):
  """A table of teachers: its title, whose pairs, how to read it, and a file of others, if {found} and {command} stand there."""

  title: str
  pairs: str
  text: str
  others: str = ''


_TEACHERS = {  # by files of results
  'teachers_minilm_further': _Teachers(
    'Teachers from a language model of their own texts: Home Depot',
    "Home Depot's labelled pairs",
    """The first row's were trained on an
NVIDIA H100 at commit f624847833, the second's on two cores; its start is the fifth row of the first table of language
models. By each seed it comes to less on test than the first row by any, though on valid to as much; what the machines
differ by is in that too. To learn to guess masked words seems to cost a sentence encoder some of what it knows of pairs.
From a start trained more gently, that table's first row, one seed came to {found} (`{command}`).""",
    'teachers_minilm',
  ),
  'teachers_minilm_medquad': _Teachers(
    'Teachers from a language model of their own texts: MedQuAD',
    "MedQuAD's matches and mined negatives",
    """300 steps of 32, a hundred fewer than the
shipped config's; its start is the second row of the table of MedQuAD's language models. By each seed it comes to less than
MiniLM as it is by any, on valid and on test.""",
  ),
  'teachers_3_layers': _Teachers(
    'Teachers of three layers: Home Depot',
    "Home Depot's labelled pairs",
    """Pretrained on the GPU (the last rows of the table before), as were these teachers. With this seed every
other layer is the better start, by half for having been trained on the texts, by half for having been taught. The
intervals are over search terms, and seeds differ by more than their width: of three, MiniLM's first three layers come to
{found} (`{command}`); the last hardly learnt.""",
    'teachers_3_first',
  ),
}
_FURTHER = {  # by files of results: a title, and how to read what was found
  'study_minilm_further': (
    'MiniLM trained further, as a student: Home Depot, 3 seeds',
    """Stage 1 alone, 1,000 steps of 256 pairs on frozen encoders, of a
teacher of 1,600 steps, half of the shipped config's. MiniLM as it is stands above MiniLM trained further (the fifth row of
the first table of language models) by each seed, and p says that terms alone do not explain it. With both stages, and the gentler
checkpoint of that table's first row, one seed each [was not told apart](#other-encoders-home-depot): a second stage is not
measured by seeds.""",
  ),
  'study_minilm_medquad': (
    'MiniLM trained further, as a student: MedQuAD, 3 seeds',
    """Stage 1 alone, 1,000 steps of 256 pairs on frozen encoders, LITE as the
head, with the mean among its tokens; 62,976 pairs, half of the shipped config's. MiniLM trained further is the second row of the
table of MedQuAD's language models. It guesses masked words far better than at its start, and loses ten times as much of the
teacher as MiniLM as it is, which is not told from the teacher: what made MiniLM a sentence encoder, a billion pairs, is lost on the way,
and frozen encoders cannot win it back.""",
  ),
}
_NAMES = {  # by checkpoint
  'minilm': 'MiniLM-L6',
  'runs/minilm_homedepot/checkpoint': "MiniLM-L6, trained further on Home Depot's texts",
  'runs/minilm_medquad/checkpoint': "MiniLM-L6, trained further on MedQuAD's",
  'runs/distilbert_homedepot/checkpoint': 'every other layer, taught (DistilBERT)',
  'runs/untaught_homedepot/checkpoint': 'every other layer, masked words alone',
}
_SIAMESE = ('homedepot_bilstm', 'homedepot_bilstm_catalogue')
_HEADERS = [
  '',
  'Parameters',
  'Word pieces',
  'Minutes',
  'Loss, held out',
  'Accuracy, held out',
  'Loss by step',
]


def sections() -> list[str]:
  """What there is of them, in the order in which it is read."""
  return [_pretraining(), _of_other_texts(), _teachers(), _students(), _further(), _siamese_lstm()]


def _pretraining() -> str:
  """What masked language models come to on Home Depot's texts."""
  runs = {name: made for name, file in _RUNS.items() if (made := read(file))}
  if not runs:
    return ''
  rows = [[name, *_cells(made)] for name, made in runs.items()]
  corpus = next(iter(runs.values()))['corpus']
  distinct = corpus['documents'] - corpus['repeated documents']
  note = f"""Masked language models on {distinct - corpus['held out']:,} different titles and search terms of the
training pairs; {corpus['held out']:,} others are held out. Loss (nats) and accuracy: of their masked words, by the
checkpoint as it is read back. Losses over different word pieces are not comparable. MiniLM comes without a head for
masked words: after 1,200 steps of 32 sequences on two cores it is no better than its students become. The last three
rows have 4,000 and 3,000 steps of 128 on one GPU, beside a dozen other trainings; three layers of MiniLM's six, trained
on untaught, then come to its own loss. To be taught costs some of the loss (a part goes to the teacher's word
probabilities and hidden states), and pays as a start ([teachers of three layers](#teachers-of-three-layers-home-depot))."""
  title = "## Language models of one's own texts: Home Depot"
  return '\n\n'.join([title, markdown(_HEADERS, rows), note, commands(runs.values())])


def _of_other_texts() -> str:
  """The same from random weights on other texts, whose vocabulary is learnt too."""
  runs = {name: made for name, file in _OTHER_TEXTS.items() if (made := read(file))}
  if not runs:
    return ''
  rows = []
  for name, made in runs.items():
    parameters, words, _, *quality = _cells(made)
    pieces = made['corpus']['word pieces']['train']
    rows.append([name, f'{pieces:,}', parameters, words, *quality])
  note = """In sequences of 128 word pieces: 4 layers, 256 wide, from random weights, with a vocabulary learnt from the texts; the
second row MiniLM-L6 with its own, whose masked-word head alone begins at random. Loss (nats) and accuracy: of masked words of
texts held out; losses over different word pieces are not comparable. From random weights MedQuAD's is still falling after
1,500 steps of 32 sequences, less than two passes over its text; MiniLM comes much further in 600. The catalogue's
texts are made of few words, and soon known."""
  title = "## Language models of one's own texts: MedQuAD, the catalogue"
  headers = ['', 'Text, word pieces', *(name for name in _HEADERS[1:] if name != 'Minutes')]
  return '\n\n'.join([title, markdown(headers, rows), note, commands(runs.values())])


def _students() -> str:
  """Students of one teacher with other encoders."""
  made = read('study_encoders')
  if not made:
    return ''
  table = study_tables.table(made, 'students')
  rows = {row['name']: row for row in made['comparisons']['students']['rows']}
  own, lstm = (made['encoding'][rows[name]['students'][0]] for name in ("as the run's", 'bilstm'))
  plain, int8 = (f'{lstm[runtime] / own[runtime]:.1f}' for runtime in ENCODERS)
  note = f"""{table.note} One seed, and stages of 1,500 and 300 steps, shorter than the run's own, on the set in
blocks of 512 pairs; the BiLSTM has 1,500 of stage 2 alone, at a higher rate, as of its weights the word embeddings
alone are pretrained. To have been pretrained on the texts is worth much to an encoder of random weights and to three
of MiniLM's layers (every other one, trained, against the first as they are), and nothing that can be seen to MiniLM
itself (the run's own row, whose p is against that one, next below). On texts as short as these the BiLSTM comes near
it, and encodes {plain} times as many a second, in int8 {int8} times."""
  return shown('Other encoders: Home Depot', made, table, note)


def _further() -> str:
  """Students of MiniLM and of MiniLM trained further, by seeds."""
  parts = []
  for name, (title, text) in _FURTHER.items():
    if made := read(name):
      table = study_tables.table(made, 'students')
      parts.append(shown(title, made, table, f'{table.note} {text}'))
  return '\n\n'.join(parts)


def _siamese_lstm() -> str:
  """The student of Tang et al. (2019), DSE on a BiLSTM, on sets of pairs."""
  runs = [made for name in _SIAMESE if (made := read(name))]
  if len(runs) < len(_SIAMESE):
    return ''
  primary, teacher = runs[0]['primary_metric'], runs[0]['models'][0]
  of = label(primary)
  headers = ['', f'{of} (valid)', 'Delta (valid)', f'{of} (test)', 'Delta (test)', 'Texts/s']
  headers += ['in int8', 'Pairs/s', *speeds.AGAINST, 'Pairs/s in int8', *speeds.AGAINST]
  rate = digits(speeds.by_model(runs[0])['teacher']['pairs_per_second'])
  quality = [metric(teacher['valid'][primary]), '', metric(teacher['test'][primary])]
  rows = [['teacher', *quality, '', '', '', rate, '1×', '', '', '', '']]
  rows += [_siamese_row(made, primary) for made in runs]
  note = f"""One bidirectional LSTM on MiniLM's word pieces and their embeddings, a text the mean of its outputs,
f(u, v) as DSE's, squared error on the teacher's logits; one seed. The second row's pairs are made of the valid and test
sets' titles too, without their labels or terms (`--unlabelled_texts`), as all products of a shop are known; it differs
from the first in steps and pairs as well, and what each of the three gives is not measured. The second is
`configs/homedepot_bilstm.flags`. {speeds.COMPARED}"""
  title = '## The siamese BiLSTM of Tang et al. (2019): Home Depot'
  return '\n\n'.join([title, markdown(headers, rows), note, commands(runs)])


def _siamese_row(made: dict[str, Any], primary: str) -> list[str]:
  flags, student = made['flags'], made['models'][-1]
  name = f'{flags["distillation_pairs"]:,} pairs, {flags["steps"]:,} steps of {flags["batch_size"]}'
  if flags.get('unlabelled_texts'):
    name += ", of the other sets' titles too"
  quality = [[metric(student[of][primary]), change(student, of)] for of in ('valid', 'test')]
  rows = {row['name']: row for row in made['encoders']}
  encoded = [digits(rows[runtime]['texts_per_second']) for runtime in ENCODERS]
  speed = []
  for runtime in ENCODERS:
    head = next(row for row in speeds.heads(made) if row['name'].endswith(f' {runtime}'))
    speed += [digits(head['pairs_per_second']), *map(times, speeds.multiples(made, head))]
  return [name, *quality[0], *quality[1], *encoded, *speed]


def _teachers() -> str:
  """Teachers that start from these language models."""
  return '\n\n'.join(
    _of_teachers(made, of) for name, of in _TEACHERS.items() if (made := read(name))
  )


def _of_teachers(made: dict[str, Any], of: _Teachers) -> str:
  primary, seeds = label(made['metric']), len(made['rows'][0]['test'])
  headers = ['Starts from', f'{primary} (valid)', f'{primary} (test)', 'Delta (test)', 'p']
  both = len(made['rows']) > 2
  headers += ['To the row before', 'p of it'] if both else []
  rows = [
    [
      _NAMES[row['pretrained']],
      mean(row['valid']),
      mean(row['test']),
      *(_change(row) if number else ['', '']),
      *(_change(row['before']) if number > 1 else ['', ''] if both else []),
    ]
    for number, row in enumerate(made['rows'])
  ]
  seeds_of = f'mean ± standard deviation of {seeds} seeds' if seeds > 1 else 'one seed'
  text = of.text
  if others := read(of.others):
    found = ', '.join(metric(value) for value in others['rows'][-1]['test'])
    text = text.format(found=found, command=command(others))
  note = f"""Fine-tuned alike on {of.pairs}, {seeds_of}. Delta and p (paired bootstrap) are against
the first row. {text}"""
  return section(of.title, made, markdown(headers, rows), note)


def _change(row: dict[str, Any]) -> list[str]:
  return [change(row, 'test'), chance(row['p_value']['test'])]


def _cells(made: dict[str, Any]) -> list[str]:
  """A run's row, without its name."""
  (phase,), valid = made['training'], made['models'][-1]['valid']
  return [
    f'{made["export"]["parameters"]:,}',
    f'{made["corpus"]["vocabulary"]:,}',
    digits(phase['seconds'] / 60),
    metric(valid[LOSS]),
    metric(valid['mlm_accuracy']),
    ', '.join(f'{at["step"]:,}: {at["valid"][LOSS]:.2f}' for at in phase['history']),
  ]
