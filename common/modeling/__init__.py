"""Encoders, pretrained weights, the teacher's architecture and losses."""
