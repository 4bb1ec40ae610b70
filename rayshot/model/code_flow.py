"""The instructions of a function, and which may follow which."""

import dis
from types import CodeType

_LEAVES = frozenset({"RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE"})
_JUMPS_AWAY = frozenset({"JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT", "JUMP_ABSOLUTE"})
_JUMPS = frozenset(dis.hasjrel) | frozenset(dis.hasjabs)


class Flow:
    """See the module. If it `raises`, what catches an exception may follow what raises it."""

    def __init__(self, code: CodeType, *, raises: bool = True) -> None:
        self.instructions = [*dis.get_instructions(code)]
        self.at = {one.offset: index for index, one in enumerate(self.instructions)}
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
