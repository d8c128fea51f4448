"""Installs the packages `common`, `dipair` and `dse`; constraints.txt holds exact versions."""

import re
from pathlib import Path

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent
README = ROOT / 'README.md'
VERSION = re.search("__version__ = '(.+)'", (ROOT / 'common/__init__.py').read_text('utf-8'))[1]

STORE = ['faiss-cpu>=1.8', 'pyarrow>=15']  # vector stores and their nearest neighbours
TRAIN = [
  *STORE,
  # tf-models 2.20 fixes the TensorFlow release; the four move together.
  'tensorflow~=2.20.0',
  'tensorflow-text~=2.20.0',
  'tf-models-official~=2.20.0',
  'tf_keras~=2.20.0',
  'jinja2>=3.1',
  'matplotlib>=3.8',
  'psutil>=5.9',
  'safetensors>=0.4',
  'scikit-learn>=1.8',
  'scipy>=1.12',
  'setuptools<81',  # tensorflow_hub imports pkg_resources, which later releases lack
]
BEAM = ['apache-beam>=2.77,<3']
ONNX = ['onnxruntime>=1.20', 'tf2onnx>=1.17']  # ONNX files for use elsewhere, checked and made
HUB = ['huggingface_hub>=0.30']  # pretrained weights and exports by hub id
SERVE = ['fastapi>=0.115', 'prometheus-client>=0.20', 'uvicorn>=0.30']  # the rerank server
SERVING = [
  'tensorflow-serving-api~=2.20.0',  # protocol buffers of TensorFlow Serving
  'werkzeug>=3',  # HTTP of the local server
]
DOCS = ['mkdocs>=1.6,<2', 'mkdocs-material>=9.7', 'mkdocstrings-python>=2']  # the site
TEST = [
  'check-jsonschema>=0.34',  # the schema of compose files
  'ir_measures>=0.3.7',  # trec_eval, the judge of ranking metrics
  'kubernetes-validate>=1.31',  # the schemas of manifests
  *('mypy>=1.18', 'playwright>=1.50', 'pytest>=8', 'pytest-xdist>=3.8', 'pyyaml>=6'),
  'qdrant-client>=1.20',  # an engine in memory, for an example
  'ruff>=0.15',
]


class BuildPy(build_py):
  """Puts configs/ and pretrained/ into the wheel, below common/."""

  def run(self) -> None:
    super().run()
    if not self.editable_mode:
      for path in sorted([*ROOT.glob('configs/*.flags'), *ROOT.glob('pretrained/*.tar.gz')]):
        target = Path(self.build_lib, 'common', path.relative_to(ROOT))
        self.mkpath(str(target.parent))
        self.copy_file(str(path), str(target))


setup(
  name='dipair',
  version=VERSION,
  description='Fast text-pair scoring: cross-attention BERT distilled into DiPair and DSE students',
  long_description=README.read_text(encoding='utf-8') if README.exists() else '',
  long_description_content_type='text/markdown',
  author='The DiPair Authors',
  license='Apache-2.0',
  classifiers=[
    'Programming Language :: Python :: 3.11',
    'Programming Language :: Python :: 3.12',
    'Programming Language :: Python :: 3.13',
    'Topic :: Scientific/Engineering :: Artificial Intelligence',
  ],
  packages=find_packages(include=['common', 'common.*', 'dipair', 'dipair.*', 'dse', 'dse.*']),
  package_data={
    '': ['py.typed'],
    'common.data': ['catalog.json'],
    'common.evaluation': ['*.html', '*.md'],
    'common.rerank_server': ['page.*'],
    'common.serving': ['readme.md'],
  },
  cmdclass={'build_py': BuildPy},
  entry_points={'console_scripts': ['dipair = common.console:dipair', 'dse = common.console:dse']},
  python_requires='>=3.11',
  install_requires=[  # what scores
    'absl-py>=1.4',
    'ai-edge-litert>=2',
    'numpy>=2,<3',
    'tokenizers>=0.20',
    'tqdm>=4.66',
  ],
  extras_require={
    'train': TRAIN,
    'store': STORE,
    'beam': [*TRAIN, *BEAM],
    'hub': HUB,
    'onnx': ONNX,
    'serve': SERVE,
    'serving': [*TRAIN, *SERVING],
    'docs': DOCS,
    'test': [*TRAIN, *BEAM, *HUB, *ONNX, *SERVE, *SERVING, *DOCS, *TEST],
  },
)
