"""A rating study from a workbook to its stages: what is written, what is wired, and what is said where nothing is."""

import re
import shlex
import shutil
import socket

import openpyxl
import pytest
import yaml
from conftest import ROOT

from mhbench.annotate.assignment import enrol
from mhbench.annotate.export import ratings_of_file
from mhbench.annotate.store import Change, Register, open_store
from mhbench.annotate.study import RatedAnswer
from mhbench.run.cli import main, parser
from mhbench.run.params import load_params, unread_ratings
from mhbench.tools.edit import name_ratings

QUESTIONS = [
    [f"q{k}", f"Question {k}: what comes first?", "Ask about safety", "Refer at once", "Wait", "A"]
    for k in range(1, 11)
]


def workbook(path, rows=QUESTIONS, head=("id", "question", "option A", "option B", "option C", "answer")):
    book = openpyxl.Workbook()
    for row in [list(head), *rows]:
        book.active.append(row)
    book.save(path)
    return path


@pytest.fixture
def folder(tmp_path, monkeypatch):
    "A repository's settings, and a workbook of ten questions, in the current folder."
    for name in ("params.yaml", "run.yaml", "dvc.yaml"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "nbs").symlink_to(ROOT / "nbs")
    workbook(tmp_path / "questions.xlsx")
    monkeypatch.setenv("MHBENCH_ROOT", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def entry(folder, name="ward") -> dict:
    return yaml.safe_load((folder / "params.yaml").read_text(encoding="utf-8"))["studies"][name]


ANNOTATE = "    annotate: {kind: sliders}\n"


def with_page(folder) -> None:
    "A study whose page was configured by hand, as CONTRIBUTING says, and answered by three simulated raters."
    assert main(["new-study", "ward", "questions.xlsx", "--yes"]) == 0
    text = (folder / "params.yaml").read_text(encoding="utf-8")
    (folder / "params.yaml").write_text(text.replace("  ward:\n", "  ward:\n" + ANNOTATE), encoding="utf-8")
    assert main(["annotate", "demo", "ward", "--raters", "3"]) == 0


def test_simulated_raters_do_not_answer_beside_people(folder, capsys):
    with_page(folder)
    file = folder / ".mhbench" / "annotate" / "ward.sqlite"
    with open_store(file) as store:
        enrol(store, store.study, ["p-1"])
    assert main(["annotate", "demo", "ward", "--raters", "1"]) == 0, "invited, and has not answered"
    with open_store(file) as store:
        page = Register(store).assigned("p-1")[0]
        store.save([Change("e", "p-1", *page, "A", RatedAnswer(5.0), "{}", 1, None)], [])
    capsys.readouterr()
    assert main(["annotate", "demo", "ward"]) == 1
    said = capsys.readouterr().err
    assert "people must not have answered; got answers of 1 person (ward.sqlite); name another file: --answers" in said


def test_ratings_that_are_named_are_wired_to_their_stages(folder, capsys):
    with_page(folder)
    file = ".mhbench/annotate/ward.sqlite"
    assert len(ratings_of_file(folder / file)) == 10 * 3 * 3
    before = (folder / "params.yaml").read_text(encoding="utf-8")
    by_hand = before.replace("      ratings: null\n", f"      ratings: {file}\n")
    assert by_hand != before
    (folder / "params.yaml").write_text(by_hand, encoding="utf-8")
    said = unread_ratings(load_params(folder / "params.yaml"))
    assert said == [
        f"ward: the ratings of {file} go through no stage; `mhbench import ward --ratings {file}` adds the stages that"
        " fit them"
    ]
    capsys.readouterr()
    assert main(["import", "ward", "--ratings", file]) == 0
    assert "they go through preferences, agreement\nadded to studies.ward: preferences" in capsys.readouterr().out
    p = load_params(folder / "params.yaml")
    assert {"preferences", "agreement", "annotate"} <= set(entry(folder)) and unread_ratings(p) == []
    assert "ward" in p["run"]["preferences"] and "ward" in p["run"]["agreement"]


def test_a_study_that_is_written_anew_keeps_what_people_are_asked(folder):
    with_page(folder)
    assert main(["new-study", "ward", "questions.xlsx", "--replace", "--yes"]) == 0
    assert entry(folder)["annotate"] == {"kind": "sliders"}
    file = ".mhbench/annotate/ward.sqlite"
    assert main(["new-study", "ward", "questions.xlsx", "--ratings", file, "--replace", "--yes"]) == 0
    written = entry(folder)
    assert written["prepare"]["ratings"] == file and "ratings" not in written["prepare"]["options"]
    assert written["annotate"] == {"kind": "sliders"} and {"preferences", "agreement"} <= set(written)
    assert main(["new-study", "ward", "questions.xlsx", "--replace", "--yes"]) == 0
    assert entry(folder) == written
    table = "id,rater,option,score\n" + "".join(f"q1,r{r},{o},{r}0\n" for r in (1, 2) for o in "ABC")
    (folder / "ratings.csv").write_text(table, encoding="utf-8")
    assert (
        main(
            [
                "new-study",
                "ward",
                "questions.xlsx",
                "--ratings",
                "ratings.csv",
                "--ratings-scale",
                "0:100",
                "--replace",
                "--yes",
            ]
        )
        == 0
    )
    now = entry(folder)
    assert now["prepare"]["ratings"] is None and now["annotate"] == {"kind": "sliders"}
    assert now["prepare"]["options"]["ratings"]["path"] == "ratings.csv"


def test_ratings_that_no_stage_reads_are_said_to_be_so(folder):
    with_page(folder)
    (folder / "none.csv").write_text("item_id,study,rater,target,value,label\n", encoding="utf-8")
    [said] = name_ratings("ward", "none.csv", params=folder / "params.yaml")
    assert "they go through no stage: there is no complete answer yet" in said


# ---------------------------------------------------------------- a round, from its workbook to its stages


def said(words: str, *answers: str):
    "The command at a terminal, with what a person types; every answer has to be asked for."
    left = list(answers)
    a = parser(["annotate"]).parse_args(["annotate", *words.split()])
    a.function(a, lambda question: left.pop(0))
    assert left == []


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setattr("sys.stdin", type("Terminal", (), {"isatty": lambda self: True})())


def test_a_round_is_made_with_flags_alone(folder, capsys):
    run_before = (folder / "run.yaml").read_text(encoding="utf-8")
    assert main(["annotate", "new", "ward", "questions.xlsx", "--raters", "a,b,c,d,e", "--yes"]) == 0
    shown = capsys.readouterr().out
    links = re.findall(r"^  (\w+): http://127.0.0.1:8484/in/(\S+)$", shown, re.MULTILINE)
    assert [rater for rater, _ in links] == list("abcde")
    assert "10  multiple_choice, 3 options, 1 right" in shown  # a line for each kind of row
    page = shown[shown.index("Question 1 of 10") :]
    assert all(o in page for o in ("Ask about safety", "Refer at once", "Wait", "0 |---"))
    written = entry(folder)
    assert written["annotate"] == {
        "kind": "sliders",
        "title": "ward",
        "language": "en",
        "assignment": {"rule": "everyone", "repeats": 0},
    }
    assert written["prepare"]["ratings"] == ".mhbench/annotate/ward.sqlite"
    assert list(written) == ["prepare", "annotate", "generate", "score", "preferences", "agreement"]
    assert (folder / "run.yaml").read_text(encoding="utf-8") == run_before  # nothing is run before it is closed
    with open_store(folder / ".mhbench/annotate/ward.sqlite") as store:
        register = Register(store)
        assert [register.rater_of_token(token).rater for _, token in links] == list("abcde")
        assert all(len(register.assigned(rater)) == 10 for rater in "abcde")


def test_nothing_is_written_without_a_yes(folder, terminal, capsys):
    before = (folder / "params.yaml").read_text(encoding="utf-8")
    words = "new ward questions.xlsx --raters r1,r2 --per-item 1 --repeats 2 --page-language de --title Ward"
    said(words, "n", "n", "n")
    assert capsys.readouterr().out.endswith("nothing was written\n")
    assert (folder / "params.yaml").read_text(encoding="utf-8") == before
    assert not (folder / ".mhbench/annotate/ward.sqlite").exists()
    said(f"{words} --kind agree", "n", "y", "y")
    assert load_params(folder / "params.yaml")["report"]["private"] == ["ward"]  # on this machine, and not shared
    page = {"kind": "agree", "title": "Ward", "language": "de"}
    rule = {"rule": "core_and_split", "n_core": 0, "per_item": 1, "repeats": 2}
    assert entry(folder)["annotate"] == page | {"assignment": rule}
    assert "Frage 1 von" in capsys.readouterr().out
    with open_store(folder / ".mhbench/annotate/ward.sqlite") as store:
        assert sorted(len(Register(store).assigned(r)) for r in ("r1", "r2")) == [7, 7]  # 5 and 2 of them again


def test_where_nobody_can_be_asked_what_lacks_is_named(folder, capsys):
    for words, told in (
        (["--raters", "a"], "--yes must be said where nobody can be asked"),
        (["--raters", ",", "--yes"], "--raters must name somebody; got none"),
        (["--raters", "a", "--kind", "yes_no", "--yes"], "--ask must be given for yes_no"),
        (["--raters", "a", "--kind", "yes_no", "--ask", "Clear?", "--yes"], "--ask must be NAME=QUESTION"),
        (["--raters", "a", "--repeats", "-1", "--yes"], "repeats"),
        (["--raters", "a", "--per-item", "0", "--yes"], "per_item"),
        (["--raters", "a", "--kind", "conversation", "--loader", "mine", "--yes"], "loader must be one of"),
    ):
        assert main(["annotate", "new", "ward", "questions.xlsx", *words]) == 1
        assert told in capsys.readouterr().err
    assert "ward" not in yaml.safe_load((folder / "params.yaml").read_text(encoding="utf-8"))["studies"]


def test_questions_of_two_widths_are_not_mixed_in_silence(folder, capsys):
    rows = [*QUESTIONS[:6], *([*row[:4], None, "A"] for row in QUESTIONS[6:])]
    workbook(folder / "mixed.xlsx", rows)
    assert main(["annotate", "new", "ward", "mixed.xlsx", "--raters", "a,b", "--yes"]) == 1
    assert "6 with 3 options, 4 with 2 options" in capsys.readouterr().err
    assert main(["annotate", "new", "ward", "mixed.xlsx", "--raters", "a,b", "--n-options", "2", "--yes"]) == 0
    assert "raters see 4 of 10 questions: those with 2 options" in capsys.readouterr().out
    assert entry(folder)["annotate"]["item_ids"] == ["q7", "q8", "q9", "q10"]


def test_a_round_that_is_closed_lets_nobody_in_and_goes_through_its_stages(folder, capsys):
    assert main(["annotate", "new", "ward", "questions.xlsx", "--raters", "a,b", "--yes"]) == 0
    token = re.search(r"a: http\S+/in/(\S+)", capsys.readouterr().out)[1]
    assert main(["annotate", "close", "ward", "--yes"]) == 1
    assert "a round must have a complete page; got none" in capsys.readouterr().err
    assert main(["annotate", "demo", "ward", "--raters", "3"]) == 0
    capsys.readouterr()
    assert main(["annotate", "close", "ward"]) == 1  # a and b have ten pages each
    assert "20 pages are open" in capsys.readouterr().err
    assert main(["annotate", "close", "ward", "--yes"]) == 0
    shown = capsys.readouterr().out
    assert "pages left: a 10, b 10\n" in shown and shown.endswith("the report:\n  mhbench run --all\n")
    alpha = (
        r"Krippendorff's alpha, interval: scores of options, mean over questions: 0\.\d{3} \[-?0\.\d{3}, 0\.\d{3}\] "
    )
    assert re.search(alpha + r"\(\d+ rated", shown)
    with open_store(folder / ".mhbench/annotate/ward.sqlite") as store:
        assert Register(store).rater_of_token(token) is None
        assert not any(r.active for r in Register(store).raters())
    run = load_params(folder / "params.yaml")["run"]
    assert (run["studies"], run["models"]) == (["ward"], [])
    assert run["preferences"] == run["agreement"] == ["ward"]
    assert main(["select", "--studies", "mhqa", "--models", "minilm"]) == 0
    assert main(["annotate", "close", "ward", "--yes"]) == 0  # once more, after the models were chosen
    assert load_params(folder / "params.yaml")["run"]["models"] == ["minilm"]


def test_the_commands_that_a_new_round_names_can_be_run_as_they_stand(folder, capsys):
    "The file of answers, the parameters and the port go with them, or another file is asked and other links are dead."
    shutil.copy(folder / "params.yaml", folder / "mine.yaml")
    asked = ["annotate", "new", "ward", "questions.xlsx", "--raters", "a,b", "--yes", "--texts", "here"]
    assert main([*asked, "--answers", "kept/w a.sqlite", "--params", "mine.yaml", "--port", "9000"]) == 0
    told = capsys.readouterr().out
    of_file = "--answers 'kept/w a.sqlite' --params mine.yaml"
    assert f"mhbench annotate invite ward RATER {of_file} --port 9000)" in told and "127.0.0.1:9000/in/" in told
    serve, status, close = (f"  mhbench annotate {x} ward {of_file}" for x in ("serve", "status", "close"))
    assert f"{serve} --port 9000\n{status}\n{close}\n" in told
    for command in (status, close):
        code = main(shlex.split(command)[1:])
        assert (code, "pages left: a 10, b 10" in capsys.readouterr().out) == ((0, True), (1, False))[command == close]


def test_a_table_without_a_rating_goes_through_no_stage(folder, capsys):
    with_page(folder)
    assert main(["import", "ward", "--ratings", ".mhbench/annotate/ward.sqlite"]) == 0
    (folder / "none.csv").write_text("item_id,study,rater,target,value\n", encoding="utf-8")
    assert main(["import", "ward", "--ratings", "none.csv"]) == 0
    assert "they go through no stage: there is no complete answer yet" in capsys.readouterr().out


def test_what_a_round_cannot_use_is_refused_by_its_option_and_nothing_is_written(folder, capsys):
    before = (folder / "params.yaml").read_text(encoding="utf-8")
    new = ["annotate", "new", "ward", "questions.xlsx", "--yes", "--texts", "here", "--raters"]
    twice = ["--kind", "yes_no", "--ask", "ok=Is it?", "--ask", "ok=Was it?"]
    for more, told in {
        ("a", "--labels", "bad,good"): "--labels must fit --kind; got it with sliders, which does not use it",
        ("a", "--ask", "ok=Is it?"): "--ask must fit --kind; got it with sliders",
        ("a", *twice): "--ask must have each NAME once; got 'ok' more than once",
    }.items():
        assert main([*new, *more]) == 1
        assert told in capsys.readouterr().err
    for more, told in {
        ("--port", "99999"): "must be a number from 0 to 65535; got '99999'",
        ("--public-url", "ftp://host"): "must be as https://host/study, or begin with http://; got 'ftp://host'",
        ("--public-url", "host/study"): "must be as https://host/study, or begin with http://; got 'host/study'",
    }.items():
        with pytest.raises(SystemExit):
            main([*new, "a", *more])
        assert told in capsys.readouterr().err
    assert (folder / "params.yaml").read_text(encoding="utf-8") == before


def test_a_port_that_is_taken_is_refused_with_what_to_do(folder, capsys):
    with_page(folder)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        assert main(["annotate", "serve", "ward", "--port", port]) == 1
    told = f"--host and --port must be free; got 127.0.0.1:{port} ("
    assert told in (said := capsys.readouterr().err) and "say another --port, or stop what uses this one" in said
    assert main(["annotate", "invite", "ward", "b"]) == 0 == main(["annotate", "forget", "ward", "b"])
    assert "b: deleted, with 0 events\n" in capsys.readouterr().out, "a pseudonym has no name in the key"
