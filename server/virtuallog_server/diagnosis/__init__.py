"""Diagnosis of the log for `virtuallog explain`: `collector` gathers evidence, `core` draws conclusions. Imports no other room of the server.

    questions that change nothing -> LogEvidence -> findings, by topic -> text or JSON (`virtuallog_server.cli.cluster.explain_job`)

Evidence is of one moment, and its pieces of slightly different ones. So a finding says what was seen, and what that means if it
stays so.
"""
