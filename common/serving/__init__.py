"""TensorFlow Serving: its files, warm-up requests, a client, a load test."""
