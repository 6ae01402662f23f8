"""The topic exchange: patterns of words, `*` for exactly one word, `#` for any number of them.

The patterns form a trie, one word an edge:

    stock.*.nyse      root --stock--> o --*--> o --nyse--> o {1}
    stock.#                            `--#--> o {2}

A key walks it with a set of nodes, all those its words so far can have led to, so no node is
visited twice for one word and `#.#.#.#` costs no more than its length.
"""

from __future__ import annotations

from typing import Final

from sluicemq.model.definitions import Destination, ExchangeDefinition
from sluicemq.routing.exchange import Exchange, Targets, distinct

ONE: Final = "*"
ANY: Final = "#"


class Node:
    """A place in the trie; `absorbs` when a `#` leads here: it takes any number of words more."""

    __slots__ = ("absorbs", "children", "targets")

    def __init__(self, absorbs: bool) -> None:
        self.absorbs = absorbs
        self.children: dict[str, Node] = {}
        self.targets: Targets = {}


class TopicExchange(Exchange):
    """Matches by walking a trie of patterns."""

    __slots__ = ("root",)

    def __init__(self, definition: ExchangeDefinition) -> None:
        super().__init__(definition)
        self.root = Node(absorbs=False)

    def match(self, key: str) -> list[Destination]:
        found: Targets = {}
        for node in _reached(self.root, split(key)):
            found.update(node.targets)
        return distinct(dict(sorted(found.items())))

    def _insert(self, key: str, number: int, target: Destination) -> None:
        node = self.root
        for word in split(key):
            node = node.children.setdefault(word, Node(absorbs=word == ANY))
        node.targets[number] = target

    def _discard(self, key: str, number: int) -> None:
        words = split(key)
        path = [self.root]
        for word in words:
            path.append(path[-1].children[word])
        del path[-1].targets[number]
        while words and not path[-1].targets and not path[-1].children:
            path.pop()
            del path[-1].children[words.pop()]


def split(key: str) -> list[str]:
    """The words of a key; words may be empty, and the empty key has none."""
    return key.split(".") if key else []


def _reached(root: Node, words: list[str]) -> list[Node]:
    """The nodes where `words` can end."""
    nodes = _with_any([root])
    for word in words:
        following: dict[Node, None] = {}
        for node in nodes:
            if node.absorbs:
                following[node] = None
            for edge in (word, ONE):
                child = node.children.get(edge)
                if child is not None:
                    following[child] = None
        nodes = _with_any(list(following))
    return nodes


def _with_any(nodes: list[Node]) -> list[Node]:
    """`nodes` and those a `#` that takes no word leads to."""
    known = set(nodes)
    for node in nodes:
        child = node.children.get(ANY)
        if child is not None and child not in known:
            known.add(child)
            nodes.append(child)
    return nodes
