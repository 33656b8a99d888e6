"""The connection machine: two of them back to back, no streams, no clock."""

from __future__ import annotations

from typing import Any, TypeVar

import attrs
import pytest

from tests.virtuallog.rpc.connection_pair import Pair, server_with
from tests.virtuallog.rpc.shop import IDENTITY, Store, Stored, Visit, Wait, Waited, schema
from virtuallog.contract.capnp_interface import Interface, Method
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import (
    MalformedError,
    OverloadedError,
    SealedError,
    TooLargeError,
    UnavailableError,
    UnsupportedError,
    WrongRecipientError,
)
from virtuallog.contract.types import NodeId
from virtuallog.contract.versions import SPOKEN, Versions
from virtuallog.rpc.protocol import message_writer
from virtuallog.rpc.protocol.answers import KEPT_MAX
from virtuallog.rpc.protocol.events import ConnectionFailed, OpenRefused, ReturnArrived
from virtuallog.rpc.protocol.frames import FRAME_BYTES_MAX
from virtuallog.rpc.protocol.messages import RPC
from virtuallog.rpc.protocol.methods import bind
from virtuallog.rpc.protocol.node import Hello, Identity, NodeOpened, OpenNode
from virtuallog.rpc.protocol.questions import QUESTIONS_MAX

STORE = Store(segment=SegmentId(3, 9), batch=b"entries", position=17)
HERE = OpenNode(cluster=IDENTITY.cluster, node=IDENTITY.node, store_id=IDENTITY.store_id, boot=IDENTITY.boot)


SpeakerT = TypeVar("SpeakerT", OpenNode, Identity)


def speaking(who: SpeakerT, versions: tuple[int, int]) -> SpeakerT:
    return attrs.evolve(who, protocol_first=versions[0], protocol_last=versions[1])


def opened() -> Pair:
    pair = Pair()
    pair.client.questions.open(HERE)
    pair.to_server()
    pair.to_client()
    pair.to_server()
    return pair


def test_bootstrap_open_and_calls_leave_in_one_flight() -> None:
    """One trip to the server, one back, and the first calls are answered."""
    pair = Pair()
    opening = pair.client.questions.open(HERE)
    first, second = pair.client.questions.call(STORE), pair.client.questions.call(Wait(5))

    (answer, request), (other_answer, other_request) = pair.arrived()
    assert (request, other_request) == (STORE, Wait(5))
    pair.server.answers.respond(answer, Stored(18))
    pair.server.answers.respond(other_answer, Waited(5))

    assert pair.returned() == {opening: NodeOpened(SPOKEN.last), first: Stored(18), second: Waited(5)}


def test_calls_after_open_name_the_capability() -> None:
    """Once open is answered, a call costs two messages and nothing is left behind on either side."""
    pair = opened()
    question = pair.client.questions.call(STORE)
    ((answer, request),) = pair.arrived()
    pair.server.answers.respond(answer, Stored(1))

    assert request == STORE
    assert pair.returned() == {question: Stored(1)}
    assert pair.client.outbox.take() == []
    assert pair.server.answers._answers == {}
    assert pair.client.questions._waiting == {}


def test_returns_may_come_in_any_order() -> None:
    """Returns may come in another order than their questions."""
    pair = opened()
    questions = [pair.client.questions.call(Wait(token)) for token in range(3)]
    for answer, request in reversed(pair.arrived()):
        assert isinstance(request, Wait)
        pair.server.answers.respond(answer, Waited(request.token))

    assert pair.returned() == {question: Waited(token) for token, question in enumerate(questions)}


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"cluster": b"x" * 16}, "cluster"),
        ({"node": NodeId(2)}, "node"),
        ({"store_id": b"x" * 16}, "data directory"),
        ({"boot": 5}, "boot"),
    ],
)
def test_wrong_recipient_executes_nothing(change: dict[str, Any], what: str) -> None:
    """If open fails, every call behind it fails with the same error and never reaches a handler."""
    pair = Pair()
    opening = pair.client.questions.open(attrs.evolve(HERE, **change))
    question = pair.client.questions.call(STORE)

    assert pair.arrived() == []
    outcomes = pair.returned()
    assert isinstance(outcomes[opening], WrongRecipientError)
    assert outcomes[opening].what == what
    assert repr(outcomes[question]) == repr(outcomes[opening])


def test_what_is_not_expected_is_not_checked() -> None:
    """Empty and zero fields match anything; a cluster that is not bootstrapped has no id yet."""
    pair = Pair(server=server_with(attrs.evolve(IDENTITY, cluster=b"")))
    opening = pair.client.questions.open(OpenNode())
    pair.to_server()

    assert pair.returned() == {opening: NodeOpened(SPOKEN.last)}
    mismatch = OpenNode(cluster=b"c").answer_untrusted(attrs.evolve(IDENTITY, cluster=b""))
    assert repr(mismatch) == repr(WrongRecipientError("cluster", "63", "none yet"))


def test_a_directory_that_has_not_heard_of_the_first_register_is_known_by_its_store_id() -> None:
    """A directory that does not know the register yet is known by its store id, so that it can be
    told the first version."""
    early = attrs.evolve(IDENTITY, cluster=b"")

    assert OpenNode(cluster=b"c", store_id=IDENTITY.store_id).answer_untrusted(early) == NodeOpened(SPOKEN.last)
    assert isinstance(OpenNode(cluster=b"c", store_id=b"other").answer_untrusted(early), WrongRecipientError)


@pytest.mark.parametrize(
    ("ours", "theirs", "agreed"),
    [((1, 2), (1, 2), 2), ((1, 2), (1, 1), 1), ((1, 1), (1, 2), 1), ((1, 2), (2, 9), 2), ((2, 3), (1, 2), 2)],
)
def test_both_sides_speak_the_newest_version_that_both_know(
    ours: tuple[int, int], theirs: tuple[int, int], agreed: int
) -> None:
    """Both sides speak the newest common version, whichever is older; calls behind the open are
    served."""
    pair = Pair(server=server_with(speaking(IDENTITY, theirs)))
    opening = pair.client.questions.open(speaking(HERE, ours))
    pair.client.questions.call(STORE)

    assert [request for _, request in pair.arrived()] == [STORE]
    assert pair.returned()[opening] == NodeOpened(agreed)


@pytest.mark.parametrize("theirs", [(90, 99), (1, 1)])
def test_without_a_common_version_both_sides_say_why(theirs: tuple[int, int]) -> None:
    """Without a common version the node refuses and logs it; the caller, and calls behind the open,
    get the reason."""
    pair = Pair(server=server_with(speaking(IDENTITY, theirs)))
    opening = pair.client.questions.open(speaking(HERE, (2, 3)))
    question = pair.client.questions.call(STORE)

    (refused,) = pair.to_server()
    assert isinstance(refused, OpenRefused)
    outcomes = pair.returned()
    assert isinstance(outcomes[opening], UnsupportedError)
    assert repr(outcomes[question]) == repr(outcomes[opening]) == repr(refused.error)
    assert f"the node speaks versions {theirs[0]} to {theirs[1]}, its caller 2 to 3" in str(refused.error)


def test_a_node_that_knows_no_versions_speaks_the_first() -> None:
    """A node that knows no versions speaks the first; a caller that does not speak it leaves by
    itself."""
    pair = Pair(server=server_with(speaking(IDENTITY, (1, 1))))
    opening = pair.client.questions.open(speaking(HERE, (1, 2)))
    pair.client.questions._spoken = Versions(2, 2)
    pair.to_server()

    (outcome,) = pair.returned().values()
    assert isinstance(outcome, UnsupportedError)
    assert "the node speaks versions 1, its caller 2 to 2" in str(outcome)
    assert opening == 1


@pytest.mark.parametrize("announced", [(3, 1), (0, 0), (0, 65535), (65535, 0)])
def test_any_range_that_is_announced_is_answered(announced: tuple[int, int]) -> None:
    """Any announced range, with any numbers, gets an answer."""
    agreed = Versions(1, 2).agree_untrusted(*announced)
    assert agreed == (2 if announced == (0, 65535) else None)


def test_hello_says_who_is_there() -> None:
    """Hello is answered by the connection itself, even behind an open that checks nothing."""
    pair = Pair()
    pair.client.questions.open(OpenNode())
    question = pair.client.questions.call(Hello())
    pair.to_server()

    assert pair.returned()[question] == IDENTITY


@pytest.mark.parametrize(
    "error",
    [SealedError(), OverloadedError("full"), UnavailableError("no majority"), UnsupportedError("no such thing")],
)
def test_error_keeps_its_class_and_fields(error: Any) -> None:
    """A caller gets the error of the handler, with class and fields."""
    pair = opened()
    question = pair.client.questions.call(STORE)
    ((answer, _),) = pair.arrived()
    pair.server.answers.respond(answer, error)

    assert repr(pair.returned()) == repr({question: error})


def test_error_that_is_a_novel_is_cut_short() -> None:
    """A long error is cut short."""
    pair = opened()
    pair.client.questions.call(STORE)
    ((answer, _),) = pair.arrived()
    pair.server.answers.respond(answer, UnavailableError("why \x00\u2028" * 100_000))

    assert pair.server.outbox.waiting_bytes < 8192
    ((_, outcome),) = pair.returned().items()
    assert isinstance(outcome, UnavailableError)


def test_unknown_interface_is_unsupported() -> None:
    """An unknown interface is unsupported, and the connection goes on."""
    pair = opened()
    question = pair.client.questions.call(Visit())

    assert pair.arrived() == []
    assert isinstance(pair.returned()[question], UnsupportedError)
    pair.client.questions.call(STORE)
    assert len(pair.arrived()) == 1


def test_request_of_no_interface_is_not_sent() -> None:
    """A client cannot call an interface that it was not given."""
    pair = opened()
    pair.server.questions._node = 0
    with pytest.raises(UnsupportedError):
        pair.server.questions.call(Visit())


def test_abandoned_question_is_answered_in_silence() -> None:
    """After an early finish the server sends no reply, and the return is not reported."""
    pair = opened()
    question = pair.client.questions.call(STORE)
    pair.client.questions.abandon(question)
    pair.client.questions.abandon(question)
    ((answer, _),) = pair.arrived()
    pair.server.answers.respond(answer, Stored(1))

    assert pair.returned() == {}
    assert pair.client.questions._waiting == {}
    assert pair.client.questions._abandoned == set()
    assert pair.server.answers._answers == {}


def test_reply_that_crossed_the_finish_is_dropped() -> None:
    """A reply that crosses an early finish is dropped."""
    pair = opened()
    question = pair.client.questions.call(STORE)
    ((answer, _),) = pair.arrived()
    pair.server.answers.respond(answer, Stored(1))
    pair.client.questions.abandon(question)

    assert pair.returned() == {}
    assert pair.to_server() == []
    assert pair.server.failure is None


def test_questions_are_bounded() -> None:
    """Calls to a node that does not answer pile up to a limit, then are refused, unsent."""
    pair = opened()
    for _ in range(QUESTIONS_MAX):
        pair.client.questions.call(Wait(1))
    pair.client.outbox.take()

    with pytest.raises(OverloadedError):
        pair.client.questions.call(Wait(1))
    assert pair.client.outbox.take() == []


@pytest.mark.parametrize("asks", ["bootstraps", "opens"])
def test_kept_answers_are_bounded(asks: str) -> None:
    """A client that asks for the node again and again without ever finishing is cut off."""
    pair = opened()
    for question in range(1000, 1000 + KEPT_MAX + 1):
        if asks == "bootstraps":
            pair.client.outbox.put(message_writer.bootstrap(question))
        else:
            pair.client.questions.call(OpenNode(boot=9))
    failures = [event for event in pair.to_server() if isinstance(event, ConnectionFailed)]

    assert len(failures) == 1
    assert isinstance(failures[0].error, MalformedError)


def test_finished_answers_make_room_for_others() -> None:
    """A client that finishes its questions may open the node as often as it likes."""
    pair = opened()
    for _ in range(4 * KEPT_MAX):
        question = pair.client.questions.call(OpenNode())
        pair.to_server()
        assert isinstance(pair.returned()[question], NodeOpened)

    assert pair.to_server() == []
    assert pair.server.failure is None


@pytest.mark.parametrize(
    "wrong", [OpenNode(cluster=b"x" * (8 << 20)), OpenNode(store_id=b"x" * (8 << 20))], ids=["c", "s"]
)
def test_an_id_of_megabytes_is_refused_in_a_few_words(wrong: OpenNode) -> None:
    """The error about a wrong id is short: it is kept for calls that build on the open."""
    pair = opened()
    question = pair.client.questions.call(wrong)
    pair.to_server()
    kept = [answer.outcome for answer in pair.server.answers._answers.values()]

    assert isinstance(pair.returned()[question], MalformedError)
    assert kept
    assert max(len(repr(outcome)) for outcome in kept) < 200


def test_request_too_large_for_a_frame_is_not_sent() -> None:
    """A request too large for a frame is refused at once, and the question is free again."""
    pair = opened()
    with pytest.raises(TooLargeError):
        pair.client.questions.call(attrs.evolve(STORE, batch=b"x" * FRAME_BYTES_MAX))
    assert pair.client.outbox.take() == []
    assert pair.client.questions._waiting == {}


def test_large_data_crosses_in_several_segments() -> None:
    """Data beyond the first segment of a message crosses in several segments."""
    pair = opened()
    request = attrs.evolve(STORE, batch=bytes(range(256)) * 4096)
    pair.client.questions.call(request)

    assert [request for _, request in pair.arrived()] == [request]


def test_question_asked_twice_ends_the_connection() -> None:
    """A broken protocol ends the connection on both sides, and both stay silent from then on."""
    pair = opened()
    pair.client.questions.call(Wait(1))
    pair.client.outbox.put(message_writer.bootstrap(pair.client.questions._next - 1))
    pair.client.questions.call(Wait(2))

    *_, failed = pair.to_server()
    assert isinstance(failed, ConnectionFailed)
    assert isinstance(failed.error, MalformedError)
    *_, told = pair.to_client()
    assert isinstance(told, ConnectionFailed)
    assert "asked twice" in str(told.error)
    pair.client.questions.call(Wait(3))
    assert pair.to_server() == []


def test_call_to_what_was_never_exported_ends_the_connection() -> None:
    """A call to a capability other than number 0 ends the connection."""
    pair = opened()
    pair.client.questions._node = 1
    pair.client.questions.call(STORE)

    (failed,) = pair.to_server()
    assert isinstance(failed, ConnectionFailed)


def test_client_offers_no_node() -> None:
    """A server that asks back is refused, politely."""
    pair = opened()
    question = pair.server.questions.open(OpenNode())
    pair.to_client()
    outcomes = [event.outcome for event in pair.to_server() if isinstance(event, ReturnArrived)]

    assert len(outcomes) == 1
    assert isinstance(outcomes[0], UnsupportedError)
    assert question not in pair.server.questions._waiting


@pytest.mark.parametrize("kind", ["resolve", "disembargo", "provide", "accept", "join", "obsoleteSave"])
def test_what_we_do_not_speak_is_sent_back(kind: str) -> None:
    """An unknown message is sent back unimplemented, and the connection goes on."""
    pair = opened()
    message = message_writer._BUILDER().init_root(message_writer._MESSAGE_SCHEMA)
    message.init(kind)
    pair.client.outbox.put(message.to_segments())

    assert pair.to_server() == []
    returned = b"".join(pair.server.outbox.take())
    with RPC.Message.from_bytes(returned) as reader:
        assert str(reader.which()) == "unimplemented"
        assert str(reader.unimplemented.which()) == kind
    assert pair.server.failure is None


def test_call_that_is_sent_back_fails() -> None:
    """A call that an old peer sends back as unknown fails."""
    pair = opened()
    question = pair.client.questions.call(STORE)
    frame = b"".join(pair.client.outbox.take())
    with RPC.Message.from_bytes(frame) as call:
        pair.server.outbox.put(message_writer.unimplemented(call))

    assert isinstance(pair.returned()[question], UnsupportedError)


def test_abort_ends_the_connection() -> None:
    """An abort of the other side ends the connection with its reason."""
    pair = opened()
    pair.server.outbox.put(message_writer.abort("enough of this"))

    (failed,) = pair.to_client()
    assert isinstance(failed, ConnectionFailed)
    assert "enough of this" in str(failed.error)


def test_unanswered_calls_are_accounted_for() -> None:
    """A driver stops reading by the counts of unanswered calls; they go back to zero."""
    pair = opened()
    answers = pair.server.answers
    for _ in range(3):
        pair.client.questions.call(STORE)
    arrived = pair.arrived()
    assert answers.pending_calls == 3
    assert answers.pending_call_bytes > 3 * len(STORE.batch)

    for answer, _ in arrived:
        answers.respond(answer, Stored(1))
    assert (answers.pending_calls, answers.pending_call_bytes) == (0, 0)


def test_one_class_cannot_be_the_request_of_two_methods() -> None:
    """A request class belongs to one method only: else a call would not know its target."""
    twice = tuple(Method(name=name, request=Hello, reply=Stored) for name in ("store", "store"))
    with pytest.raises(TypeError):
        bind([Interface(schema=schema().Shop, methods=twice)])
    with pytest.raises(TypeError, match="no method"):
        bind([Interface(schema=schema().Shop, methods=(Method(name="buy", request=Wait, reply=Waited),))])
