"""Messages in flight: one object for each message that can be told apart."""

from __future__ import annotations

from typing import Any

import attrs

from virtuallog_simulation.explorer.canonical_form import form_of


@attrs.define(eq=False)
class MessageInFlight:
    """A message on its way. Equal ones are the same object."""

    number: int
    sender: int
    receiver: int
    call: Any
    """Name of the call for its sender, as plain values; answers carry it back."""
    body: Any = attrs.field(repr=False)
    text: str


@attrs.define(eq=False)
class MessageTable:
    """All messages that have been sent in any state."""

    messages: list[MessageInFlight] = attrs.field(factory=list)
    _numbers: dict[Any, int] = attrs.field(factory=dict)
    _texts: dict[str, int] = attrs.field(factory=dict)

    def add(self, sender: int, receiver: int, call: Any, body: Any, text: str) -> MessageInFlight:
        """The message with these contents. Its text tells it apart from others between the same two."""
        key = (sender, receiver, call, form_of(body))
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.messages)
            text = f"{sender}>{receiver} {text}"
            assert self._texts.setdefault(text, number) == number, f"two messages read {text!r}"
            self.messages.append(MessageInFlight(number, sender, receiver, call, body, text))
        return self.messages[number]
