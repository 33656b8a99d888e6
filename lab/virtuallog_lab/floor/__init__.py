"""The floor: the trip of a durable append with trio, Cap'n Proto and one disk thread, and with nothing else.

One client, a sequencer that stores entries too, and two log servers, each a process, on loopback. A batch goes to the sequencer,
from there as a wave to two of three disks at least, and the acknowledgement goes back. What the product does besides
is left out: seal, sessions, checksums, repair, recovery, RPC questions, limits, a changing chain. So its figures show what the
machine and these libraries allow, and those of the product are given as ratios to them, measured in turn.

* A message leaves from within the callback that made it, by a non-blocking send. No task wakes up to send it.
* A socket is read until it would block before its task waits. Received frames go to a plain function.
* The log server of the sequencer is in its process and costs no message.
* A hop is one Cap'n Proto message, whose payload is a blob that is not parsed on the way.
* One thread for a disk takes all that waits, writes it, syncs once, and comes back with one call into the event loop.
"""
