"""The conclusions of `virtuallog explain`, pure: evidence, and one module of findings for each topic. Imports only `virtuallog` and the database's messages."""
