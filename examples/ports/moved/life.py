"""The game of life on a board without borders: its stripes are actors, and a game gives each the rows beside it."""

import ray

import rayshot


@rayshot.actor(num_cpus=0)
class Stripe:
    """Some rows of the board."""

    def __init__(self, rows):
        self.rows, self.age = rows, 0

    def edges(self):
        """The first row and the last."""
        return self.rows[0], self.rows[-1]

    def step(self, above, below):
        """One generation, beside these rows."""
        board, width = [above, *self.rows, below], len(above)
        self.rows = [[self.lives(board, y, x, width) for x in range(width)] for y in range(1, len(board) - 1)]
        self.age += 1

    def lives(self, board, y, x, width):
        """Whether there is life in the next generation."""
        near = sum(board[y + dy][(x + dx) % width] for dy in (-1, 0, 1) for dx in (-1, 0, 1)) - board[y][x]
        return int(near == 3 or (near == 2 and board[y][x] == 1))

    def read(self):
        """The rows."""
        return self.rows


@rayshot.actor(num_cpus=0)
class Game:
    """Leads the stripes from generation to generation."""

    def __init__(self, board, stripes):
        height = len(board) // stripes
        self.stripes = [Stripe.remote(board[k * height : (k + 1) * height]) for k in range(stripes)]

    def play(self, generations):
        """So many more generations."""
        for _ in range(generations):
            edges = ray.get([stripe.edges.remote() for stripe in self.stripes])
            above = [last for _, last in edges[-1:] + edges[:-1]]
            below = [first for first, _ in edges[1:] + edges[:1]]
            ray.get([stripe.step.remote(*rows) for stripe, *rows in zip(self.stripes, above, below, strict=True)])

    def read(self):
        """The board."""
        return [row for rows in ray.get([stripe.read.remote() for stripe in self.stripes]) for row in rows]


GLIDER = {(1, 2), (2, 3), (3, 1), (3, 2), (3, 3)}
BOARD = [[int((y, x) in GLIDER) for x in range(12)] for y in range(12)]


def run(board=BOARD, rounds=30, stripes=3):
    """The board after that many times four generations."""
    game = Game.remote(board, stripes)
    for _ in range(rounds):
        ray.get(game.play.remote(4))
    return ray.get(game.read.remote())


if __name__ == "__main__":
    with rayshot.init("life", storage="./shots", fresh=True):
        print(*run(), sep="\n")
