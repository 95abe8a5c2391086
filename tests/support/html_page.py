"""Read a page of HTML as a browser would: links, ids, text, and the addresses that the browser would fetch."""

from __future__ import annotations

from html.parser import HTMLParser

VOID = {"meta", "link", "br", "img", "input", "hr"}
FETCHING = {"src", "srcset", "data", "poster", "action", "formaction", "background"}


class HtmlPage(HTMLParser):
    """One page of HTML; the tags must be nested correctly."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.texts: dict[str, str] = {}  # the text of each article, by the article's id
        self.styles: list[str] = []
        self._open: list[str] = []
        self._article = ""
        self.feed(text)
        self.close()
        assert self._open == [], "tags that are not closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.tags.add(tag)
        self.attributes |= given.keys()
        if tag not in VOID:
            self._open.append(tag)
        if (found := given.get("id")) is not None:
            self.ids.append(found)
        if tag == "a":
            self.links.append(given["href"] or "")
        elif "href" in given:
            self.fetched.append(given["href"] or "")
        self.fetched += [given[name] or "" for name in FETCHING & given.keys()]
        if tag == "article":
            self._article = given["id"] or ""

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag, self.getpos()
        if tag == "article":
            self._article = ""

    def handle_data(self, data: str) -> None:
        if self._open[-1:] == ["style"]:
            self.styles.append(data)
        if self._article:
            self.texts[self._article] = self.texts.get(self._article, "") + data
