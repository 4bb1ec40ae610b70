"""The user half of one actor: the instance, its pending calls and its timers, without any transport.

A cell holds the actor's state; its port transports the messages.
"""

import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any
from weakref import WeakValueDictionary

from rayshot.errors import ActorExited, ConfigError, MessageNotSerializable, StateNotSerializable
from rayshot.format.codec import method_of_encoded
from rayshot.format.object_state import fill
from rayshot.format.paths import in_words
from rayshot.model.calls import EXPIRE, Continuation, Gathering, Interruption, LoopEnded, OpenCall, Question, Unanswered
from rayshot.model.child_names import ChildNames, random_name
from rayshot.model.dead_letters import DeadLetters
from rayshot.model.event_loop import Coroutines
from rayshot.model.handlers import Handlers, ToldHandlers, has_coroutines, one_by_one, to_completion
from rayshot.model.handling import Handling, LoopState, Parking
from rayshot.model.loop_check import came_to_none, check_loop
from rayshot.model.loop_tasks import handling_here
from rayshot.model.owed_answers import CallKey, OwedAnswers, may_answer_late
from rayshot.model.port import CellPort
from rayshot.model.specification import ActorSpecification
from rayshot.model.timer import Timers
from rayshot.model.versions import migrate
from rayshot.model.waits_first import check_places, locked_in, may_park, watching
from rayshot.protocol.identity import label_of

log = logging.getLogger("rayshot")
FORWARD, FORWARD_ERROR = "__forward__", "__forward_error__"
"""In place of methods: what comes of a call of this actor is its own answer to a call."""
TIME_UP = "__time_up__"
"""In place of a method: the time of a call is up that was left to be answered later."""


class Cell:
    """The user half of the actor `name`. Times are seconds by `clock`.

    `at_once` handlers may run in turns. `now` is the one that runs, and `number_now()` the number of its message on its
    channel, 0 if none is handled: who runs the cell sets this function. `open_calls` are the calls of handlers which
    have not left. `questions` are the calls, by their ids, whose replies are held by a handler, or by the state.
    `gatherings` wait for several of them. `owed` are the calls that were handled and are answered later;
    `answers_late`: there may be such calls to this actor. `parking` has the handlers that are part of the state where
    several run at once. `coroutines` runs `async def` handlers: close it when the actor is gone. `constructing`: the
    constructor runs, or has failed. `ending`: the actor asked for its end and handles no more messages. `shared`: its
    code got its own handle, so others may have it. `told` gets the name of each method that is called. `makers` are the
    drivers of programs with a name that sent its creation. `dead_letters` are the last messages that had no effect;
    they go where the state goes.
    """

    def __init__(
        self, name: str, port: CellPort, clock: Callable[[], float], coroutines: Coroutines | None = None
    ) -> None:
        self.name = name
        self.port = port
        self.coroutines = Coroutines(name) if coroutines is None else coroutines
        self.at_once = 1
        self._now = Handling(ChildNames(name))
        self.number_now: Callable[[], int] = lambda: 0
        self.specification: ActorSpecification | None = None
        self.instance: Any = None
        self.handlers: dict[str, Callable[..., Any]] = {}
        self.told: Callable[[str], None] | None = None
        self.open_calls: list[OpenCall] = []
        self.questions: WeakValueDictionary[int, Question] = WeakValueDictionary()
        self.gatherings: list[Gathering] = []
        self.owed = OwedAnswers(name, port, self._drop_time_out)
        self.answers_late = False
        self.timers = Timers(name, clock, lambda: port.codec)
        self.makers: frozenset[str] = frozenset()
        self.dead_letters = DeadLetters()
        self.parking = Parking()
        self._calls: dict[int, Continuation] = {}
        self.constructing = self.ending = self.shared = False
        self._next_call = 1
        self.clock = clock

    @property
    def now(self) -> Handling:
        """The handler that runs; if none does, one that stands for none."""
        found: Handling | None = handling_here.get() if self.at_once > 1 else None
        return self._now if found is None else found

    @property
    def born(self) -> bool:
        """Whether the constructor's message was processed."""
        return self.specification is not None

    # Handling --------------------------------------------------------------------------------------------------

    def handle(self, message: list[Any]) -> Any:
        """Process one message of any kind. Raises what the user's code raises, except for calls: they get an answer.

        If several handlers run at once, it returns what an `async def` handler gave: who called this awaits it.
        """
        match message[0]:
            case str(method):
                return self.handlers[method](*message[1:])
            case 1:
                return self._handle_call(message[1], message[2])
            case 2:
                return self._handle_reply(message[1], message[2], message[3])
            case 3:
                return self._create(message[1], message[2])
            case 4:
                return self._handle_end(dropped=message[1])
        method, args, kwargs = self.port.codec.decode_tell(message, self.now.slots)
        return self.handlers[method](*args, **kwargs)

    def _handle_call(self, call_id: int, tell: bytes) -> Any:
        now, method = self.now, ""
        now.call, now.is_left_to_later, now.is_owed = call_id, False, now.loop is not None
        try:
            method, args, kwargs = self.port.codec.decode_tell(tell, now.slots)
            result = self.handlers[method](*args, **kwargs)
            if self.at_once > 1 and isinstance(result, Coroutine):
                return self._finish_call(now, call_id, method, result)
        except BaseException as error:  # noqa: BLE001 - whatever a handler raises is its caller's, as with Ray
            self._raised(now, method, error)
        else:
            self._returned(now, method, result)
        finally:
            now.call = 0
        return None

    async def _finish_call(self, now: Handling, call_id: int, method: str, handler: Coroutine[Any, Any, Any]) -> None:
        now.call = call_id
        try:
            result = await handler
        except BaseException as error:  # noqa: BLE001 - as above
            self._raised(now, method, error)
        else:
            self._returned(now, method, result)

    def _returned(self, now: Handling, method: str, result: Any) -> None:
        """The handler of a call has returned this: its answer, or the reply of another call."""
        if issubclass(type(result), Unanswered):
            try:
                self._forward(result)
            except ConfigError as error:
                self._raised(now, method, error)
        elif not now.is_left_to_later:
            self._answer(now, result, ok=True)

    def _raised(self, now: Handling, method: str, error: BaseException) -> None:
        """The handler of a call has raised this."""
        match error:
            case Interruption():
                raise error  # the message is handled again, mostly in the next life, and the call answered there
            case SystemExit():
                self.end()
                why = f"actor {self.name!r} ended, its handler .{method} left with sys.exit() or exit_actor()"
                error = ActorExited(why, actor=self.name)
            case LoopEnded():
                error = ActorExited(f"actor {self.name!r} ended, and its loop in .{method} with it", actor=self.name)
            case Exception():
                pass
            case _:  # it must end neither this thread nor the caller
                error = RuntimeError(f"the handler raised {error!r}")
        self._answer(now, error, ok=False)

    def _answer(self, now: Handling, value: object, *, ok: bool) -> None:
        """Answer the call that is handled, also if it was left to a later handler, and that has not answered it."""
        if now.is_left_to_later or now.is_owed:
            self.owed.give((now.sender, now.call), value, ok=ok)
        else:
            self.port.answer(now.sender, now.call, value, ok=ok)

    def new_handling(self, sender: str, number: int, slots: Sequence[Any] = ()) -> Handling:
        """What belongs to a new handler, where several run at once."""
        return Handling(ChildNames(self.name), sender, number, slots)

    def park(self, now: Handling) -> None:
        """A state has this handler until `parking.go_on`."""
        if now.loop is None:
            assert now.message is not None, "who begins it keeps it"
            now.loop = LoopState(now.sender, now.number, now.message, slots=now.slots)
        self.may_be_in_state()
        self.parking.park(now)

    def may_be_in_state(self) -> None:
        """From now on a state may have the handler that runs: the answer to its call is owed."""
        now = self.now
        if now.call and not now.is_owed:
            self.owed.add((now.sender, now.call), self.number_now())
            now.is_owed = True

    def owe(self, timeout_s: float | None = None, otherwise: object = None) -> CallKey:
        """The call that is handled now is answered later; returns its caller and its id, 0 if no call is handled.

        See `answer_later`.
        """
        key = self.now.sender, self.now.call
        if self.now.call:
            if timeout_s is not None:
                self.timers.set(timeout_s, TIME_UP, (*key, otherwise))
            self.owed.add(key, self.number_now())
            self.now.is_left_to_later = True
        return key

    def _drop_time_out(self, key: CallKey) -> None:
        if self.timers:
            self.timers[:] = [one for one in self.timers if one.method != TIME_UP or one.args[:2] != key]

    def _forward(self, reply: Any) -> None:
        """The outcome of a call of this actor is the answer to the call that is handled now."""
        reply.become_question(self)
        question = reply.question
        key = self.owe()
        if question.is_answered:
            ok, value = self.outcome_of(question)
            self.owed.give(key, value, ok=ok)
        else:
            self.gatherings.append(Gathering((question,), {question.call_id}, FORWARD, FORWARD_ERROR, (key,)))

    @property
    def forwarded(self) -> dict[CallKey, Question]:
        """The calls whose outcomes are answers of this actor, by the calls that they answer."""
        return {one.context[0]: one.questions[0] for one in self.gatherings if one.method == FORWARD}

    def loop_begins(self) -> None:
        """A method that loops, or waits first, begins from its top."""
        self.now.is_in_loop = False
        self.now.done_above = self.done_so_far()

    def loop_ends(self) -> None:
        """Such a method has returned. Raises LoopNotRepeatable if its state was in the loop, and it came to none."""
        if (loop := self.now.loop) is not None and not self.now.is_in_loop:
            if loop.question is not None:
                self.port.channel(loop.question.callee).append(loop.drop_question(self.port.codec, self.name))
            raise came_to_none(type(self.instance), method_of_encoded(loop.message))

    def done_so_far(self) -> int:
        """How many messages this actor has sent and timers it has set: the same if the running handler did neither."""
        return self.port.sent_so_far() + len(self.timers)

    def _handle_reply(self, call_id: int, ok: bool, tell: bytes) -> Any:  # noqa: FBT001 - as it is on the wire
        if call_id < 0:
            self.take_answer(call_id, ok, tell, self.now.slots)
            gatherings = [one for one in self.gatherings if call_id in one.missing]
            return one_by_one([self._gathered(one, call_id) for one in gatherings])
        continuation = self._calls.pop(call_id)
        ok, value = self._read_reply(tell, self.now.slots, ok=ok)
        return self._continue(continuation, value, ok=ok)

    def _continue(self, named: Continuation | Gathering, value: Any, *, ok: bool) -> Any:
        if ok:
            return self.handlers[named.method](value, *named.context)
        if named.on_error is not None:
            return self.handlers[named.on_error](value, *named.context)
        raise value

    def take_answer(self, call_id: int, ok: bool, tell: bytes, slots: Sequence[Any]) -> bool:  # noqa: FBT001 - as on the wire
        """The answer to a question is here, maybe before its turn. Returns False if it was here, or nobody wants it."""
        question = self.questions.get(call_id)
        if question is None or question.is_answered:
            return False
        question.answer = ok, tell, slots
        return True

    def _gathered(self, gathering: Gathering, call_id: int) -> Any:
        """One more answer is there. If it is the last one, continue with the results, or with the first exception."""
        gathering.missing.remove(call_id)
        if gathering.missing:
            return None
        self.gatherings.remove(gathering)
        outcomes = [self.outcome_of(question) for question in gathering.questions]
        error = next((value for ok, value in outcomes if not ok), None)
        value = [value for _, value in outcomes] if error is None else error
        return self._continue(gathering, value, ok=error is None)

    def _read_reply(self, tell: bytes, slots: Sequence[Any], *, ok: bool) -> tuple[bool, Any]:
        try:
            _, (value,), _ = self.port.codec.decode_tell(tell, slots)
        except Exception as error:  # noqa: BLE001 - unpickling runs code of the value's class; its error is the outcome
            return False, MessageNotSerializable(f"the reply cannot be read here: {error!r}")
        return ok, value

    def _handle_end(self, *, dropped: bool) -> None:
        """End. If the creator has `dropped` the only handle, end only if nothing else can make this actor act."""
        if not (dropped and (self.may_still_act or self.port.has_own_mail())):
            self.end()

    @property
    def may_still_act(self) -> bool:
        """Whether something besides messages can make this actor act, or others may have its handle."""
        return bool(self.shared or self.timers or self._calls or self.gatherings or self.parking.handlers)

    def _create(self, packed: bytes, tell: bytes) -> None:
        if label_of(self.now.sender):
            self.makers |= {self.now.sender}
        if self.born:  # who made it did not know that the system goes back to where there is one of that name
            log.error("%s lives: that %s wants to create it again has no effect", self.name, self.now.sender)
        else:
            self._construct(packed, tell)

    def _construct(self, packed: bytes, tell: bytes) -> None:
        specification = ActorSpecification.unpack(packed)
        user_class = specification.resolve()
        _, args, kwargs = self.port.codec.decode_tell(tell, self.now.slots)
        self._become(specification, user_class)
        if self.told is not None:
            self.told("__init__")
        self.constructing = True
        with ExitStack() as unborn:
            unborn.callback(setattr, self, "specification", None)
            self.to_completion(self.instance.__init__)(*args, **kwargs)
            unborn.pop_all()
        self.constructing = False

    def to_completion(self, method: Callable[..., Any]) -> Callable[..., Any]:
        """A method of this actor; if it is `async def`, a function that calls it and waits for its end."""
        assert self.specification is not None
        is_async = has_coroutines(self.instance, self.specification.methods)
        return to_completion(method, self.coroutines, is_async=is_async)

    def _become(self, specification: ActorSpecification, user_class: Any) -> None:
        self.instance = user_class.__new__(user_class)
        self.at_once = specification.at_once
        if self.at_once > 1:
            self.parking.methods = frozenset(one for one in specification.methods if may_park(user_class, one))
        self.answers_late = self.at_once > 1 or may_answer_late(user_class)
        self._look_up(specification)
        self.specification = specification

    def _look_up(self, specification: ActorSpecification) -> None:
        watch = None if self.at_once == 1 else partial(watching, self, type(self.instance))
        of = self.instance, specification.methods, self.name, self.coroutines, self.loop_begins, self.loop_ends, watch
        self.handlers = found = Handlers(*of) if self.told is None else ToldHandlers(self.told, *of)
        found["__ray_ready__"] = found.in_turn(lambda: True)
        found["__ray_call__"] = found.in_turn(lambda function, *of, **named: function(self.instance, *of, **named))
        found["__ray_terminate__"] = found.in_turn(self.end)
        self.handlers[TIME_UP] = lambda caller, call_id, value: self.owed.give((caller, call_id), value, ok=True)
        self.handlers[EXPIRE] = lambda *key: self.owed.expire(key)
        self.handlers[FORWARD] = lambda results, key: self.owed.give(key, results[0], ok=True)
        self.handlers[FORWARD_ERROR] = lambda error, key: self.owed.give(key, error, ok=False)

    def drop(self) -> None:
        """Let go of the user's object: the actor goes back to a snapshot, and another object takes its place."""
        self.instance = None
        self.handlers = {}

    def tell_methods(self, told: Callable[[str], None] | None) -> None:
        """Call `told` with the name of each method that is called from now on; None: tell nobody."""
        self.told = told
        if self.specification is not None:
            self._look_up(self.specification)

    # Replies and timers ----------------------------------------------------------------------------------------

    def own_method(self, method: Callable[..., Any]) -> str:
        """The name of a bound method of this actor; raises ConfigError for anything else."""
        if getattr(method, "__self__", None) is self.instance and self.specification is not None:
            for name in (getattr(method, "__name__", ""), *self.specification.methods):
                if name in self.specification.methods and getattr(self.instance, name) == method:
                    return name
        raise ConfigError(f"{method!r} is not a bound method of this actor: give self.some_method")

    def await_reply(self, continuation: Continuation) -> int:
        """Keep a continuation until its reply comes; returns the call's id."""
        call_id = self._next_call
        self._next_call += 1
        self._calls[call_id] = continuation
        return call_id

    def ask(self) -> None:
        """The handler waits or has ended: its calls may leave, as questions where their replies are still held."""
        for call in self.open_calls:
            reply = None if call.reply is None else call.reply()
            if reply is not None:
                self.ask_for(call, reply)
        self.open_calls.clear()

    def ask_for(self, call: OpenCall, reply: Any) -> None:
        """The call of this Reply leaves as a question, if it has no id yet."""
        if call.call_id is None:
            call.call_id = -self._next_call
            self._next_call += 1
            reply.question = self.questions[call.call_id] = Question(call.call_id, reply.callee)

    def outcome_of(self, question: Question) -> tuple[bool, Any]:
        """Whether the answer is a result, and the result, or the exception instead. The question is answered.

        An exception is read anew each time: one that was raised has the frames of the handler, which hold the reply.
        """
        if question.outcome is not None:
            return question.outcome
        assert question.answer is not None, f"{question.callee} has not answered"
        ok, tell, slots = question.answer
        outcome = self._read_reply(tell, slots, ok=ok)
        if outcome[0]:
            question.outcome = outcome
        return outcome

    def after(self, seconds: float, method: Callable[..., Any], args: tuple[Any, ...]) -> None:
        """Set a timer. Raises ConfigError for an impossible time, MessageNotSerializable if `args` cannot be sent."""
        self.timers.set(seconds, self.own_method(method), args)

    def end(self) -> None:
        """End this actor when the running handler has ended. The wish to end is part of its state."""
        self.ending = True
        self.port.request_end()

    def name_child(self, class_name: str) -> str:
        """A name for an anonymous actor that the running handler makes; each call returns another one.

        If the message is handled again in a later life, the names are the same. Call on the handler's thread; if no
        message is handled there, as in a finalizer, the name is random.
        """
        number = self.number_now()
        return self.now.child_names.take(class_name, self.now.sender, number) if number else random_name(class_name)

    # State -----------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """The actor's whole state. Pickle it in one stream, so that two references to one object stay the same object.

        `state` is the result of `__getstate__()`: by default the `__dict__`; for a class with slots, the form that
        pickle uses. Raises StateNotSerializable if `__getstate__` raises.
        """
        assert self.born, f"{self.name} has no state yet"
        now = self.clock()
        callees = {key: c.callee for key, c in self._calls.items() if c.callee is not None}
        questions = {one.call_id: one for one in tuple(self.questions.values())}  # some may be let go meanwhile
        for one in questions.values():
            if one.is_answered and not (self.at_once == 1 and self.now.loop and one is self.now.loop.question):
                one.outcome = self.outcome_of(one)
        if self.at_once > 1 and (locked := locked_in(self.instance)):
            log.warning(
                "%s: %s is locked in this snapshot. If a handler that waits holds it, that waits for ever behind a "
                "restore: release it before the wait, or wait for an asyncio.Condition of it",
                self.name,
                ", ".join(locked),
            )
        try:
            state = self.instance.__getstate__()
        except (Exception, SystemExit) as error:
            why = f"{self.name}: __getstate__ raised {in_words(error)}"
            raise StateNotSerializable(why, path=self.name) from error
        return {
            "state": {} if state is None else state,
            "calls": {key: (c.method, c.on_error, c.context) for key, c in self._calls.items()},
            "timers": self.timers.recorded(now),
            "next_call": self._next_call,
            "ending": self.ending,
            **({"shared": True} if self.shared else {}),
            **({"makers": tuple(sorted(self.makers))} if self.makers else {}),
            **({"callees": callees} if callees else {}),
            **({"questions": questions} if questions else {}),
            **({"gatherings": self.gatherings} if self.gatherings else {}),
            **({"loop": self.now.loop.recorded(now, self.port.codec)} if self.now.loop is not None else {}),
            **({"parked": parked} if (parked := self.parking.recorded(now, self.port.codec)) else {}),
            **({"owed": dict(self.owed.numbers)} if self.owed.numbers else {}),
            **({"dead_letters": self.dead_letters.recorded()} if self.dead_letters else {}),
        }

    def become(self, specification: ActorSpecification, user_class: type) -> Any:
        """Become an actor without calling its constructor; returns the bare instance. `load` gives it its state."""
        self._become(specification, user_class)
        return self.instance

    def load(self, state: Mapping[str, Any], version: int) -> None:
        """Load a recorded state into this actor; `version` is the version of the class that recorded it.

        Raises MigrationFailed, and whatever the class raises when it does not accept the state.
        """
        assert self.specification is not None
        recorded = migrate(state["state"], version, type(self.instance), self.specification.version, self.name)
        fill(self.instance, recorded)
        callees = state.get("callees", {})
        self._calls = {
            key: Continuation(method, on_error, context, callees.get(key))
            for key, (method, on_error, context) in state["calls"].items()
        }
        now = self.clock()
        self.timers.load(state["timers"], now)
        self._next_call = state["next_call"]
        self.questions.update(state.get("questions", {}))
        self.gatherings = list(state.get("gatherings", ()))
        self.owed.load(state.get("owed", {}))
        if (loop := state.get("loop")) is not None:
            check_loop(type(self.instance), method_of_encoded(loop["message"]), self.name)
            self.now.loop = LoopState.read(loop, now)
        check_places(len(parked := state.get("parked", ())), self.at_once, self.name)
        for one in parked:
            method = method_of_encoded(one["message"])
            if one["question"] is not None or not hasattr(self.instance, method):
                check_loop(type(self.instance), method, self.name)
            self.parking.before.append(LoopState.read(one, now))
        self.shared = state.get("shared", False)
        self.makers = frozenset(state.get("makers", ()))
        self.dead_letters.take_over(state.get("dead_letters", ()))
        if state.get("ending"):  # it asked for its end, and the snapshot was recorded before it could leave
            self.end()
