"""What both students stand on: data, modeling, training, evaluation, distillation, serving."""

import os

os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '2')  # warnings about the build are no news
