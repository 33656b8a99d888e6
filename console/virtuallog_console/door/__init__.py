"""The log over HTTP: append, read, and follow its tail as server-sent events. `curl` is client enough.

    POST /v1/entries              GET /v1/entries?from=      GET /v1/log
    GET  /v1/entries/{position}   GET /v1/tail               GET /v1/openapi.json

A caller needs `Role.CLIENT` for all of them. docs/howto/http.md has examples, and the table of errors.
"""
