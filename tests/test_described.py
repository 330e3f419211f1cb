"""Ratings as they were released: every layout by its description, and what bad input gets.

Each refusal and each count is a test of its own that fails without the line that makes it.
"""

import json
import re
import shutil
import time
import zipfile
from pathlib import Path

import openpyxl
import pytest
import yaml
from conftest import BIN, ROOT, run

from mhbench.annotate.export import ratings_of_file
from mhbench.records.described import RatingTable, as_number, read_ratings
from mhbench.records.guessed import guess_description
from mhbench.records.schema import Rating
from mhbench.run.cli import main
from mhbench.run.params import load_params
from mhbench.tools.new_study import ratings_csv

DESCRIBED = ROOT / "docs" / "ratings"
LONG = {"files": "r.csv", "item": "item", "rater": "rater", "value": "score", "scale": "1..5"}
HEAD = "item,rater,score\n"


def reads(folder: Path, text: str, name: str = "r.csv", **more) -> RatingTable:
    (folder / name).write_text(text, encoding="utf-8")
    return read_ratings(LONG | {"files": name} | more, folder)


def refused(folder: Path, text: str, *words: str, name: str = "r.csv", **more) -> str:
    said = pytest.raises((ValueError, OSError), reads, folder, text, name, **more).value.args[0]
    assert all(w in said for w in words), said
    return said


def counted(table: RatingTable) -> dict:
    return {k: int(n) for k, n in table.counts.sum(numeric_only=True).items() if n}


def named(given: RatingTable, *columns: str) -> list[tuple]:
    return [tuple(row) for row in given.frame[list(columns)].to_numpy()]


# ---------------------------------------------------------------- layouts


def test_every_description_is_short():
    for file in DESCRIBED.glob("*.yaml"):
        given = yaml.load(file.read_text(), yaml.BaseLoader)
        parts = given.get("parts", [{}])
        lines = len(file.read_text().splitlines())
        assert lines <= 15 * len(parts), file.name


def test_wide_with_captures_and_labels_beside_the_scale(tmp_path):
    text = "conversation_id,clinician_id,clinician_a,clinician_b,age\nc1,x1,NA,None,51\nc2,x1,N/A,NA,51\n"
    more = {
        "item": "conversation_id",
        "rater": "clinician_id",
        "value": "clinician_{criterion}",
        "criterion": ["a", "b"],
    }
    got = reads(tmp_path, text, **more, scale={"steps": ["None", "N/A"], "beside": ["NA"]})
    assert named(got, "item", "criterion", "label")[0] == ("c1", "a", "NA") and counted(got) == {
        "rated": 4,
        "beside": 2,
    }
    assert got.frame["score"].tolist()[1:3] == [1.0, 2.0] and "51" not in got.frame.to_csv()


def test_one_file_a_rater_and_seed(tmp_path):
    for rater, seed in (("gpt", 1), ("gpt", 2), ("o3", 1)):
        (tmp_path / f"{rater}_seed_{seed}_all.csv").write_text(f"item,score\ni1,{seed}\n")
    given = LONG | {"files": "{rater}_seed_{repeat}_{rest}.csv", "kind": "judge"}
    got = read_ratings({k: v for k, v in given.items() if k != "rater"}, tmp_path)
    assert named(got, "rater", "repeat", "label") == [("gpt", "1", "1"), ("gpt", "2", "2"), ("o3", "1", "1")]


def test_lists_in_step_and_names_with_dots(tmp_path):
    row = {
        "id": "p1",
        "c1.responses": [1, 5],
        "c1.responses.users": ["a", "b"],
        "c2.responses": [],
        "c2.responses.users": [],
    }
    more = {"item": "id", "rater": "{criterion}.responses.users", "value": "{criterion}.responses"}
    got = reads(tmp_path, json.dumps(row) + "\n", "r.jsonl", **more)
    assert named(got, "rater", "criterion", "score") == [("a", "c1", 1.0), ("b", "c1", 5.0)]


def test_levels_of_nested_objects(tmp_path):
    whole = {"q1": {"m1": {"who": ["s1", "s2"], "overall_score": [4, 5], "fact_score": ["I am not sure", 2]}}}
    more = {"keys": ["item", "target"], "rater": "who", "value": "{criterion}_score", "missing": ["I am not sure"]}
    given = {k: v for k, v in (LONG | more).items() if k != "item"}
    (tmp_path / "r.json").write_text(json.dumps(whole))
    got = read_ratings(given | {"files": "r.json"}, tmp_path)
    assert named(got, "item", "target", "rater", "criterion", "score")[1] == ("q1", "m1", "s2", "overall", 5.0)
    assert counted(got) == {"rated": 3, "missing": 1, "declared missing": 1} and got.notes == []
    (tmp_path / "r.json").write_text(json.dumps(whole | {"q2": None, "q3": [whole["q1"]]}))
    got = read_ratings(given | {"files": "r.json"}, tmp_path)
    assert got.notes == ["2 values hold no object by target, and are left out"] and len(got.frame) == 3


def test_a_list_below_a_parent(tmp_path):
    (tmp_path / "round1").mkdir()
    (tmp_path / "round1" / "R1.json").write_text(
        '{"reviewer": "R1", "ratings": [{"p": "a", "v": "Y"}, {"p": "b", "v": "N"}]}'
    )
    given = {"files": "{round}/R{n}.json", "each": "ratings", "item": "p", "rater": "reviewer", "session": "round"}
    got = read_ratings(given | {"value": "v", "scale": ["Y", "N"]}, tmp_path)
    assert named(got, "item", "rater", "session", "label") == [("a", "R1", "round1", "Y"), ("b", "R1", "round1", "N")]


def test_json_in_a_cell_fenced_cut_or_with_other_quotes(tmp_path):
    book = openpyxl.Workbook()
    cut = '```json\n{"Safety": 4, "Empathy": 3, "Overall": 4'
    for row in (
        ["id", " by_m1", "by_m2"],
        ["1", cut, "{\u201cSafety\u201d: 5, \u201cEmpathy\u201d: 1}"],
        [2, "I cannot.", None],
    ):
        book.active.append(row)
    book.save(tmp_path / "j.xlsx")
    given = {"files": "j.xlsx", "item": "id", "rater": "=gpt", "kind": "judge", "value": "by_{target} > {criterion}"}
    got = read_ratings(given | {"criterion": ["Safety", "Empathy", "Overall"], "scale": "1..5"}, tmp_path)
    assert named(got, "target", "criterion", "score") == [
        ("m1", "Safety", 4),
        ("m1", "Empathy", 3),
        ("m2", "Safety", 5),
        ("m2", "Empathy", 1),
    ]
    assert counted(got) == {"rated": 4, "missing": 8, "no JSON": 3, "no key": 2}
    assert got.notes == ["2 cells hold JSON that is cut or has other quotes; what stands before the cut is read"]


def test_captures_in_a_cell(tmp_path):
    text = "filename,judge,detects\n2b_Elias_g5.2_run3.txt,haiku,3\n"
    more = {"cells": {"filename": "{item}_{persona}_{patient}_run{run}.txt"}, "rater": "judge", "value": "{criterion}"}
    within = {w: w for w in ("persona", "patient", "run")}
    got = reads(tmp_path, text, **more, item="item", criterion=["detects"], within=within)
    assert named(got, "item", "within.persona", "within.patient", "within.run") == [("2b", "Elias", "g5.2", "3")]
    refused(
        tmp_path, text.replace("_run3", "-3"), "a cell of filename must fit", "r.csv:2", **more, criterion=["detects"]
    )


def test_a_cell_says_which_columns_of_its_row_hold_its_ratings(tmp_path):
    text = "file,anna_w,carl_w\nx_anna.txt,3,\ny_carl.txt,,4\n"
    more = {"cells": {"file": "{item}_{rater}.txt"}, "rater": "rater", "value": "{rater}_{criterion}"}
    got = reads(tmp_path, text, **more)
    assert named(got, "item", "rater", "criterion", "label") == [("x", "anna", "w", "3"), ("y", "carl", "w", "4")]


def test_the_listed_criteria_say_where_the_name_of_a_rater_ends(tmp_path):
    "A name with an underscore was cut at it: its columns were left out in silence, or read as another rater's."
    text, more = "item,anna_b_w,anna_b_v,carl_w,carl_v\n1,3,4,2,1\n", {"rater": "", "value": "{rater}_{criterion}"}
    got = reads(tmp_path, text, **more, criterion=["v", "w"])
    assert named(got, "rater", "criterion", "label") == [
        ("anna_b", "w", "3"), ("anna_b", "v", "4"), ("carl", "w", "2"), ("carl", "v", "1")
    ]  # fmt: skip
    refused(tmp_path, text, "a column's name in r.csv must fit '{rater}_{criterion}' in one way", "'anna_b_w'", **more)
    refused(tmp_path, text, "in one way", "'anna_b_w'", **more, criterion=["w", "v", "b_w"])
    got = reads(tmp_path, text, name="of_anna_b.csv", **more | {"files": "of_{rater}.csv", "criterion": ["v"]})
    assert named(got, "rater", "criterion", "label") == [("anna_b", "v", "4")], "the file's name says it, too"


def test_a_label_in_another_case_or_spacing_is_the_same_label(tmp_path):
    more = {"scale": {"steps": ["not sure", "very  sure"], "beside": ["no answer"]}}
    got = reads(tmp_path, HEAD + "1,7,Not  sure\n2,7,not\u00a0sure\n3,7,very sure\n4,7,No  Answer\n", **more)
    assert named(got, "label") == [("not sure",), ("not sure",), ("very  sure",), ("no answer",)]


def test_checkboxes_of_redcap(tmp_path):
    text = "record_id,rater,q001___1,q001___2,q001____99,q002___1\n1,7,1,1,0,0\n2,8,0,0,1,1\n3,9,,,,\n"
    more = {"value": "q{item}___{option}", "scale": {"options": ["1", "2"]}, "missing": ["-99"]}
    got = reads(tmp_path, text, **more, item="")
    assert named(got, "item", "rater", "label") == [("001", "7", "1 + 2"), ("002", "7", "(none)"), ("002", "8", "1")]
    assert counted(got) == {"rated": 3, "missing": 3, "declared missing": 1}
    refused(tmp_path, text.replace("7,1,1", "7,1,5"), "a box must be 1 or 0", "r.csv:2", **more, item="")


def test_three_header_rows_of_qualtrics(tmp_path):
    text = 'ResponseId,Q1,Q2\n"Response, ID","a\nb?",c\n"{""ImportId"":""x""}",y,z\nR_1,A,B\n'
    got = reads(tmp_path, text, skip=["2", "3"], rater="ResponseId", value="Q{item}", item="", scale=["A", "B"])
    assert named(got, "item", "rater", "label") == [("1", "R_1", "A"), ("2", "R_1", "B")]


def test_two_files_joined_and_a_reference_of_its_own(tmp_path):
    (tmp_path / "answers.csv").write_text("answer,item,model\na1,i1,m1\na2,i1,m2\n")
    (tmp_path / "r.csv").write_text("answer,rater,score\na1,r1,3\na2,r1,4\na9,r1,5\n")
    (tmp_path / "experts.csv").write_text("item,m,k,s\ni1,3.25,4,0.5\n")
    judged = LONG | {"target": "model", "join": {"file": "answers.csv", "on": "answer"}}
    means = {
        "files": "experts.csv",
        "item": "item",
        "rater": "=experts",
        "value": "m",
        "n": "k",
        "sd": "s",
        "scale": "1..5",
    }
    got = read_ratings({"release": "two files", "parts": [judged, means]}, tmp_path)
    assert named(got, "item", "target", "rater", "kind")[1:] == [
        ("i1", "m2", "r1", "person"),
        ("i1", "answer", "experts", "panel"),
    ]
    assert len(got.single) == 2 and any(
        "1 values are means of several ratings, and are never counted" in n for n in got.notes
    )
    assert any("1 rows whose key has no partner in answers.csv" in n for n in got.notes)
    [mean] = [r for r in got.records() if r.kind == "panel"]
    assert (mean.value, mean.n, mean.sd) == (3.25, 4, 0.5)
    for given in ("n", "sd"):
        one = {k: v for k, v in means.items() if k in ("files", "item", "rater", "value", "scale", given)}
        assert read_ratings(one, tmp_path).frame["kind"].tolist() == ["panel"], given
    (tmp_path / "answers.csv").write_text("answer,item,model\na1,i1,m1\na1,i1,m2\n")
    said = pytest.raises(ValueError, read_ratings, judged, tmp_path).value.args[0]
    assert "a key of the joined file must stand once; got 'a1' again (answers.csv:3)" in said


# ---------------------------------------------------------------- what bad input gets


def test_a_value_without_a_declared_target_or_criterion_and_an_empty_key_are_left_out_and_counted(tmp_path):
    "An answer without a name, and a criterion without one, were rated beside the others; an empty key found a partner."
    text = "item,rater,model,score\ni1,r1,m1,3\ni2,r1,,4\n"
    got = reads(tmp_path, text, target="model")
    assert named(got, "item", "target") == [("i1", "m1")] and counted(got) == {"rated": 1}
    assert got.notes == ["1 values whose target is empty (column model) are left out"]
    got = reads(tmp_path, text, criterion="model")
    assert named(got, "item", "criterion") == [("i1", "m1")]
    assert got.notes == ["1 values whose criterion is empty (column model) are left out"]
    got = reads(tmp_path, text, criterion="model", scales={"": "1..5"})
    assert named(got, "criterion") == [("m1",), ("",)], "declared to have none"
    (tmp_path / "answers.csv").write_text("answer,item\n,i8\n,i9\na1,i1\n")
    got = reads(tmp_path, "answer,rater,score\n,r1,3\na1,r1,4\n", join={"file": "answers.csv", "on": "answer"})
    assert named(got, "item", "label") == [("i1", "4")]
    assert got.notes == [
        "2 rows of answers.csv have no key, and are joined to none",
        "1 rows whose key has no partner in answers.csv are left out",
    ]


def test_a_rating_given_twice_is_refused_with_both_places(tmp_path):
    for k, score in ((1, 3), (2, 4)):
        (tmp_path / f"gpt_seed_1_part{k}.csv").write_text(f"item,score\ni1,{score}\n")
    given = {**LONG, "files": "{rater}_seed_{repeat}_{rest}.csv", "rater": ""}
    said = pytest.raises(ValueError, read_ratings, given, tmp_path).value.args[0]
    assert (
        "'3' and '4' at gpt_seed_1_part1.csv:2 and gpt_seed_1_part2.csv:2" in said
        and "name what tells them apart" in said
    )
    refused(tmp_path, HEAD + "i,r,3\ni,r,3\n", "the same at r.csv:2 and r.csv:3")


def test_a_rater_is_one_in_two_spellings_of_the_name_and_rates_once(tmp_path):
    "As pseudonyms take them: spaces doubled, an accent by itself. The table had two raters, the records one."
    names = ("Zoë B", "Zoë  B", "Zoe\u0308 B")
    apart = reads(tmp_path, HEAD + "".join(f"{k},{n},{k}\n" for k, n in enumerate(names, 1)))
    assert apart.frame["rater"].nunique() == 1 and [r.rater for r in apart.records()] == ["rater-1"] * 3
    assert set(apart.counts["rater"]) == {"Zoë B"}
    refused(tmp_path, HEAD + "1,Zoë B,3\n1,Zoë  B,5\n", "a rating must be given once")


def test_two_items_or_raters_whose_names_become_one_are_refused_with_both(tmp_path):
    "Their ratings were merged in what was written: two of one item by one rater."
    got = reads(tmp_path, HEAD + "case 1,r1,3\ncase-1,r1,4\n")
    with pytest.raises(ValueError, match=r"got 'case 1' and 'case-1', which both become 'case-1' \(r.csv:3\); rename"):
        ratings_csv(got, tmp_path / "out.csv")
    assert not (tmp_path / "out.csv").exists()
    judges = HEAD + "i,gpt 4,3\ni,gpt-4,4\n"
    with pytest.raises(ValueError, match="got 'gpt 4' and 'gpt-4', which both become 'gpt-4'; rename one"):
        ratings_csv(reads(tmp_path, judges, kind="judge"), tmp_path / "out.csv")
    kinds = {"kind": {"judge": "rater-1", "person": "Anna|Bea"}}
    with pytest.raises(ValueError, match="a person's name that is not shown and 'rater-1', which both become"):
        reads(tmp_path, HEAD + "i,rater-1,3\ni,Anna,4\n", **kinds).records()
    both = reads(tmp_path, HEAD + "i,Bea,3\ni,Anna,4\n", **kinds).records()
    assert [r.rater for r in both] == ["rater-1", "rater-2"]
    (tmp_path / "out.csv").write_text(
        "item_id,study,rater,target,value,kind\ni,s,rater-1,m,3,judge\ni,s,Anna,m,4,person\n"
    )
    with pytest.raises(ValueError, match="ratings_of_file: raters must have names that stay apart; got 'rater-1' and"):
        ratings_of_file(tmp_path / "out.csv")


def test_a_code_that_is_declared_missing_is_no_rating_in_another_spelling(tmp_path):
    text = HEAD + "1,a1,99\n2,a1,99.0\n3,a1,+99\n4,a1,98.0\n"
    table = reads(tmp_path, text, scale="0..100", missing="99")
    assert named(table, "item", "score") == [("4", 98.0)] and int(table.counts["declared missing"].sum()) == 3
    steps = reads(tmp_path, HEAD + "1,a1,01\n2,a1,1\n", scale=["01", "2"], missing="1")
    assert named(steps, "item", "label") == [("1", "01")]


def test_a_name_twice_in_a_header(tmp_path):
    refused(tmp_path, "item,rater,score,score\ni,r,3,4\n", "'score' twice (r.csv:1)", "rename one")


def test_a_column_or_a_file_that_is_not_there(tmp_path):
    refused(
        tmp_path, HEAD + "i,r,3\n", "got 'scroe', nearest to it 'score' (r.csv:2)", "it has item, rater", value="scroe"
    )
    refused(tmp_path, HEAD + "i,r,3\n", "nearest to it 'rater'", rater="ratr")
    said = pytest.raises(FileNotFoundError, read_ratings, LONG | {"files": "none.csv"}, tmp_path).value.args[0]
    assert "a file must be there; got 'none.csv'" in said
    refused(tmp_path, HEAD + "i,r,3\n", "columns must fit value 'x_{criterion}'", value="x_{criterion}")
    refused(tmp_path, "item,rater,x_a\ni,r,3\n", "none for b", value="x_{criterion}", criterion=["a", "b"])


def test_lists_of_unequal_length(tmp_path):
    refused(
        tmp_path,
        '{"item": "i", "rater": ["a"], "score": [1, 2]}\n',
        "2 of value, 1 of rater (r.jsonl:1)",
        name="r.jsonl",
    )


def test_a_file_name_that_does_not_fit_its_template(tmp_path):
    (tmp_path / "gpt_seed_x_all.csv").write_text("item,score\ni1,3\n")
    given = {**LONG, "files": "{rater}_seed_{repeat:[0-9]+}_{rest}.csv", "rater": ""}
    said = pytest.raises(ValueError, read_ratings, given, tmp_path).value.args[0]
    assert "a file's name must fit" in said and "'gpt_seed_x_all.csv'" in said
    (tmp_path / "gpt_seed_x_all.csv").rename(tmp_path / "a_b_c.csv")
    said = pytest.raises(ValueError, read_ratings, {**given, "files": "{rater}_{repeat}.csv"}, tmp_path).value.args[0]
    assert "in one way" in said and "say what may stand in a place" in said


def test_more_cells_than_columns_and_fewer(tmp_path):
    refused(tmp_path, HEAD + "i,r,3,4\n", "got 4 cells for 3 columns (r.csv:2)")
    got = reads(tmp_path, HEAD + "i,r,3\nj,r\n")
    assert counted(got) == {"rated": 1, "missing": 1}


def test_outside_text_and_missing_are_counted_by_name(tmp_path):
    got = reads(tmp_path, HEAD + "a,r,3\nb,r,6\nc,r,three\nd,r,\ne,r,99\nf,r,4.5\n", missing=["99"])
    assert counted(got) == {"rated": 2, "missing": 2, "outside": 2, "declared missing": 1, "no number": 1}
    assert "1 times '6' lies outside the scale (1 to 5) and is left out" in got.notes


def test_a_code_in_bulk_is_asked_about_and_not_guessed(tmp_path):
    body = "".join(f"i{k},r,{0 if k < 4 else 3},{0 if k < 4 else 2}\n" for k in range(9))
    more = {"value": "s_{criterion}", "criterion": ["a", "b"]}
    got = reads(tmp_path, "item,rater,s_a,s_b\n" + body, **more)
    assert counted(got) == {"rated": 10, "outside": 8}
    assert got.asks == [
        "Does 0 mean that nobody rated? It stands 8 times outside 1 to 5, in all 2 criteria of an answer at once for 4 "
        "answers: say `missing: [0]` if so, or widen the scale."
    ]
    assert not reads(tmp_path, "item,rater,s_a,s_b\n" + body, **more, missing=["0"]).asks


def test_ids_are_text_and_words_are_words(tmp_path):
    got = reads(tmp_path, HEAD + "12345678901234567890,007,NA\n1,007,None\n", scale=["NA", "None"])
    assert named(got, "item", "rater", "label")[0] == ("12345678901234567890", "007", "NA")
    got = reads(tmp_path, '{"item": 12345678901234567890, "rater": "a", "score": 3}\n', name="r.jsonl")
    assert got.frame["item"].tolist() == ["12345678901234567890"]


def test_yes_no_and_on_are_words(tmp_path):
    (tmp_path / "r.csv").write_text(HEAD + "a,r,Yes\nb,r,No\nc,r,on\n")
    (tmp_path / "d.yaml").write_text("files: r.csv\nitem: item\nrater: rater\nvalue: score\nscale: [Yes, No, on]\n")
    assert read_ratings(tmp_path / "d.yaml").frame["label"].tolist() == ["Yes", "No", "on"]


def test_descriptions_that_do_not_fit(tmp_path):
    text = HEAD + "i,r,3\n"
    refused(tmp_path, text, "colour must fit", colour="red")
    refused(tmp_path, text, "scale must be the least and the largest number", scale="5")
    refused(tmp_path, text, "scale must be declared", scale=None)
    refused(tmp_path, text, "one pattern that fits each rater; got 0 for 'r'", kind={"judge": "x.*"})
    refused(tmp_path, text, "rater must not be empty", rater="=")
    refused(tmp_path, text, "criterion must be the list of columns", value="{criterion}")


def test_a_fixed_kind_is_declared_and_a_column_may_hold_it(tmp_path):
    got = reads(tmp_path, "item,rater,score,what\ni,r,3,person\ni,j,3,judge\n", kind="what")
    assert got.frame["kind"].tolist() == ["person", "judge"]
    refused(tmp_path, "item,rater,score,what\ni,r,3,boss\n", "kind must be of person", "r.csv:2", kind="what")


# ---------------------------------------------------------------- out again, guesses, and speed


def test_the_record_goes_out_as_csv_and_comes_back_the_same(tmp_path):
    text = "item,rater,score,persona,note\ni 1,clinician_a,3,Lena,x\ni 1,expert_b,2.5,Lena,y\n"
    kinds = {"person": "clinician_.*", "adjudicator": "expert_.*"}
    got = reads(tmp_path, text, kind=kinds, within={"persona": "persona"}, release="A release", criterion="=whole")
    ratings_csv(got, tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text(encoding="utf-8").partition("\n")[0] == ",".join(Rating.model_fields)
    assert ratings_of_file(tmp_path / "out.csv") == got.records()
    assert {r.kind for r in got.records()} == {"person", "adjudicator"} and got.records()[0].item_id == "i-1"


def test_the_command_guesses_reads_and_writes(tmp_path, capsys):
    rows = [
        f"c{p}{m},x{k},m{m},p{p},{(p + k) % 5 + 1},{(p * m + k) % 5 + 1}"
        for p in range(8)
        for m in (0, 1)
        for k in range(6)
    ]
    (tmp_path / "r.csv").write_text("\n".join(["conversation_id,clinician_id,provider_llm,persona,by_a,by_b", *rows]))
    told = str(tmp_path / "r.yaml")
    assert main(["ratings", str(tmp_path / "r.csv"), "--to", told]) == 0
    assert main(["ratings", told, "--to", str(tmp_path / "out.csv")]) == 0
    said = capsys.readouterr().out
    assert "192 ratings" in said and "all criteria, pooled" in said
    table = read_ratings(Path(told))
    assert table.counts.to_string(index=False) in said and "scale of a, b: 1 to 5" in said
    assert ratings_of_file(tmp_path / "out.csv") == table.records()
    assert (tmp_path / "out.csv").stat().st_mode & 0o77 == 0  # ratings are personal data
    Path(told).write_text("corrected")
    assert main(["ratings", str(tmp_path / "r.csv"), "--to", told]) != 0 and Path(told).read_text() == "corrected"
    assert "must not be there yet" in capsys.readouterr().err
    Path(told).unlink()
    assert main(["ratings", str(tmp_path / "r.csv"), "--to", told]) == 0
    source = (tmp_path / "r.csv").read_text()  # what the description reads is no place for what it gives
    assert main(["ratings", told, "--to", str(tmp_path / "r.csv")]) != 0 and (tmp_path / "r.csv").read_text() == source
    assert "must not be there yet" in capsys.readouterr().err
    assert main(["ratings", told, "--to", str(tmp_path / "r.html")]) != 0
    assert "mhbench new-study NAME DESCRIPTION" in capsys.readouterr().err and capsys.readouterr()
    (tmp_path / "else").mkdir()
    away = str(tmp_path / "else" / "r.yaml")
    assert main(["ratings", str(tmp_path / "r.csv"), "--to", away]) == 0
    assert f"its file is elsewhere: read it with --from {tmp_path.resolve()}" in capsys.readouterr().out
    assert main(["ratings", away]) != 0 and "name its folder (mhbench ratings --from)" in capsys.readouterr().err
    assert main(["ratings", away, "--from", str(tmp_path)]) == 0
    assert main(["panel", "design", told, "--width", "3"]) == 0
    assert "the cheapest first" in capsys.readouterr().out
    assert main(["ratings", str(tmp_path / "none.csv")]) != 0
    with pytest.raises(FileNotFoundError, match="read_ratings: description must be a file; got .*none.yaml"):
        read_ratings(tmp_path / "none.yaml")


def test_a_sheet_and_an_encoding_are_named_once_and_kept(tmp_path, capsys):
    rows = [["item", "rater", "target", "score"], *([f"q{k}", r, "m", k % 5 + 1] for k in range(8) for r in "ab")]
    rows[1][1] = "Jörg"
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    book.create_sheet("Notes").append(["seen"])
    book.save(tmp_path / "two.xlsx")
    (tmp_path / "old.csv").write_bytes("\n".join(",".join(map(str, row)) for row in rows).encode("cp1252"))
    assert main(["ratings", str(tmp_path / "two.xlsx")]) != 0
    assert "say it with --sheet, or as `sheet: NAME` in the description" in capsys.readouterr().err
    for file, words in (("two.xlsx", ["--sheet", "Sheet"]), ("old.csv", ["--encoding", "cp1252"])):
        described = tmp_path / f"{file}.yaml"
        assert main(["ratings", str(tmp_path / file), *words, "--to", str(described)]) == 0
        assert main(["ratings", str(described)]) == 0
        assert "16 ratings" in capsys.readouterr().out
        assert "Jörg" in set(read_ratings(described).frame["rater"])


def test_one_rater_alone_is_told_to_have_nobody_to_agree_with(tmp_path, capsys):
    rows = "".join(f"q{k},r1,m,{k % 5 + 1}\n" for k in range(10))
    (tmp_path / "one.csv").write_text("item,rater,target,score\n" + rows, encoding="utf-8")
    assert main(["ratings", str(tmp_path / "one.csv"), "--to", str(tmp_path / "one.yaml")]) == 0
    assert main(["ratings", str(tmp_path / "one.yaml")]) == 0
    assert "agreement: none, since fewer than two persons rated" in capsys.readouterr().out


def test_guesses_are_read_as_they_stand(tmp_path):
    file = tmp_path / "r.csv"
    file.write_text(
        "conversation_id,clinician_id,by_a,by_b,age\n"
        + "".join(f"c{k},x{k % 3},{k % 5 + 1},{k % 4 + 1},5{k}\n" for k in range(9))
    )
    guess = guess_description(file)
    (tmp_path / "d.yaml").write_text(guess.text())
    assert counted(read_ratings(tmp_path / "d.yaml")) == {"rated": 18}


SIMULATED = Path(__file__).parent / "data" / "simulated" / "ratings.yaml"


@pytest.mark.whole
def test_a_release_is_a_study_whose_tables_are_on_the_page_of_the_run(clone, tmp_path, monkeypatch):
    folder = shutil.copytree(clone, tmp_path / "clone", symlinks=True)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("MHBENCH_ROOT", str(folder))
    assert main(["new-study", "talks", str(SIMULATED), "--yes"]) == 0
    assert main(["select", "--studies", "talks"]) == 0
    chosen = load_params(folder / "params.yaml")["run"]
    assert (chosen["studies"], chosen["ratings"]) == ([], ["talks"])
    run(BIN / "dvc", "repro", cwd=folder)
    kept = ratings_of_file(folder / "results" / "text" / "talks" / "ratings" / "ratings.parquet")
    table = read_ratings(SIMULATED)
    assert kept == table.records() and len(kept) == table.counts["rated"].sum() == 446
    ratings_csv(table, tmp_path / "out.csv")
    assert ratings_of_file(tmp_path / "out.csv") == kept
    tables = {
        t["name"] for t in json.loads((folder / "results/studies/talks/ratings/contents.json").read_text())["tables"]
    }
    assert {"rated", "agreement", "pairs", "means", "spread", "changed", "judges"} <= tables
    page = (folder / "results" / "report.html").read_text()
    assert "The spread of ratings, taken apart" in page
    assert "changes a person&#39;s rating most" in page and "the ratings of talks" in page.lower()
    kept_of = json.loads((folder / "results/inputs/ratings/talks.json").read_text())["files"]
    assert "ratings.csv" in json.dumps(kept_of) and "description" in json.dumps(kept_of)


def plain_reader(folder: Path, files, criteria) -> tuple[list[dict], dict]:
    "What one would write for this release alone: every cell checked, every rating a row, twins refused, all counted."
    rows, counts, seen = [], {}, set()
    for file, rater in files:
        book = openpyxl.load_workbook(folder / file, read_only=True, data_only=True)
        lines = book[book.sheetnames[0]].iter_rows(values_only=True)
        header = [str(c).strip() for c in next(lines)]
        for n, line in enumerate(lines, 2):
            row = dict(zip(header, line))
            for column, cell in row.items():
                if not column.startswith("judge_response_"):
                    continue
                target = column.removeprefix("judge_response_")
                text = (cell or "").strip()
                try:
                    found = json.loads(text.removeprefix("```json").removesuffix("```"))
                except ValueError:
                    found = {}
                for criterion in criteria:
                    value = found.get(criterion)
                    key = (str(row["ConvID"]), target, rater, criterion)
                    why = "rated" if isinstance(value, int | float) and 1 <= value <= 5 else "missing"
                    counts[rater, criterion, why] = counts.get((rater, criterion, why), 0) + 1
                    if why != "rated":
                        continue
                    if key in seen:
                        raise ValueError(f"twice: {key}")
                    seen.add(key)
                    rows.append(
                        dict(
                            zip(("item", "target", "rater", "criterion"), key), score=float(value), place=f"{file}:{n}"
                        )
                    )
        book.close()
    return rows, counts


@pytest.mark.whole
def test_140_000_ratings_in_four_workbooks_take_as_long_as_a_plain_reader(tmp_path):
    criteria = ["Guidance", "Informativeness", "Relevance", "Safety", "Empathy", "Helpfulness", "Understanding"]
    files = [(f"{r}_llm_judge.xlsx", r) for r in ("a", "b", "c", "d")]
    for file, rater in files:
        book = openpyxl.Workbook(write_only=True)
        sheet = book.create_sheet()
        sheet.append(["ConvID", "context", *(f"judge_response_m{k}" for k in range(10))])
        for n in range(500):
            said = lambda k: {c: (n + k + j) % 5 + 1 for j, c in enumerate(criteria)} | {"Explanation": "w " * 120}
            sheet.append([n, "text " * 60, *("```json\n" + json.dumps(said(k), indent=1) + "\n```" for k in range(10))])
        book.save(tmp_path / file)
    given = {
        "files": "{rater}_llm_judge.xlsx",
        "item": "ConvID",
        "kind": "judge",
        "scale": "1..5",
        "criterion": criteria,
    }
    spent = {}
    for _ in range(2):
        for name, reader in (
            ("plain", lambda: len(plain_reader(tmp_path, files, criteria)[0])),
            (
                "ours",
                lambda: len(read_ratings(given | {"value": "judge_response_{target} > {criterion}"}, tmp_path).frame),
            ),
        ):
            start = time.process_time()
            assert reader() == 140_000
            spent[name] = min(spent.get(name, 1e9), time.process_time() - start)
    print(spent)
    assert spent["ours"] <= 1.2 * spent["plain"], spent


@pytest.mark.whole
def test_the_releases_at_hand(datasets):
    here = Path(datasets) / "ratings"
    if not here.is_dir():
        pytest.skip("no real corpora at datasets/ratings")
    vera = read_ratings(DESCRIBED / "vera-clinicians.yaml", here / "vera-mh")
    assert vera.counts[["rated", "missing", "outside"]].sum().tolist() == [1350, 0, 0]
    assert counted(read_ratings(DESCRIBED / "vera-judge.yaml", here / "vera-mh"))["rated"] == 40
    people = yaml.load((DESCRIBED / "mentalbench.yaml").read_text(), yaml.BaseLoader)
    people = {k: v for k, v in people.items() if k != "parts"} | people["parts"][0]
    got = read_ratings(people, here / "mentalbench")
    assert got.counts[["rated", "missing", "outside"]].sum().tolist() == [69352, 640, 8] and not got.asks
    got = read_ratings(people | {"missing": []}, here / "mentalbench")
    assert got.counts[["rated", "missing", "outside"]].sum().tolist() == [69352, 409, 239]
    assert "Does 0 mean that nobody rated? It stands 231 times" in got.asks[0] and "for 33 answers" in got.asks[0]


# -- what a workbook shows beside its values


def workbook(path, change=lambda sheet: None):
    book = openpyxl.Workbook()
    sheet = book.active
    for row in (["item", "rater", "score"], *([f"i{k // 2}", f"r{k % 2}", k % 5 + 1] for k in range(8))):
        sheet.append(row)
    change(sheet)
    book.save(path)
    return {"files": path.name, "item": "item", "rater": "rater", "value": "score", "scale": "1..5"}


def test_a_formula_without_its_value_is_not_a_missing_rating(tmp_path):
    given = workbook(tmp_path / "a.xlsx", lambda sheet: sheet.__setitem__("C4", "=SUM(D4:F4)"))
    with pytest.raises(ValueError, match=r"formula must have a stored value; got '=SUM\(D4:F4\)' \(a.xlsx:4\)"):
        read_ratings(given, tmp_path)


def stored_formula(path, cell_xml):
    "A workbook with a formula, and what Excel stores with it."
    given = workbook(path)
    with zipfile.ZipFile(path) as z:
        members = {m: z.read(m) for m in z.namelist()}
    sheet = "xl/worksheets/sheet1.xml"
    members[sheet] = re.sub(rb'<c r="C4"[^/]*>.*?</c>', cell_xml, members[sheet])
    with zipfile.ZipFile(path, "w") as z:
        for name, raw in members.items():
            z.writestr(name, raw)
    return given


def test_a_formula_with_its_value_is_one_and_an_empty_text_is_missing(tmp_path):
    got = read_ratings(stored_formula(tmp_path / "a.xlsx", b'<c r="C4"><f>1+1</f><v>2</v></c>'), tmp_path)
    assert got.frame["score"].tolist() == [1, 2, 2, 4, 5, 1, 2, 3]
    assert got.notes == ["1 cells are formulas; the values stored with them are taken"]
    given = stored_formula(tmp_path / "b.xlsx", b'<c r="C4" t="str"><f>IF(1,"","")</f><v></v></c>')
    got = read_ratings(given, tmp_path)
    assert (len(got.frame), got.counts["missing"].sum()) == (7, 1)


def test_a_merged_cell_is_that_of_every_row_that_it_covers(tmp_path):
    def merge(sheet):
        for first in (2, 4, 6, 8):
            sheet.merge_cells(f"A{first}:A{first + 1}")
        sheet.merge_cells("C8:C9")
        sheet.row_dimensions[3].hidden = True

    got = read_ratings(workbook(tmp_path / "a.xlsx", merge), tmp_path)
    assert got.frame["item"].tolist() == [f"i{k // 2}" for k in range(8)]
    assert got.frame["score"].tolist()[-2:] == [2, 2] and got.counts["missing"].sum() == 0
    notes = ["5 merged cells count for every row that they cover", "1 hidden rows are read like the others"]
    assert got.notes == notes
    wide = workbook(tmp_path / "b.xlsx", lambda sheet: sheet.merge_cells("B3:C3"))
    assert read_ratings(wide, tmp_path).notes == ["1 cells merged over several columns count for the first alone"]


def test_a_row_of_means_is_asked_about(tmp_path):
    got = read_ratings(workbook(tmp_path / "a.xlsx", lambda sheet: sheet.append(["Mean", "r0", 2.5])), tmp_path)
    assert got.asks == ["Is 'Mean' an item, or a row of means or sums (a.xlsx:10)? If so, take that row out."]


@pytest.mark.parametrize(
    ("text", "value"),
    [("+2", 2.0), ("\u22122", -2.0), ("2,5", 2.5), ("1,000", None), ("2%", None), ("<2", None), ("2-3", None)],
)
def test_what_is_a_number(text, value):
    assert as_number(text) == value


def test_a_row_that_is_cut_and_a_file_without_rows_are_named(tmp_path):
    given = {"files": "*.csv", "item": "item", "rater": "rater", "criterion": ["a", "b"], "value": "{criterion}"}
    (tmp_path / "one.csv").write_text("item,rater,a,b\nx,r,1,2\ny,r,1\n")
    (tmp_path / "two.csv").write_text("item,rater,a,b\n")
    got = read_ratings(given | {"scale": "1..2"}, tmp_path)
    assert (len(got.frame), got.counts["missing"].sum()) == (3, 1)
    cut = "1 rows are shorter than their header, and lack what follows"
    assert got.notes == [cut, "1 files hold no row that counts"]
