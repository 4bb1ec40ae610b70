"""Objects that lie elsewhere, and references to them, without Ray."""

from rayshot.format import pickling


class Ref:
    """Stands for Ray's ObjectRef: the number of a value that lies elsewhere."""

    def __init__(self, number):
        self.number = number

    @staticmethod
    def there(slot):
        """The object of a slot's reference."""
        return pickling._references.get(slot.reference)


def put(value):
    """Put a value there."""
    return pickling._references.put(value)
