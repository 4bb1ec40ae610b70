"""A crawler: several actors fetch the pages of a site, which they find by the links on the pages before."""

import asyncio
import re

import ray

import rayshot


@rayshot.actor(num_cpus=0)
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


@rayshot.actor(num_cpus=0)
class Index:
    """What was found. It puts each page on the frontier once, and at the end a None for each crawler."""

    def __init__(self, frontier, crawlers, done):
        self.frontier, self.crawlers, self.done = frontier, crawlers, done
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
            self.done.set()

    def read(self):
        """Title and links of each page."""
        return self.found


@rayshot.actor(num_cpus=0)
class Crawler:
    """Takes a page from the frontier, fetches it, and gives what it finds to the index."""

    def __init__(self, site, frontier, index):
        self.site, self.frontier, self.index, self.fetched = site, frontier, index, 0

    async def crawl(self):
        """Until the frontier says that all is done."""
        async for page in rayshot.loop(self.frontier.get):
            if page is None:
                break
            text, title = await asyncio.gather(self.site.fetch.remote(page), self.site.title.remote(page))
            links = [int(link) for link in re.findall(r'href="/(\d+)"', text)]
            await self.index.add.remote(page, title, links)
            self.fetched += 1

    async def count(self):
        """How many pages it fetched."""
        return self.fetched


def run(size=300, crawlers=3):
    """Crawl a site of that size; returns how many pages were fetched, and title and links of each."""
    frontier, done, site = rayshot.Queue(), rayshot.Event(), Site.remote(size)
    index = Index.remote(frontier, crawlers, done)
    team = [Crawler.remote(site, frontier, index) for _ in range(crawlers)]
    for crawler in team:
        crawler.crawl.tell()
    done.wait()
    fetched = ray.get([crawler.count.remote() for crawler in team])
    return sum(fetched), ray.get(index.read.remote())


if __name__ == "__main__":
    with rayshot.init("crawler", storage="./shots", fresh=True):
        print(run())
