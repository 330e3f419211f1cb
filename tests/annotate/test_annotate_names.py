"""Names of raters: they come in at one door in any script, leave it as pseudonyms, and lie in one private file."""

import asyncio
import json
import re
import stat
import unicodedata
from argparse import Namespace

import pandas as pd
import pytest
from aiohttp import web

from annotate.test_annotate_rounds import QUESTIONS, entry, folder, workbook  # noqa: F401
from mhbench.annotate.assignment import enrol
from mhbench.annotate.export import ratings, ratings_of_file, study_ratings, write_export
from mhbench.annotate.server import make_app
from mhbench.annotate.simulate import simulate
from mhbench.annotate.store import Change, Register, open_store
from mhbench.annotate.study import RatedAnswer
from mhbench.corpus.load import load_corpus
from mhbench.records.labelstudio import load_label_studio
from mhbench.records.pseudonyms import RaterKey, rater_key
from mhbench.run.cli import main
from mhbench.run.params import load_params
from mhbench.studies.medqade.load import load_panel
from mhbench.tools.annotate import _prepare

SCRIPTS = {
    "Latin": ["Rater Ü", "Zoë", "Anna B", "Anna-B", "José Núñez", "Łukasz Żak", "O'Brien", "d'Été"],
    "Greek": ["Αθηνά", "Γιώργος Π", "Ελένη", "Νίκος", "Σοφία", "Ωρίων"],
    "Cyrillic": ["Анна", "Борис Г", "Жанна", "Щукин", "Юлия", "Яна"],
    "Arabic": ["محمد", "فاطمة ز", "ليلى", "نور", "عمر", "سارة"],
    "Hebrew": ["דוד", "רחל כ", "משה", "שרה", "יעל", "נועם"],
    "Chinese": ["王芳", "李伟", "张敏", "刘洋", "陈静", "杨 强"],
    "Devanagari": ["अनिता", "राजेश क", "सुनील", "प्रिया", "मोहन", "गीता"],
    "Hangul": ["김민준", "이서연", "박지 훈", "최수아", "정하은", "강도윤"],
}
NAMES = [name for names in SCRIPTS.values() for name in names]
KEY = ".mhbench/raters.sqlite"


def named_in(folder) -> set[str]:  # noqa: F811
    "The files below a folder in which any of the names stands, as text, decomposed or escaped."
    forms = [f for n in NAMES for f in (n, unicodedata.normalize("NFD", n), json.dumps(n)[1:-1])]
    searched = {f.encode() for f in forms if len(f) > 2}
    files = [p for p in folder.rglob("*") if p.is_file() and "nbs" not in p.relative_to(folder).parts]
    return {p.relative_to(folder).as_posix() for p in files if any(x in p.read_bytes() for x in searched)}


async def answered(path, tokens: dict[str, str]) -> int:
    runner = web.AppRunner(make_app(path, rate=1000, burst=10_000), access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        return await simulate(f"http://127.0.0.1:{runner.addresses[0][1]}/", path, tokens, seed=1)
    finally:
        await runner.cleanup()


def test_fifty_raters_in_eight_scripts_go_from_their_links_to_the_ratings(folder, capsys):  # noqa: F811
    assert len(set(NAMES)) == 50 and len(SCRIPTS) == 8
    workbook(folder / "questions.xlsx", QUESTIONS[:2])
    assert main(["annotate", "new", "ward", "questions.xlsx", "--raters", ",".join(NAMES), "--yes"]) == 0
    shown = capsys.readouterr().out
    links = dict(re.findall(r"^  (.+ \(rater-\d+\)): http://127\.0\.0\.1:8484/in/(\S+)$", shown, re.MULTILINE))
    assert [who.rpartition(" (")[0] for who in links] == NAMES
    tokens = {who.rpartition(" (")[2].strip(")"): token for who, token in links.items()}
    assert len(tokens) == 50
    path = folder / ".mhbench/annotate/ward.sqlite"
    assert asyncio.run(answered(path, tokens)) == 50 * 2 * 3

    assert main(["annotate", "status", "ward"]) == 0
    assert main(["annotate", "export", "ward", "--to", "answers"]) == 0
    assert main(["annotate", "close", "ward"]) == 0
    assert "pages left: none" in capsys.readouterr().out
    source = entry(folder)["prepare"]
    with rater_key(folder / KEY, "ward"):
        corpus = load_corpus("table", folder / source["path"], study="ward", **source["options"])
        rated = study_ratings(corpus.ratings, corpus.items, source["ratings"], folder)
    assert len(rated.ratings) == 50 * 2 * 3  # nothing that was confirmed is lost, and nobody is set aside
    assert {r.rater for r in rated.ratings} == set(tokens)
    assert len(pd.read_csv(folder / "answers/ratings.csv")) == 300

    assert named_in(folder) == {KEY}
    assert stat.S_IMODE((folder / KEY).stat().st_mode) == 0o600
    assert main(["annotate", "who", "ward"]) == 0
    assert capsys.readouterr().out.splitlines() == [f"rater-{k}  {n}" for k, n in enumerate(NAMES, 1)]
    for asked in ("Zoë", "rater-2"):
        assert main(["annotate", "who", "ward", asked]) == 0
        assert capsys.readouterr().out == "rater-2  Zoë\n"
    assert main(["annotate", "who", "ward", "Nobody"]) == 1
    assert "rater must be in the key; got 'Nobody', and the key has 50 names of ward" in capsys.readouterr().err


def test_a_rater_is_invited_withdrawn_and_forgotten_by_name(folder, capsys):  # noqa: F811
    assert main(["annotate", "new", "ward", "questions.xlsx", "--raters", "rater-1, Zoë", "--yes"]) == 0
    assert "  Zoë (rater-2): http" in capsys.readouterr().out
    assert main(["annotate", "invite", "ward", "Zoe\u0308 ,王芳"]) == 0
    shown = capsys.readouterr().out
    assert "Zoë (rater-2): http" in shown and "王芳 (rater-3): http" in shown
    assert main(["annotate", "withdraw", "ward", "王芳"]) == 0
    assert main(["annotate", "forget", "ward", "Zoë"]) == 0
    with open_store(folder / ".mhbench/annotate/ward.sqlite") as store:
        assert [(r.rater, r.active) for r in Register(store).raters()] == [("rater-1", True), ("rater-3", False)]
    assert RaterKey(folder / KEY, "ward").names == {"rater-3": "王芳"}
    assert "Zoë".encode() not in (folder / KEY).read_bytes()


def test_a_file_of_answers_that_let_names_in_is_exported_under_pseudonyms(served, tmp_path):
    with open_store(served.answers) as store:
        enrol(store, store.study, ["Rater Ü", "Anna B", "Anna-B"])
        shown = '{"wording":"","order":["A","B","C","D","E"],"starts":{},"sides":[]}'
        for k, rater in enumerate(("Rater Ü", "Anna B", "Anna-B")):
            store.save([Change(f"e{k}", rater, "q1", 0, "key", RatedAnswer(label="A"), shown, 1, None)])
        with rater_key(tmp_path / "raters.sqlite", "example"):
            assert [r.rater for r in ratings(store).ratings] == ["rater-2", "rater-3", "rater-1"]
            write_export(store, tmp_path / "out")
    assert named_in(tmp_path / "out") == set()
    assert list(RaterKey(tmp_path / "raters.sqlite", "example").names.values()) == ["Rater Ü", "Anna B", "Anna-B"]


@pytest.fixture
def served(tmp_path):
    from annotate.conftest import ENTRIES, Served

    return Served(tmp_path / "served", ENTRIES["agree"])


def test_a_table_of_ratings_loses_nobody_for_a_letter(folder, capsys):  # noqa: F811
    rows = [(f"q{k}", name, option, 10) for name in NAMES for k in (1, 2) for option in "ABC"]
    pd.DataFrame(rows, columns=["item", "rater", "option", "score"]).to_csv(folder / "theirs.csv", index=False)
    assert (
        main(["new-study", "ward", "questions.xlsx", "--ratings", "theirs.csv", "--ratings-scale", "0:100", "--yes"])
        == 0
    )
    assert f"10 items (10 multiple_choice), {len(rows)} ratings" in capsys.readouterr().out
    source = entry(folder)["prepare"]
    for _ in range(2):  # once more, with the key there
        with rater_key(folder / KEY, "ward"):
            corpus = load_corpus("table", folder / source["path"], study="ward", **source["options"])
        assert [*dict.fromkeys(r.rater for r in corpus.ratings)] == [f"rater-{k}" for k in range(1, 51)]
    assert named_in(folder) == {KEY, "theirs.csv"}


def test_rows_that_are_set_aside_name_nobody(folder, tmp_path):  # noqa: F811
    (folder / "theirs.csv").write_text("item,rater,option,score\nq1,Zoë,A,1\nq1,Zoë,B,200\nq9x,王芳,A,3\n", "utf-8")
    assert (
        main(["new-study", "ward", "questions.xlsx", "--ratings", "theirs.csv", "--ratings-scale", "0:100", "--yes"])
        == 0
    )
    source = entry(folder)["prepare"]
    load_corpus("table", folder / source["path"], study="ward", **source["options"], set_aside=tmp_path / "aside.jsonl")
    assert len((tmp_path / "aside.jsonl").read_text().splitlines()) == 1  # 200 is no row: it is counted
    assert "aside.jsonl" not in named_in(tmp_path)


def test_ratings_exported_by_others_are_read_whoever_gave_them(tmp_path):
    table = "item_id,study,rater,target,label\nq1,s,Rater 1,A,yes\nq1,s,محمد,A,no\nq1,s,r2,A,no\n"
    (tmp_path / "ratings.csv").write_text(table, encoding="utf-8")
    assert [r.rater for r in ratings_of_file(tmp_path / "ratings.csv")] == ["rater-1", "rater-2", "r2"]
    panel = "item_id,rater,m1,difficulty\nq1,Rater 1,Correct,Easy\nq1,Zoë,Correct,Easy\nq1,P2,Correct,Easy\n"
    (tmp_path / "panel.csv").write_text(panel, encoding="utf-8")
    assert [*dict.fromkeys(r.rater for r in load_panel(tmp_path / "panel.csv"))] == ["rater-1", "rater-2", "P2"]


def test_label_studio_does_not_merge_two_accounts_and_compares_times_not_texts(tmp_path):
    def annotation(n, by, label, at):
        result = [{"from_name": "correctness_1", "type": "choices", "value": {"choices": [label]}}]
        return {"id": n, "completed_by": by, "updated_at": at, "result": result}

    def export(*annotations):
        task = {"id": 1, "data": {"item_id": "q1", "study": "s"}, "annotations": annotations}
        (tmp_path / "export.json").write_text(json.dumps([task]))
        return tmp_path / "export.json"

    two = export(*(annotation(k, {"id": k, "email": f"{k}@example.org"}, "Correct", None) for k in (1, 2)))
    with pytest.raises(ValueError, match=r"one rater must have made all annotations; got 2 \(export.json\); name each"):
        load_label_studio(two, {"q1": ["m"]}, raters="Zoë")
    (tmp_path / "key.json").write_text('{"q1": ["m"]}')
    assert [r.rater for r in ratings_of_file(two)] == ["rater-1", "rater-2"]
    late, early = "2025-01-07T10:00:00-05:00", "2025-01-07T12:00:00Z"  # 15:00 and 12:00 in universal time
    for order in ((late, early), (early, late)):
        same = export(*(annotation(k, 1, "Correct" if at == late else "Incorrect", at) for k, at in enumerate(order)))
        assert [r.label for r in load_label_studio(same, {"q1": ["m"]}, raters="Zoë").ratings] == ["Correct"]


def test_a_name_in_params_is_refused_before_a_notebook_holds_it(folder):  # noqa: F811
    text = (folder / "params.yaml").read_text(encoding="utf-8")
    for was, now in (
        ("tie_breaker: sim-p10", "tie_breaker: Zoë"),
        ("sheets: {}                        # {pse", "sheets: {Zoë: a.csv}  # {pse"),
    ):
        assert was in text
        (folder / "params.yaml").write_text(text.replace(was, now), encoding="utf-8")
        with pytest.raises(ValueError, match="must be a rater's pseudonym, such as rater-1; `mhbench annotate who"):
            load_params(folder / "params.yaml")
    (folder / "params.yaml").write_text(text.replace("tie_breaker: sim-p10", "tie_breaker: rater-4"), encoding="utf-8")
    load_params(folder / "params.yaml")


def test_the_terminal_shows_nobodys_name_from_a_file_of_answers_or_of_ratings(served, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with open_store(served.answers) as store:  # as earlier versions let names in
        enrol(store, store.study, ["Rater Ü", "Anna B"])
        shown = '{"wording":"","order":["A","B","C","D","E"],"starts":{},"sides":[]}'
        store.save([Change("e1", "Rater Ü", "q1", 0, "key", RatedAnswer(label="A"), shown, 1, None)])
        store.db.execute("UPDATE answers SET label = 'B' WHERE rater = 'Rater Ü'")
    annotate = lambda action, *rater: main(["annotate", action, "example", *rater, "--answers", str(served.answers)])
    assert [annotate("status"), annotate("check"), annotate("withdraw", "Nobody")] == [0, 1, 1]
    assert [annotate(action, "Rater Ü") for action in ("withdraw", "forget")] == [0, 0]
    rows = [(f"q{k}", name, "yes" if k % 2 else "no") for name in ("Zoë", "王芳") for k in range(12)]
    pd.DataFrame(rows, columns=["item", "rater", "label"]).to_csv("theirs.csv", index=False)
    assert main(["ratings", "theirs.csv", "--to", "theirs.yaml"]) == 0 and main(["ratings", "theirs.yaml"]) == 0
    told = "".join(capsys.readouterr())
    assert "rater-1" in told and "person" in told and [name for name in NAMES if len(name) > 1 and name in told] == []


def test_who_is_refused_leaves_no_name_in_the_key(folder, capsys):  # noqa: F811
    assert main(["annotate", "new", "ward", "questions.xlsx", "--raters", "rater-1, Zoë", "--yes"]) == 0
    key = (folder / KEY).read_bytes()
    capsys.readouterr()
    with open_store(folder / ".mhbench/annotate/ward.sqlite") as store:
        enrolled = Register(store).raters()
    page = {"study": "ward", "answers": None, "params": "params.yaml", "file": None, "host": "127.0.0.1", "port": 1}
    for raters, resolver in ((["王芳"], ["Zoë"]), (["王芳", "李伟"], ["李伟"])):
        with pytest.raises(ValueError, match="enrol: a pseudonym must have one role"):
            _prepare(Namespace(**page, public_url="", raters=raters, resolver=resolver))
    with open_store(folder / ".mhbench/annotate/ward.sqlite") as store:
        assert Register(store).raters() == enrolled
    assert (folder / KEY).read_bytes() == key
