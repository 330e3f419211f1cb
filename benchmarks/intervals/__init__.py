"""The kinds of intervals whose coverage is measured: a file a family, a list `KINDS` in each."""
