"""Pages of docs/reference that are made of the code: `python -m docs._generate` writes them, tests/test_docs.py compares.

One module a page, each with `page() -> str`; `source` reads Python files without importing them.
"""
