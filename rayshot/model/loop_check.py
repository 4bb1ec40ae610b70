"""What a method with `rayshot.loop` must obey, as far as its bytecode shows it.

Behind a restore such a method begins anew from its top. So nothing may live across the top of its loop but the state.
"""

import dis
from collections.abc import Iterator
from functools import cache
from itertools import takewhile
from types import CodeType
from typing import NamedTuple

from rayshot.errors import LoopNotRepeatable, MigrationFailed
from rayshot.format.classes_by_value import attribute_of

LOOP = "loop"
_GET_ITERATOR = frozenset({"GET_ITER", "GET_AITER"})
_ITERATES = frozenset({"FOR_ITER", "GET_ANEXT"})
_GLOBAL = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF"})
_ATTRIBUTE = frozenset({"LOAD_ATTR", "LOAD_METHOD"})
_LEAVES = frozenset({"RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE"})
_ENDS = _LEAVES - {"RERAISE"}  # that is what Python itself does behind a `with` or an `except`
_JUMPS_AWAY = frozenset({"JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT", "JUMP_ABSOLUTE"})
_JUMPS = frozenset(dis.hasjrel) | frozenset(dis.hasjabs)
_BEGINS_NEXT = "EXTENDED_ARG"
"""Part of the instruction behind it, whose argument is a big number: a way to that leads to this."""
_OWN = frozenset({"END_ASYNC_FOR", "CLEANUP_THROW", "CALL_INTRINSIC_1"})
"""With these begins what Python itself does when an exception leaves an `async for` or a coroutine."""


class LoopTop(NamedTuple):
    """The top of a loop: the place of the instruction behind the call of `rayshot.loop` that iterates, and its line."""

    at: int
    line: int


class Flow:
    """See the module. If it `raises`, what catches an exception may follow what raises it."""

    def __init__(self, code: CodeType, *, raises: bool = True) -> None:
        self.instructions: list[dis.Instruction] = []
        self.at: dict[int, int] = {}
        for instruction in dis.get_instructions(code):
            self.at[instruction.offset] = len(self.instructions)
            if instruction.opname != _BEGINS_NEXT:
                self.instructions.append(instruction)
        self.after = [self._after(index, one) for index, one in enumerate(self.instructions)]
        for entry in dis.Bytecode(code).exception_entries if raises else ():  # type: ignore[attr-defined]  # typeshed does not know it
            for index, instruction in enumerate(self.instructions):
                if entry.start <= instruction.offset < entry.end:
                    self.after[index].append(self.at[entry.target])
        self.before: list[list[int]] = [[] for _ in self.instructions]
        for index, following in enumerate(self.after):
            for one in following:
                self.before[one].append(index)

    def _after(self, index: int, one: dis.Instruction) -> list[int]:
        following = [self.at[one.argval]] if one.opcode in _JUMPS else []
        if one.opname not in _LEAVES | _JUMPS_AWAY and index + 1 < len(self.instructions):
            following.append(index + 1)
        return following

    def end_of_for(self, index: int) -> int:
        """Where the loop ends that takes its items with this instruction."""
        one = self.instructions[index]
        if one.opname == "FOR_ITER":
            return self.at[one.argval]
        return max(self.after[index])  # what catches the end of an `async for` is behind its body

    def forget_end(self, index: int) -> None:
        """The loop that takes its items with this instruction never comes to their end: who leaves it breaks.

        A `break` of a plain `for` goes to where that ends too. An `async for` is ended by an exception, and only so.
        """
        end = self.end_of_for(index)
        is_plain = self.instructions[index].opname == "FOR_ITER"
        for one in [index] if is_plain else range(len(self.after)):
            self.after[one] = [following for following in self.after[one] if following != end]

    def cycle(self, start: int) -> set[int]:
        """The instructions that may run behind this one and before it comes again."""
        return reached(start, self.after) & reached(start, self.before)

    def live(self) -> list[set[str]]:
        """For each instruction the variables whose values may be used behind it, or by it."""
        live = [set[str]() for _ in self.instructions]
        changed = True
        while changed:
            changed = False
            for index in range(len(live) - 1, -1, -1):
                used, stored = variables(self.instructions[index])
                behind = set[str]().union(*(live[one] for one in self.after[index]))
                new = used | (behind - stored)
                changed |= new != live[index]
                live[index] = new
        return live


def reached(start: int, ways: list[list[int]]) -> set[int]:
    """The instructions to which these ways lead from an instruction."""
    found, left = set[int](), [start]
    while left:
        for one in ways[left.pop()]:
            if one not in found:
                found.add(one)
                left.append(one)
    return found


def variables(one: dis.Instruction) -> tuple[set[str], set[str]]:
    """The variables that an instruction uses, and those that it sets."""
    names = one.argval if isinstance(one.argval, tuple) else (one.argval,)
    match one.opname:
        case "STORE_FAST_LOAD_FAST":
            return {names[1]} - {names[0]}, {names[0]}
        case "STORE_FAST" | "STORE_FAST_STORE_FAST" | "DELETE_FAST" | "STORE_DEREF" | "DELETE_DEREF":
            return set(), {*names}
        case "LOAD_FAST_AND_CLEAR":  # a comprehension keeps a variable of the same name aside
            return set(), set()
        case name if name.startswith(("LOAD_FAST", "LOAD_DEREF", "LOAD_CLOSURE")):
            return {*names}, set()
    return set(), set()


@cache
def loop_heads(code: CodeType) -> tuple[LoopTop, ...]:
    """The loops over `rayshot.loop(...)` in a function. Raises LoopNotRepeatable if one breaks a rule; see the module.

    A loop that stands otherwise than `for item in rayshot.loop(...)` or `async for` is not found here.
    """
    if LOOP not in (*code.co_names, *code.co_varnames, *code.co_freevars):
        return ()
    flow = Flow(code)
    heads = tuple(_heads(flow))
    where = f"{code.co_qualname} ({code.co_filename}"
    if len(heads) > 1:
        raise LoopNotRepeatable(f"{where}:{heads[1].line}) has a second rayshot.loop: a method has one")
    for head in heads:
        said = f"{where}:{head.line})"
        if _is_guarded(code, flow, head):
            raise LoopNotRepeatable(
                f"{said} has its rayshot.loop inside `with` or `try`: what that holds would be held across the top of "
                "the loop, where snapshots are taken. Put it into the body"
            )
        if _is_in_for(flow, head):
            raise LoopNotRepeatable(
                f"{said} has its rayshot.loop inside another `for`, and nothing says behind a restore how far that "
                "was: count in `self`, and use `while`"
            )
        flow.forget_end(head.at)
        if carried := _carried(code, flow, head):
            raise LoopNotRepeatable(
                f"{said}: {', '.join(carried)} {'lives' if len(carried) == 1 else 'live'} across the top of the loop, "
                "and a restore begins the method anew: keep it in `self`"
            )
    return heads


def _heads(flow: Flow) -> Iterator[LoopTop]:
    for index, one in enumerate(flow.instructions):
        if one.opname not in _GET_ITERATOR or one.positions is None:
            continue
        if flow.instructions[index + 1].opname not in _ITERATES:  # a comprehension takes the items
            continue
        if _is_of_loop(flow, index):
            yield LoopTop(index + 1, one.positions.lineno or 0)


def _is_of_loop(flow: Flow, index: int) -> bool:
    """Whether what is iterated over is a call of a global `loop`, or of `loop` of a global: the call begins there."""
    call = flow.instructions[index - 1]
    place = call.positions
    if place is None or not call.opname.startswith("CALL"):
        return False
    for number in range(index - 1, -1, -1):
        one = flow.instructions[number]
        at = one.positions
        if at is not None and one.opname in _GLOBAL and (at.lineno, at.col_offset) == (place.lineno, place.col_offset):
            attributes = takewhile(lambda next_: next_.opname in _ATTRIBUTE, flow.instructions[number + 1 :])
            names = [one.argval, *(next_.argval for next_ in attributes)]
            return names[-1] == LOOP and len(names) <= 2  # noqa: PLR2004 - `loop`, or `rayshot.loop`
    return False


def _is_guarded(code: CodeType, flow: Flow, head: LoopTop) -> bool:
    """Whether code of the user's, in a `with` or a `try`, catches what is raised at the top of the loop."""
    entries = dis.Bytecode(code).exception_entries  # type: ignore[attr-defined]  # typeshed does not know it
    offset, seen = flow.instructions[head.at].offset, set[int]()
    while (entry := next((one for one in entries if one.start <= offset < one.end), None)) is not None:
        handler = flow.at[entry.target]
        if entry.target in seen or {one.opname for one in flow.instructions[handler : handler + 2]}.isdisjoint(_OWN):
            return entry.target not in seen
        seen.add(entry.target)
        offset = entry.target  # what Python's own code passes on
    return False


def _is_in_for(flow: Flow, head: LoopTop) -> bool:
    """Whether another `for` or `async for` is around the loop: it begins before its top, and ends behind it."""
    around = flow.instructions[: head.at]
    return any(one.opname in _ITERATES and flow.end_of_for(index) > head.at for index, one in enumerate(around))


def _carried(code: CodeType, flow: Flow, head: LoopTop) -> list[str]:
    """The variables that are set on a way from the top of the loop back to it, and used there before they are set.

    With those of a function around the method, which others may use.
    """
    stored = set[str]().union(*(variables(flow.instructions[index])[1] for index in flow.cycle(head.at)))
    return sorted(stored & (flow.live()[head.at] | {*code.co_freevars}))


def code_of(user_class: type, method: str) -> CodeType | None:
    """The code of a method of a class; None if there is none."""
    return getattr(attribute_of(user_class, method), "__code__", None)


def has_loop(user_class: type, method: str) -> bool:
    """Whether a method of a class has a loop over `rayshot.loop`. Raises as `loop_heads`."""
    code = code_of(user_class, method)
    return code is not None and bool(loop_heads(code))


@cache
def _is_endless(code: CodeType) -> bool:
    flow = Flow(code)
    for head in loop_heads(code):
        flow.forget_end(head.at)
        body, ways = {*flow.after[head.at]}, [*flow.after]
        ways[head.at] = []
        for first in tuple(body):
            body |= reached(first, ways)
        if _ENDS.isdisjoint(flow.instructions[index].opname for index in body):
            return True
    return False


def has_endless_loop(user_class: type, method: str) -> bool:
    """Whether a method of a class never ends once it loops: no `break`, `return` or `raise` leads out of its loop."""
    code = code_of(user_class, method)
    return code is not None and _is_endless(code)


def check_loop(user_class: type, method: str, actor: str) -> None:
    """A recorded state has this method of `user_class` between two passes of its loop.

    Raises MigrationFailed if the class has no such method, or if that does not loop.
    """
    if not has_loop(user_class, method):
        class_name = f"{user_class.__module__}.{user_class.__qualname__}"
        raise MigrationFailed(
            f"actor {actor!r}: its state has {class_name}.{method} between two passes of a rayshot.loop, and the class "
            f"{'has no loop in it' if attribute_of(user_class, method) else 'has no such method'}: what the loop has "
            "asked for would be lost. Keep the method, also if its loop only has a `break`, until it has ended",
            actor=actor,
            class_name=class_name,
            method=method,
        )


def came_to_none(user_class: type, method: str) -> LoopNotRepeatable:
    """What a method raises that was in its loop, was begun anew, and has ended without it."""
    return LoopNotRepeatable(
        f"{user_class.__qualname__}.{method} was between two passes of its rayshot.loop; begun anew, it came to none. "
        "What is above the loop must lead to it as long as there are passes: end a loop with `break`"
    )
