"""MENTAT: the release as its authors publish it, and every way in which a copy of it can be broken."""

import csv
import io
import itertools
import json
import os
import pickle
import re
import subprocess
import sys
import zipfile
from collections import Counter
from contextlib import nullcontext

import numpy as np
import pyAesCrypt
import pytest

from mhbench.records.schema import Item, Rating, read_records, write_records
from mhbench.stats.agreement import krippendorff_alpha
from mhbench.studies.mentat.annotations import ANNOTATION_COLUMNS, annotation_arrays, load_annotations
from mhbench.studies.mentat.load import _reply_fields
from mhbench.studies.mentat.questions import MENTAT_COLUMNS, decrypt, load_mentat, load_mentat_set, read_archive


@pytest.fixture(scope="module")
def folder(datasets):
    if not (datasets / "mentat").is_dir():
        pytest.skip("no MENTAT release among the corpora")
    return datasets / "mentat"


@pytest.fixture(scope="module")
def password(folder):
    "As the authors' README tells researchers: the lead author's last name in lower case. The licence names the author."
    named = re.search(r"Copyright \(c\) \d+ .*?(\w+)\s*$", (folder / "LICENSE").read_text(), re.MULTILINE)
    return os.environ.get("MHBENCH_MENTAT_PASSWORD") or named[1].lower()


@pytest.fixture(scope="module")
def items(folder, password):
    return load_mentat(folder, password)


# ---------------------------------------------------------------- the real release


def test_real_questions(items):
    assert len(items) == 204
    assert Counter(i.category for i in items) == {
        "diagnosis": 50,
        "monitoring": 49,
        "treatment": 47,
        "documentation": 30,
        "triage": 28,
    }
    assert all(i.protected and len(i.options) == 5 and len(i.key) == 1 and i.base_id is None for i in items)
    one_hot = [max(i.soft_labels) == 1 for i in items]
    assert sum(one_hot) == 146 and {i.category for i, o in zip(items, one_hot) if not o} == {"triage", "documentation"}
    assert Counter(len([k for k in i.variant if k.startswith("text_")]) for i in items) == {3: 175, 2: 18, 1: 11}


@pytest.mark.parametrize(
    "name, n", [("D0_release", 184), ("D_G_release", 552), ("D_A_release", 920), ("D_N_release", 1104)]
)
def test_real_sets_fit_the_questions(folder, password, items, name, n):
    prompts, base = load_mentat_set(folder, password, name), {i.item_id: i for i in items}
    assert len(prompts) == n == len({p.item_id for p in prompts}) and all(
        p.protected and p.split == "test" for p in prompts
    )
    assert {p.base_id for p in prompts} - set(base) == {"mentat-91"}  # in the sets, not among the questions
    for p in prompts:
        if p.base_id not in base:
            continue
        b, order = base[p.base_id], p.order
        assert p.options == [b.options[o] for o in order]
        if p.category not in ("triage", "documentation"):
            assert p.soft_labels == [b.soft_labels[o] for o in order]
        assert p.question.split()[-6:] in [
            t.split()[-6:] for k, t in b.variant.items() if k == f"text_{p.variant['gender']}"
        ]


def test_real_annotations_are_all_accounted_for(folder):
    got = load_annotations(folder / "annotated_data")
    assert (got.n_annotations, got.n_rows, len(got.ratings)) == (600, 750, 3000)
    assert got.left_out == {
        "welcome page": 30,
        "page that asks who is rating": 30,
        "page of instructions": 60,
        "closing page": 30,
    }
    assert len(got.left_out_rows) == 150 and got.n_annotations + sum(got.left_out.values()) == got.n_rows
    assert (
        len({r.item_id for r in got.ratings}) == 61
        and len({r.rater for r in got.ratings}) == 8
        and len({r.session for r in got.ratings}) == 30
    )
    assert Counter(r.variant["gender"] for r in got.ratings if r.target == "A") == {
        "male": 308,
        "female": 150,
        "nonbinary": 142,
    }
    assert any(r.comment for r in got.ratings)


def test_real_mapping_of_sliders_to_options(folder):
    "The figures that the notebook gives for the two readings of question_order, each computed here."
    figures = {}
    for mapping in ("release", "shown", "as they stand"):
        ratings = load_annotations(
            folder / "annotated_data", mapping="release" if mapping == "as they stand" else mapping
        ).ratings
        a = annotation_arrays(ratings)
        scores = a.scores.copy()
        if mapping == "as they stand":
            for line, r in zip(range(len(scores)), ratings[::5]):
                scores[line, r.order] = a.scores[line]
        by = {q: scores[a.questions == q] for q in np.unique(a.questions)}
        figures[mapping] = (
            np.mean([krippendorff_alpha(x, "interval") for x in by.values()]),
            np.mean([np.bincount(x.argmax(1)).max() / len(x) for x in by.values()]),
        )
    assert figures["release"] == pytest.approx((0.079, 0.432), abs=0.001)
    assert figures["shown"] == pytest.approx((0.688, 0.850), abs=0.001)
    assert figures["as they stand"] == pytest.approx((0.011, 0.373), abs=0.001)


def test_real_labels_agree_with_the_scores_that_made_them(folder, items):
    "Labels of triage and documentation against mean scores: what the notebook says about 79% and 52%."
    labels = {i.item_id: np.argmax(i.soft_labels) for i in items if i.category in ("triage", "documentation")}
    for mapping, share in (("release", 46 / 58), ("shown", 30 / 58)):
        a = annotation_arrays(load_annotations(folder / "annotated_data", mapping=mapping).ratings)
        same = [a.scores[a.questions == q].mean(0).argmax() == k for q, k in labels.items()]
        assert len(same) == 58 and np.mean(same) == pytest.approx(share)


def test_real_release_refuses_what_is_wrong(folder, password, tmp_path):
    with pytest.raises(ValueError, match="password must be that of the release"):
        load_mentat(folder, password + "x")
    with pytest.raises(ValueError, match="password must be given"):
        load_mentat(folder)
    whole = (folder / "final_dataset_raw_questions.csv.aes").read_bytes()
    for size in (len(whole) - 1, len(whole) // 2, 200, 90, 4):
        (tmp_path / "questions.csv.aes").write_bytes(whole[:size])
        with pytest.raises(ValueError, match="cut short or changed"):
            load_mentat(tmp_path, password)
    changed = bytearray(whole)
    changed[len(whole) // 2] ^= 1
    (tmp_path / "questions.csv.aes").write_bytes(changed)
    with pytest.raises(ValueError, match="cut short or changed"):
        load_mentat(tmp_path, password)


def test_real_errors_show_no_text(folder, password, items, tmp_path):
    "An error about a protected corpus names the place; at most one short field of the row, never a question."
    plain = decrypt((folder / "final_dataset_raw_questions.csv.aes").read_bytes(), password)
    (tmp_path / "questions.csv").write_bytes(plain.replace(b"creator_truth", b"truth", 1))
    with pytest.raises(ValueError) as e:
        load_mentat(tmp_path)
    assert "missing ['creator_truth'], unknown ['truth']" in str(e.value) and not any(
        i.question[:40] in str(e.value) for i in items
    )
    (tmp_path / "questions.csv").write_bytes(plain[: len(plain) // 2])
    with pytest.raises(ValueError, match="questions.csv:") as e:
        load_mentat(tmp_path)
    assert not any(i.question[:40] in str(e.value) for i in items)


def test_reading_writes_no_file(folder, password, tmp_path):
    code = (
        "import sys, tempfile, pathlib\n"
        "def watch(event, args):\n"
        "    if event == 'open' and args[1] and set(str(args[1])) & set('wax+') : print('WROTE', args[0])\n"
        "import mhbench.studies.mentat.questions as m, mhbench.steps.variants, pyAesCrypt, pyarrow.ipc\n"
        "sys.addaudithook(watch)\n"
        "m.load_mentat(sys.argv[1], sys.argv[2]); m.load_mentat_set(sys.argv[1], sys.argv[2], 'D0_release')\n"
    )
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "TMPDIR": str(tmp_path)}
    out = subprocess.run(
        [sys.executable, "-c", code, str(folder), password], capture_output=True, text=True, env=env, check=True
    ).stdout
    assert out == "" and not list(tmp_path.iterdir())


# ---------------------------------------------------------------- a release made here


def row(q_id=1, **changes):
    r = (
        dict.fromkeys(MENTAT_COLUMNS, "")
        | {f"answer_{c}": f"option {c}" for c in "abcde"}
        | {f"text_{g}": f"A <AGE> <NAT> {g} patient, seen twice." for g in ("male", "female", "nonbinary")}
    )
    return (
        r
        | {
            "q_id": str(q_id),
            "category": "triage",
            "creator_truth": "[0.1, 0.2, 0.3, 0.15, 0.25]",
            "possible_modifiers": "['age', 'nat']",
        }
        | changes
    )


def sheet(rows, columns=MENTAT_COLUMNS):
    out = io.StringIO(newline="")
    w = csv.DictWriter(out, columns)
    w.writeheader()
    w.writerows(rows)
    return out.getvalue().encode()


def sealed(data, password="sesame"):
    out = io.BytesIO()
    pyAesCrypt.encryptStream(io.BytesIO(data), out, password)
    return out.getvalue()


@pytest.mark.parametrize("size", [0, 1, 15, 16, 17, 1000, 64 * 1024 - 1, 64 * 1024, 64 * 1024 + 1, 300_000])
def test_decrypt_round_trip(size):
    data = os.urandom(size)
    assert decrypt(sealed(data), "sesame") == data


@pytest.mark.parametrize("size", [0, 17, 70_000])
def test_every_cut_is_noticed(size):
    whole = sealed(os.urandom(size))
    cuts = range(4, len(whole)) if size < 100 else np.random.default_rng(1).integers(4, len(whole), 40)
    for cut in cuts:
        with pytest.raises(ValueError, match="cut short or changed|does not open it"):
            decrypt(whole[:cut], "sesame")


def test_encrypted_and_plain_are_the_same(tmp_path):
    data = sheet([row(1), row(2, text_male='He said: "no"\r\nand left <AGE> <NAT>')])
    for name, content in (("a/questions.csv", data), ("b/questions.csv.aes", sealed(data))):
        (tmp_path / name[0]).mkdir()
        (tmp_path / name).write_bytes(content)
    plain, encrypted = load_mentat(tmp_path / "a"), load_mentat(tmp_path / "b", "sesame")
    assert [i.model_dump(exclude={"source"}) for i in plain] == [i.model_dump(exclude={"source"}) for i in encrypted]
    assert plain[1].variant["text_male"].startswith('He said: "no"') and plain[1].source == "questions.csv:3"
    write_records(plain, tmp_path / "items.parquet")
    assert read_records(tmp_path / "items.parquet", Item) == plain


def test_only_a_canary_takes_protection_away(tmp_path):
    (tmp_path / "questions.csv").write_bytes(
        sheet([row(1, canary="canary 7c"), row(2, canary="")], (*MENTAT_COLUMNS, "canary"))
    )
    assert [(i.protected, i.canary) for i in load_mentat(tmp_path)] == [(False, "canary 7c"), (True, None)]


@pytest.mark.parametrize("column", MENTAT_COLUMNS)
def test_a_missing_column_is_named(tmp_path, column):
    (tmp_path / "questions.csv").write_bytes(
        sheet([{k: v for k, v in row().items() if k != column}], [c for c in MENTAT_COLUMNS if c != column])
    )
    with pytest.raises(ValueError, match=re.escape(f"missing ['{column}']")):
        load_mentat(tmp_path)


@pytest.mark.parametrize(
    "changes, rule",
    [
        ({"q_id": "x1"}, "q_id must be a whole number"),
        ({"category": "therapy"}, "category must be one of"),
        ({"answer_e": ""}, "answer_e must not be empty"),
        ({"creator_truth": "[0.5, 0.5]"}, "five probabilities"),
        ({"creator_truth": "B"}, "list of five numbers"),
        ({"creator_truth": "[2, -1, 0, 0, 0]"}, "five probabilities"),
        ({"creator_truth": "[NaN, 1, 0, 0, 0]"}, "five probabilities"),
        ({"creator_truth": '{"a": 1}'}, "list of five numbers"),
        ({"text_male": "", "text_female": "", "text_nonbinary": ""}, "text_male must not be empty"),
        ({"text_female": "no placeholder"}, "name the placeholders of text_female"),
        ({"possible_modifiers": "__import__('os').system('true')"}, "possible_modifiers must be a list"),
    ],
)
def test_a_broken_row_is_named(tmp_path, changes, rule):
    (tmp_path / "questions.csv").write_bytes(sheet([row(1), row() | {"q_id": "7"} | changes]))
    with pytest.raises(ValueError, match=rule) as e:
        load_mentat(tmp_path)
    assert "questions.csv:3" in str(e.value)


def test_two_files_that_fit_are_refused(tmp_path):
    for name in ("questions.csv", "old_questions.csv"):
        (tmp_path / name).write_bytes(sheet([row()]))
    with pytest.raises(ValueError, match="must hold one .csv"):
        load_mentat(tmp_path)


# ---------------------------------------------------------------- archives


class Boom:
    def __reduce__(self):
        return (os.system, ("touch pickle-was-loaded",))


def zipped(**members):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as z:
        for name, data in members.items():
            z.writestr(name, data)
    return out.getvalue()


def test_a_pickle_is_never_loaded(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    bomb = pickle.dumps(Boom())
    archive = zipped(**{"eval_data/mentat_data_base/data.arrow": bomb, "eval_data/mentat_data_base/data.pkl": bomb})
    (tmp_path / "eval_data.zip").write_bytes(archive)
    with pytest.raises(ValueError, match="must be an Arrow stream"):
        load_mentat_set(tmp_path, None, "D0_release")
    assert not (tmp_path / "pickle-was-loaded").exists() and set(read_archive(archive, (".arrow",))) == {
        "eval_data/mentat_data_base/data.arrow"
    }


@pytest.mark.parametrize(
    "name",
    ["../x.arrow", "a/../../x.arrow", "/x.arrow", "\\x.arrow", "..\\x.arrow", "C:\\x.arrow", "c:x.arrow", "a/.."],
)
def test_an_archive_that_leaves_its_folder_is_refused(name, tmp_path):
    (tmp_path / "eval_data.zip").write_bytes(zipped(**{"eval_data/mentat_data_base/data.arrow": b"", name: b"x"}))
    with pytest.raises(ValueError, match="must lie inside the archive"):
        load_mentat_set(tmp_path, None, "D0_release")
    assert [p.name for p in tmp_path.iterdir()] == ["eval_data.zip"]


def test_a_bomb_and_a_damaged_archive_are_refused():
    with pytest.raises(ValueError, match="unpack to at most"):
        read_archive(zipped(a=bytes(10_000_000)), (".arrow",), max_bytes=1_000_000)
    for n_bytes, is_refused in ((512 * 1024**2, False), (512 * 1024**2 + 1, True)):  # as its directory states
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            archive.writestr("b.txt", "x")
            archive.filelist[0].file_size = n_bytes
        with pytest.raises(ValueError, match="unpack to at most 536870912 bytes") if is_refused else nullcontext():
            assert read_archive(buffer.getvalue(), (".arrow",)) == {}
    whole = bytearray(zipped(**{"a.arrow": os.urandom(5000)}))
    whole[2000] ^= 255
    with pytest.raises(ValueError, match="members must be whole"):
        read_archive(bytes(whole), (".arrow",))
    with pytest.raises(ValueError, match="must be a whole zip archive"):
        read_archive(bytes(whole)[:3000], (".arrow",))


# ---------------------------------------------------------------- sessions


def write_session(path, *annotations, rater="x0", closing=True):
    empty = dict.fromkeys(ANNOTATION_COLUMNS, "") | {"trial_type": "html-keyboard-response"}
    body = [
        empty
        | {
            "trial_type": "survey-slider",
            "response": json.dumps({f"Q{i}": s for i, s in enumerate(sliders)} | {"comment": ""}),
            "question_order": json.dumps(order),
            "q_no": str(q),
            "q_key": "q_they",
        }
        for q, sliders, order in annotations
    ]
    with path.open("w", newline="") as f:
        w = csv.DictWriter(f, ANNOTATION_COLUMNS)
        w.writeheader()
        w.writerows(
            [empty, empty | {"rater_id": rater, "participant_name": rater}, empty, empty, *body] + [empty] * closing
        )


def test_both_mappings_over_all_orders(tmp_path):
    "Against the definition, for each of the 120 orders; they agree exactly where the order is its own inverse."
    orders, sliders = list(itertools.permutations(range(5))), [11, 22, 33, 44, 55]
    write_session(tmp_path / "s.csv", *[(n, sliders, list(o)) for n, o in enumerate(orders)])
    release, shown = (
        annotation_arrays(load_annotations(tmp_path, mapping=m).ratings).scores for m in ("release", "shown")
    )
    for o, r, s in zip(orders, release, shown):
        assert list(r) == [sliders[o[k]] for k in range(5)]
        assert [s[o[i]] for i in range(5)] == sliders
        assert (list(r) == list(s)) == all(o[o[k]] == k for k in range(5))
    assert sum((r == s).all() for r, s in zip(release, shown)) == 26  # involutions of five things


def test_a_session_that_stopped_early_counts_its_rows(tmp_path):
    write_session(tmp_path / "a.csv", (1, [1, 2, 3, 4, 5], [0, 1, 2, 3, 4]), closing=False)
    got = load_annotations(tmp_path)
    assert (got.n_rows, got.n_annotations, sum(got.left_out.values())) == (5, 1, 4)


def test_ratings_survive_parquet(tmp_path):
    write_session(tmp_path / "a.csv", (1, [1, 2, 3, 4, 5.5], [4, 3, 2, 1, 0]), rater="ann")
    got = load_annotations(tmp_path)
    write_records(got.ratings, tmp_path / "r.parquet")
    back = read_records(tmp_path / "r.parquet", Rating)
    assert back == got.ratings and (annotation_arrays(back).scores == annotation_arrays(got.ratings).scores).all()


def test_no_sessions(tmp_path):
    with pytest.raises(FileNotFoundError, match="got none"):
        load_annotations(tmp_path)


def test_without_the_extra_the_error_names_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyAesCrypt", None)
    with pytest.raises(ImportError, match=r"pip install 'mhbench\[sources\]'"):
        decrypt(b"AES\x02", "x")


def test_real_draw_comes_through_the_loader(folder, password, monkeypatch):
    """The authors' own sets by the name that a recipe gives them, all four at once, and refused as questions to draw
    from.
    """
    from mhbench.corpus.load import load_corpus
    from mhbench.steps.variants import evaluation_set

    monkeypatch.setenv("MHBENCH_MENTAT_PASSWORD", password)
    corpus = load_corpus("mentat", folder, sets=["D0_release", "D_G_release", "D_A_release", "D_N_release"])
    assert (
        Counter(i.variant["set"] for i in corpus.items)
        == {
            "D0_release": 184,
            "D_G_release": 552,
            "D_A_release": 920,
            "D_N_release": 1104,
        }
        and len(corpus.ratings) == 3000
    )
    assert all(i.protected and i.base_id for i in corpus.items)
    with pytest.raises(ValueError, match=r"stands as it is: say sets: \[\]"):
        evaluation_set(corpus.items, "D0", seed=1)


@pytest.mark.parametrize(
    ("reason", "status"),
    [("stop", "ok"), ("length", "truncated"), ("content_filter", "filtered"), (None, "error"), ("odd", "error")],
)
def test_a_recorded_reply_is_whole_only_where_its_end_says_so(reason, status):
    reply = {"choices": [{"message": {"content": "A"}, "finish_reason": reason}]}
    fields = _reply_fields(reply, "here")
    assert (fields.get("status", "ok"), fields["finish_reason"]) == (status, reason)
