"""Recall: how text becomes terms and vectors, and how what was said is ranked for a query."""

import os

# Before numpy is imported: its products here are small, and threads of its own would spin beside those of the runs.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
