"""The licence of every pinned requirement, as the package itself declares it.

    python tests/check_licences.py        # the list

A licence that forbids what a research group does with this repository (use, change, pass on) is refused by the test
`tests/hostile/test_hostile_requirements.py`, and so is one that nobody has looked at.
"""

import re
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FREE = re.compile(
    r"(?i)\b(?:MIT|BSD|0BSD|Apache|PSF|Python Software Foundation|Python-2\.0|MPL|Mozilla Public|ISC|LGPL"
    r"|Lesser General|HPND|Unlicense|CC0|CNRI|Zlib|ZPL|Historical Permission|public domain|Gemma)\b"
)


def pinned() -> list[tuple[str, str]]:  # (name, version)
    "What requirements.txt pins."
    lines = (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    rows = [re.fullmatch(r"([A-Za-z0-9._-]+)==([^\s;#]+)\s*(?:[;#].*)?", x.strip()) for x in lines if x.strip()]
    kept = [x for x in lines if x.strip() and not x.startswith(("#", "--"))]
    odd = [x for x in kept if not re.match(r"[A-Za-z0-9._-]+==", x)]
    assert not odd, f"requirements.txt must pin every package; got {odd}"
    return [(m[1], m[2]) for m in rows if m]


def licence(name: str) -> str:
    "What a package says of its licence: the expression, the classifiers, or the first line of the field."
    try:
        m = metadata(name)
    except PackageNotFoundError:
        return "not installed"
    classified = [c.rpartition(" :: ")[2] for c in m.get_all("Classifier") or [] if c.startswith("License ::")]
    told = m.get("License-Expression") or ", ".join(classified) or (m.get("License") or "").strip().split("\n")[0]
    return told[:80] or "none declared"


if __name__ == "__main__":
    for name, version in pinned():
        print(f"{name}=={version}\t{licence(name)}")
