"""How a handler or a hook is ended that would go on while its system goes back to a snapshot."""


class Interrupted(BaseException):
    """Raised in the thread that runs the handlers. Only this thread's own loop catches it."""
