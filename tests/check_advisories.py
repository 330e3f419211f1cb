"""Known advisories on the pinned requirements: those written down in advisories.tsv, which needs no network.

    python tests/check_advisories.py           # what is written down, compared with requirements.txt
    python tests/check_advisories.py --audit   # all that is known, where pip-audit and its service can be reached

The table is no feed: it finds a pin that is put back below a version in which something was mended, and names what is
pinned although nothing newer mends it. What was published since its date, only the service knows.
"""

import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from check_licences import ROOT, pinned
from packaging.specifiers import SpecifierSet

TABLE = Path(__file__).parent / "advisories.tsv"

ACCEPTED = {  # nothing newer mends these: why they may stay
    "CVE-2025-69872": "comes with DVC, whose folder of hashes the Makefile puts where its owner alone may write",
}


class Advisory(NamedTuple):
    "One line of the table."

    name: str
    affected: SpecifierSet
    identifier: str
    what: str


def _same(name: str) -> str:
    "A package's name as indexes compare it."
    return re.sub(r"[-_.]+", "-", name).lower()


def advisories() -> list[Advisory]:
    "What is written down."
    rows = [x.split("\t") for x in TABLE.read_text(encoding="utf-8").splitlines() if x and not x.startswith("#")]
    return [Advisory(_same(name), SpecifierSet(versions), i, what) for name, versions, i, what in rows]


def affected(pins: list[tuple[str, str]]) -> list[Advisory]:  # pins: (name, version)
    "The advisories that concern one of these versions."
    version = {_same(name): v for name, v in pins}
    return [a for a in advisories() if a.name in version and a.affected.contains(version[a.name], prereleases=True)]


if __name__ == "__main__":
    if "--audit" in sys.argv:
        known = [x for i in ACCEPTED for x in ("--ignore-vuln", i)]
        command = [sys.executable, "-m", "pip_audit", "--requirement", str(ROOT / "requirements.txt"), "--no-deps"]
        sys.exit(subprocess.run([*command, "--disable-pip", *known]).returncode)
    found = affected(pinned())
    for a in found:
        print(f"{a.name} {a.affected}\t{a.identifier}\t{a.what}\t{ACCEPTED.get(a.identifier, 'NOT ACCEPTED')}")
    named = {a.name for a in advisories()}
    print(
        f"{len(advisories())} advisories on {len(named)} of {len(pinned())} pinned packages; the others are not named"
    )
    sys.exit(any(a.identifier not in ACCEPTED for a in found))
