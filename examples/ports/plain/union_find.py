"""Which vertices of a graph belong together: union-find over shards that ask each other's buffers, in rounds."""

import ray


@ray.remote(num_cpus=0)
class Buffer:
    """One shard puts edges for the other shards here, and each of these takes its own."""

    def __init__(self):
        self.edges = {}

    def put(self, edges):
        """Keep these edges, by shard."""
        self.edges = edges

    def take(self, shard):
        """Give a shard its edges."""
        return self.edges.pop(shard, [])


@ray.remote(num_cpus=0)
class Shard:
    """Owns the vertices whose number leaves `me` when divided by the number of shards."""

    def __init__(self, me, buffers):
        self.me, self.buffers = me, buffers
        self.parents, self.before = {}, None

    def root(self, vertex):
        """The smallest vertex that is known to belong to this one."""
        while self.parents.get(vertex, vertex) != vertex:
            vertex = self.parents[vertex]
        return vertex

    def unite(self, edges):
        """Note that the ends of each edge belong together."""
        for one, other in edges:
            low, high = sorted((self.root(one), self.root(other)))
            self.parents[high] = low

    def collect(self):
        """Take the edges that all buffers have for this shard. Returns whether that changed anything."""
        waiting = [buffer.take.remote(self.me) for buffer in self.buffers]
        while waiting:
            done, waiting = ray.wait(waiting, num_returns=1)
            for edges in ray.get(done):
                self.unite(edges)
        links = {vertex: self.root(vertex) for vertex in self.parents}
        changed, self.before = links != self.before, links
        return changed

    def publish(self):
        """Tell the owners of both ends of each link about it."""
        edges = {}
        for vertex, root in (self.before or {}).items():
            for owner in {vertex % len(self.buffers), root % len(self.buffers)}:
                edges.setdefault(owner, []).append((vertex, root))
        ray.get(self.buffers[self.me].put.remote(edges))

    def groups(self):
        """The root of each vertex of this shard."""
        return {vertex: self.root(vertex) for vertex in self.parents if vertex % len(self.buffers) == self.me}


def run(edges, shards=3):
    """The smallest vertex of each vertex's group."""
    buffers = [Buffer.remote() for _ in range(shards)]
    owners = [Shard.remote(me, buffers) for me in range(shards)]
    ray.get([owner.unite.remote(edges[me::shards]) for me, owner in enumerate(owners)])
    while any(ray.get([owner.collect.remote() for owner in owners])):
        ray.get([owner.publish.remote() for owner in owners])
    found = ray.get([owner.groups.remote() for owner in owners])
    return {vertex: root for groups in found for vertex, root in groups.items()}


if __name__ == "__main__":
    print(run([(k, k + 7) for k in range(0, 60, 3)]))
