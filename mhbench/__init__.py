"""One reproducible, notebook-driven evaluation of language models for mental-health decisions."""

__version__ = "0.1.0"
