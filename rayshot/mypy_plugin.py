"""A plugin for mypy: it knows the methods of handles whose classes are written as always, without `@rayshot.method`.

In pyproject.toml: `[tool.mypy]`, `plugins = ["rayshot.mypy_plugin"]`. See `rayshot help type-checkers`.

`rayshot/typed.pyi` has the types. The plugin does what no type can say:
- a class under `@rayshot.actor` gets the type of classes that have `remote` and `options`;
- `ActorHandle[Account]` becomes a type of its own, whose attributes are the methods of Account;
- where a call takes a value it takes an ObjectRef or Reply of such a value, too.
"""

import sys
from collections.abc import Callable
from functools import partial

from mypy.nodes import MDEF, SymbolTableNode, TypeInfo, Var
from mypy.plugin import (
    AnalyzeTypeContext,
    AttributeContext,
    ClassDefContext,
    FunctionSigContext,
    MethodSigContext,
    Plugin,
)
from mypy.types import (
    AnyType,
    CallableType,
    FunctionLike,
    Instance,
    Parameters,
    ParamSpecType,
    Type,
    TypeOfAny,
    TypeVarLikeType,
    UnionType,
    get_proper_type,
)

OLDEST = (1, 14)
"""Older versions of mypy get no help, and a word about it. The tests run the version that pip installs."""
TYPES = "rayshot.typed"
_HANDLE = f"{TYPES}.PluginsHandle"
_CLASSES_WITH_OWN_TYPE = ("builtins.type", "abc.ABCMeta", f"{TYPES}.ActorType")
_SENDS = (".tell", ".remote")


class RayshotPlugin(Plugin):
    """See the module."""

    def get_type_analyze_hook(self, fullname: str) -> Callable[[AnalyzeTypeContext], Type] | None:
        """Put the handle of the plugin into the place of the class."""
        return _handle_type if fullname == f"{TYPES}.Target" else None

    def get_class_decorator_hook(self, fullname: str) -> Callable[[ClassDefContext], None] | None:
        """Let decorated classes have `remote` and `options`, before mypy looks at the metaclasses of subclasses."""
        return _decorate if fullname == f"{TYPES}.actor" else None

    def get_attribute_hook(self, fullname: str) -> Callable[[AttributeContext], Type] | None:
        """Look attributes of handles up in the actor's class."""
        owner, _, name = fullname.rpartition(".")
        return partial(_attribute, name) if owner == _HANDLE else None

    def get_function_signature_hook(self, fullname: str) -> Callable[[FunctionSigContext], FunctionLike] | None:
        """Let `ray.wait` take and give a list of what it is called with."""
        return self._waits if fullname.startswith("ray.") and fullname.endswith(".worker.wait") else None

    def _waits(self, context: FunctionSigContext) -> FunctionLike:
        ours = self.lookup_fully_qualified(f"{TYPES}.rays_wait")  # None where only others import Ray
        return ours.type if ours is not None and isinstance(ours.type, CallableType) else context.default_signature

    def get_method_signature_hook(self, fullname: str) -> Callable[[MethodSigContext], FunctionLike] | None:
        """Let references be arguments."""
        return self._takes_references if fullname.endswith(_SENDS) else None

    def _takes_references(self, context: MethodSigContext) -> FunctionLike:
        """The signature of `tell` or `remote`, with a reference beside each value."""
        signature, sender = context.default_signature, get_proper_type(context.type)
        if isinstance(sender, CallableType) and sender.is_type_obj():
            kind = sender.type_object().metaclass_type
            if kind is None or kind.type.fullname != f"{TYPES}.ActorType":
                return signature
            if sender.variables:  # of a generic class: they follow from the arguments
                made = Instance(self._class("PluginsHandle"), [sender.ret_type])
                signature = sender.copy_modified(ret_type=made, fallback=signature.fallback)
        elif not isinstance(sender, Instance) or not sender.type.fullname.startswith(f"{TYPES}."):
            return signature
        reference = self._class("Reply").bases[0]
        if not reference.args:  # Ray is not installed where mypy looks
            return signature
        return signature.copy_modified(arg_types=[_or_reference(one, reference) for one in signature.arg_types])

    def _class(self, name: str) -> TypeInfo:
        found = self.lookup_fully_qualified(f"{TYPES}.{name}")
        assert found is not None, "mypy has met another class of the module"
        assert isinstance(found.node, TypeInfo)
        return found.node


def _handle_type(context: AnalyzeTypeContext) -> Type:
    given = context.type.args
    arguments = [context.api.analyze_type(one) for one in given] or [AnyType(TypeOfAny.from_omitted_generics)]
    return context.api.named_type(_HANDLE, arguments)


def _decorate(context: ClassDefContext) -> None:
    info, kind = context.cls.info, context.api.named_type_or_none(f"{TYPES}.ActorType")
    if kind is None:
        return
    if info.metaclass_type is None or info.metaclass_type.type.fullname in _CLASSES_WITH_OWN_TYPE:
        info.declared_metaclass = info.metaclass_type = kind
        return
    for name in ("remote", "options"):  # a class has one metaclass; that of pydantic stays
        unchecked = Var(name, AnyType(TypeOfAny.special_form))
        unchecked.info, unchecked.is_classvar = info, True
        unchecked._fullname = f"{info.fullname}.{name}"  # noqa: SLF001 - as mypy's own plugins do
        info.names[name] = SymbolTableNode(MDEF, unchecked, plugin_generated=True)


def _attribute(name: str, context: AttributeContext) -> Type:
    """What a handle has under that name: a Method with the parameters and the result of the actor's own."""
    handle, found = get_proper_type(context.type), get_proper_type(context.default_attr_type)
    if not isinstance(handle, Instance) or handle.type.fullname != _HANDLE or handle.type.get(name):
        return found
    actor = get_proper_type(handle.args[0])
    if isinstance(actor, TypeVarLikeType):
        actor = get_proper_type(actor.upper_bound)
    if not isinstance(actor, Instance) or not isinstance(found, Instance):
        return found
    if name.startswith("__") or not actor.type.has_readable_member(name):
        context.api.fail(f'Actor class "{actor.type.name}" has no method "{name}"', context.context)
        return AnyType(TypeOfAny.from_error)
    checker = getattr(context.api, "expr_checker", None)
    if checker is None:  # of another mypy
        return found
    own = get_proper_type(checker.analyze_external_member_access(name, actor, context.context))
    if isinstance(own, CallableType):
        parameters = Parameters(own.arg_types, own.arg_kinds, own.arg_names, variables=own.variables)
        return found.copy_modified(args=[parameters, _result(own.ret_type)])
    if not isinstance(own, FunctionLike | AnyType):
        context.api.fail(f'"{name}" of actor class "{actor.type.name}" is not a method', context.context)
    return found


def _result(returned: Type) -> Type:
    """What the caller of a method gets that returns this."""
    proper = get_proper_type(returned)
    if isinstance(proper, Instance) and proper.type.fullname in ("typing.Coroutine", "types.CoroutineType"):
        return proper.args[2]
    if isinstance(proper, Instance) and proper.type.fullname == f"{TYPES}.Reply":
        return proper.args[0]
    return returned


def _or_reference(value: Type, reference: Instance) -> Type:
    if isinstance(get_proper_type(value), ParamSpecType):  # all arguments of a function that is not known
        return value
    return UnionType.make_union([value, reference.copy_modified(args=[value])])


def plugin(version: str) -> type[Plugin]:
    """What mypy calls, with its version."""
    parts = version.split(".")[:2]
    if all(part.isdecimal() for part in parts) and tuple(map(int, parts)) < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        sys.stderr.write(f"rayshot.mypy_plugin needs mypy {oldest} or newer, this is {version}: it does nothing\n")
        return Plugin
    return RayshotPlugin
