"""A crawler: several actors fetch the pages of a site, which they find by the links on the pages before."""

import asyncio
import re

import ray
from ray.util.queue import Queue


@ray.remote(num_cpus=0)
class Site:
    """Serves pages that it keeps in memory."""

    def __init__(self, size):
        self.size, self.served = size, 0

    def links(self, page):
        """The pages that a page leads to."""
        return sorted({(3 * page + 1) % self.size, (5 * page + 2) % self.size, page // 2})

    async def fetch(self, page):
        """The text of a page."""
        await asyncio.sleep(0.01)
        self.served += 1
        return "\n".join(f'<a href="/{other}">page {other}</a>' for other in self.links(page))

    async def title(self, page):
        """The title of a page."""
        return f"page {page}, with {len(self.links(page))} links"


@ray.remote(num_cpus=0)
class Index:
    """What was found. It puts each page on the frontier once, and at the end a None for each crawler."""

    def __init__(self, frontier, crawlers):
        self.frontier, self.crawlers = frontier, crawlers
        self.found, self.seen = {}, {0}
        frontier.put(0)

    def add(self, page, title, links):
        """Note what is on a page."""
        self.found[page] = title, links
        for link in links:
            if link not in self.seen:
                self.seen.add(link)
                self.frontier.put(link)
        if len(self.found) == len(self.seen):
            for _ in range(self.crawlers):
                self.frontier.put(None)

    def read(self):
        """Title and links of each page."""
        return self.found


@ray.remote(num_cpus=0)
class Crawler:
    """Takes a page from the frontier, fetches it, and gives what it finds to the index."""

    def __init__(self, site, frontier, index):
        self.site, self.frontier, self.index, self.fetched = site, frontier, index, 0

    async def crawl(self):
        """Until the frontier says that all is done; returns how many pages it fetched."""
        while True:
            page = await self.frontier.get_async()
            if page is None:
                break
            text, title = await asyncio.gather(self.site.fetch.remote(page), self.site.title.remote(page))
            links = [int(link) for link in re.findall(r'href="/(\d+)"', text)]
            await self.index.add.remote(page, title, links)
            self.fetched += 1
        return self.fetched


def run(size=300, crawlers=3):
    """Crawl a site of that size; returns how many pages were fetched, and title and links of each."""
    frontier, site = Queue(actor_options={"num_cpus": 0}), Site.remote(size)
    index = Index.remote(frontier, crawlers)
    team = [Crawler.remote(site, frontier, index) for _ in range(crawlers)]
    fetched = ray.get([crawler.crawl.remote() for crawler in team])
    return sum(fetched), ray.get(index.read.remote())


if __name__ == "__main__":
    print(run())
