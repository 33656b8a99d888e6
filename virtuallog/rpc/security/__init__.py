"""Identity and permissions of callers: certificates, the TLS stream, and the roles of methods.

Imports the contract, trio and ssl only.
"""
