"""Ground of both students: data, modeling, training, evaluation, distillation, export, serving."""

import os

os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')  # what fails is raised in Python too
