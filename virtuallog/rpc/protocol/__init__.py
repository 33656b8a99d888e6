"""The RPC protocol without I/O: bytes in, events out; calls and replies in, bytes out.

Frames, messages, codecs, questions and answers of one connection. Imports no trio, clock, socket or
file; the only foreign library is pycapnp.
"""
