"""Actors that hold ObjectRefs, in a module that Ray's workers can import."""

import time

import ray

import rayshot


@rayshot.actor
class Librarian:
    def __init__(self):
        self.books = {}

    def put(self, title, text):
        self.books[title] = ray.put(text)

    def order(self, title, seconds):
        self.books[title] = write.remote(title, seconds)

    def order_in_vain(self, title):
        self.books[title] = fail.remote()

    def bind(self, title, parts):
        """One object that refers to others."""
        self.books[title] = ray.put([self.books[part] for part in parts])

    def keep(self, value):
        self.books["kept"] = value

    def drop(self, title):
        del self.books[title]

    def read(self, title):
        return ray.get(self.books[title])

    def read_bound(self, title):
        return ray.get(ray.get(self.books[title]))

    def kept(self):
        return self.books["kept"]

    def are_one(self, first, second):
        return self.books[first] is self.books[second]

    def copy(self, first, second):
        self.books[second] = self.books[first]


@rayshot.actor(capture="fork")
class ForkingLibrarian(Librarian):
    pass


@ray.remote
def write(title, seconds):
    time.sleep(seconds)
    return f"the text of {title}"


@ray.remote
def fail():
    raise ValueError("no ink")
