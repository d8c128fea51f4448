"""What holds for all tests."""

import os

# oneDNN (TensorFlow 2.20) has been seen to corrupt the heap while it makes its kernels for toy
# shapes, once in a few hundred processes. Before TensorFlow is imported; children inherit it.
os.environ.setdefault('TF_ENABLE_ONEDNN_OPTS', '0')
