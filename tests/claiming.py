"""Slips on purpose: printed numbers altered as people alter them, for the tests of the ledger."""

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from mhbench.ledger.claims import CallOf, Claim, Claims, read_printed
from mhbench.ledger.release import Inventory
from mhbench.ledger.verdicts import Tables, judge_claims

SECOND_PAPER = """
paper: {name: Second paper}
no_release: No address is given.
claims:
- {place: Table 1, of: a, printed: "2", cannot: nowhere}
- {place: Table 1, of: difference, printed: "2", ours: {call: difference, of: [{printed: Table 1}, 1]}, id: d}
reasons: {nowhere: Not in the text.}
"""
SLIPS = ("last digit up", "last digit down", "first digit", "two digits swapped", "sign")


def _with_digit(text: str, at: int, change: int) -> str:
    return f"{text[:at]}{(int(text[at]) + change) % 10}{text[at + 1 :]}"


def slip(text: str, kind: str) -> str:
    "A printed number with one slip; the last digit instead, where it has no place for this one."
    at = [k for k, c in enumerate(text) if c.isdigit()]
    unequal = [k for k, m in zip(at, at[1:]) if text[k] != text[m] and m == k + 1]
    if kind == "first digit":
        return _with_digit(text, at[0], 1)
    if kind == "two digits swapped" and unequal:
        k = unequal[-1]
        return f"{text[:k]}{text[k + 1]}{text[k]}{text[k + 2 :]}"
    if kind == "sign" and read_printed(text).value:
        return text.replace("\u2212", "-").removeprefix("-") if text[0] in "-\u2212" else f"-{text}"
    return _with_digit(text, at[-1], -1 if kind == "last digit down" else 1)


def with_slips(claims: Claims, ids: Sequence[str]) -> Claims:
    "The same claims, those named with a slip each, every kind in turn."
    kinds = {name: SLIPS[k % len(SLIPS)] for k, name in enumerate(ids)}
    printed = {c.id: slip(c.printed, kinds[c.id]) for c in claims.claims if c.id in kinds}
    texts = [printed.get(c.id, c.printed) for c in claims.claims]
    changed = [replace(c, printed=t, number=read_printed(t)) for c, t in zip(claims.claims, texts)]
    return replace(claims, claims=changed)


def spread(ids: Sequence[str], n: int = 20) -> list[str]:
    "So many of them, from first to last."
    return [ids[k * len(ids) // n] for k in range(n)] if len(ids) >= n else list(ids)


def follows(claim: Claim) -> bool:
    "Whether a claim is computed from other printed numbers, and so changes with them."
    ways = [claim.ours, claim.otherwise, *claim.conventions.values()]
    return any("'printed'" in str(way.of) for way in ways if isinstance(way, CallOf))


def found_slips(
    claims: Claims, tables: Tables, altered: Sequence[str], inventory: Inventory | None = None
) -> tuple[pd.DataFrame, pd.DataFrame]:
    "The verdicts before and after these slips; asserts that all of them, and nothing else, are accused."
    before = judge_claims(claims, tables, inventory).set_index("claim")
    after = judge_claims(with_slips(claims, altered), tables, inventory).set_index("claim")
    missed = after.loc[altered].query("verdict != 'differs'")
    assert not len(missed), missed[["printed", "value", "verdict", "convention"]]
    same = ~before.index.isin(altered)
    verdict = [c for c in before if c != "basis"]  # which tells of a table's other numbers, too
    pd.testing.assert_frame_equal(before.loc[same, verdict], after.loc[same, verdict])
    return before, after


def twenty_in(claims: Claims, tables: Tables, inventory: Inventory | None = None) -> tuple[Claims, list[str]]:
    "Of claims on a real run those that stand on their own, and twenty of them that are equal as printed."
    alone = replace(claims, claims=[c for c in claims.claims if not follows(c)])
    verdict = judge_claims(alone, tables, inventory).set_index("claim")["verdict"]
    plain = [c.id for c in alone.claims if not (c.number.bound or c.random or c.conventions or "~" in c.printed)]
    return alone, spread([i for i in plain if verdict[i] == "equal"])
