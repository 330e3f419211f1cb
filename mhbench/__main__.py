"""`python -m mhbench` is `mhbench`."""

from .run.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
