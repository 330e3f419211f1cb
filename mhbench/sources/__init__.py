"""Corpora: one loader a corpus, each from the files that its authors released to the records of `mhbench.schema`.

This file only gathers the loaders; each is written in its own notebook, `nbs/05*_sources.*.ipynb`.
"""

from mhbench.sources.mhqa import count_mhqa, inspect_mhqa, load_mhqa, shared_mhqa
from mhbench.sources.counselingbench import (
    count_cases,
    inspect_counselingbench,
    load_counselingbench,
    load_counselingbench_errors,
    load_counselingbench_labels,
    load_counselingbench_responses,
)
from mhbench.sources.mentat import Annotations, annotation_arrays, load_annotations, load_mentat, load_mentat_set
from mhbench.sources.anki import load_anki
from mhbench.sources.labelstudio import label_studio_tasks, load_label_studio, write_tasks
from mhbench.sources.demo import load_panel, load_psychiatrybench
from mhbench.sources.corpus import Corpus, draw_items, load_answers, load_corpus
