"""Ground of both students: data, modeling, training, evaluation, distillation, export, serving."""

import os

__version__ = '0.1.0'

os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')  # what fails is raised in Python too
