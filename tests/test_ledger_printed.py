"""The ledgers of the two papers whose answers are not released: what follows from which printed number, that a slip in
any of them would be found, and that what rounding explains is nobody's slip.
"""

from dataclasses import replace
from importlib.resources import files

import pytest

from mhbench.ledger.claims import load_claims, read_printed
from mhbench.ledger.verdicts import judge_claims

VERDICTS = {
    "psychiatrybench": {"cannot": 335, "equal": 205, "differs": 16, "convention": 3},
    "medqade": {"cannot": 55, "equal": 50, "convention": 4},
}


def ledger(study: str):
    return load_claims(str(files("mhbench") / "studies" / study / "claims.yaml"))


@pytest.mark.parametrize("study", VERDICTS)
def test_every_claim_has_its_verdict_without_any_run(study):
    found = judge_claims(ledger(study))
    assert found["verdict"].value_counts().to_dict() == VERDICTS[study]
    assert "no_run" not in set(found["reason"])
    differs = found[found["verdict"] == "differs"]
    assert (differs["note"] != "").all(), "a difference without its evidence"


def test_the_agreement_table_follows_its_formula_with_two_rows_interchanged():
    found = judge_claims(ledger("psychiatrybench")).set_index("claim")
    column = found[found.index.str.endswith("/Format Agreement")]
    assert column["verdict"].tolist() == ["differs", "equal", "equal", "differs", "differs"]
    assert column["value"].round(1).tolist() == [75.6, 95.2, 85.4, 91.0, 93.2]
    assert set(found[found["column"] == "AVG."]["verdict"]) == {"equal", "differs"}  # section 5.2 has 83.5 for 81.5
    assert found.loc["Section 5.2/Sonnet 4.5/AVG.", "value"] == pytest.approx(81.5)


def altered(text: str, units: int) -> str:
    "A printed number moved by units of its last digit, a percent sign and all."
    digits = [k for k, c in enumerate(text) if c.isdigit()]
    whole = text[digits[0] : digits[-1] + 1]
    places = len(whole.partition(".")[2])
    moved = float(whole.replace(",", "")) + units * 10**-places
    return text[: digits[0]] + f"{moved:.{places}f}" + text[digits[-1] + 1 :]


@pytest.mark.parametrize("study", VERDICTS)
def test_a_number_altered_on_purpose_is_found(study):
    "Twenty-five of the numbers that are equal as printed, each moved by four units of its last digit, one at a time."
    claims = ledger(study)
    equal = judge_claims(claims).query("verdict == 'equal' and not printed.str.contains('[<>~]')").index
    for k in equal[:: len(equal) // 25]:
        text = altered(claims.claims[k].printed, 4)
        one = replace(claims.claims[k], printed=text, number=read_printed(text))
        found = judge_claims(replace(claims, claims=[*claims.claims[:k], one, *claims.claims[k + 1 :]]))
        assert found["verdict"][k] == "differs", (one.id, claims.claims[k].printed, text)
